"""Calls about bytes of checkpoints."""

import hashlib
import io
from pathlib import Path

import httpx2

from league import wire
from league.client import transfer
from league.client.connection import Connection, come_back_later, raise_for_problem
from league.errors import HashMismatchError
from league.wire import PREFIX
from league.wire.request_class import request_class


class CheckpointCalls(Connection):
    """Send checkpoints and fetch them."""

    def upload(self, checkpoint: Path | bytes, sha256: str) -> None:
        """Store a checkpoint's bytes under their hash; nothing is sent where the league has them.

        Raises:
            HashMismatchError: The bytes are not those that the hash names.
            RefusedCheckpointError: They are not a safetensors file.
        """
        path = f"/checkpoints/{sha256}"
        size_bytes = len(checkpoint) if isinstance(checkpoint, bytes) else checkpoint.stat().st_size
        upload = self._post(f"{path}/uploads", wire.UploadCreate(size_bytes=size_bytes), wire.Upload)
        if upload.stored:
            return
        with io.BytesIO(checkpoint) if isinstance(checkpoint, bytes) else checkpoint.open("rb") as content:
            if upload.url is None:
                raise_for_problem(self._send("PUT", PREFIX + path, content=content))
                return
            transfer.send(upload.url, upload.headers, content, size_bytes, self._timeout_s)
        raise_for_problem(self._send("POST", f"{PREFIX}{path}/complete"))

    def download(self, sha256: str) -> bytes:
        """Fetch a checkpoint's bytes, verified against their hash; a broken transfer goes on where it broke.

        Raises:
            UnknownCheckpointError: The league does not have it.
            HashMismatchError: Other bytes came.
        """
        path, fetch = f"{PREFIX}/checkpoints/{sha256}", transfer.Fetch(self._timeout_s)
        until = self._patience.begin()
        while not fetch.complete:
            self._fetch_on(path, fetch, until)
        content = fetch.content()
        received = hashlib.sha256(content).hexdigest()
        if received != sha256:
            rule = f"the bytes received hash to {received}"
            raise HashMismatchError(sha256, rule, "fetch again; if it stays, publish the checkpoint anew")
        return content

    def _fetch_on(self, path: str, fetch: transfer.Fetch, until: float) -> None:
        """Fetch more of a checkpoint, all of it if the connection holds."""
        lane, before = request_class("GET", path), fetch.received
        self._patience.await_turn(lane, until)
        headers = {**self._headers, **fetch.headers}
        try:
            with self._http.stream("GET", path, headers=headers, follow_redirects=False) as answer:
                if answer.is_success or answer.has_redirect_location:
                    fetch.take(answer)
                    return
                answer.read()
        except httpx2.TransportError as error:
            if fetch.received <= before:
                raise self._unreachable(error) from error
            return
        refusal = come_back_later(answer)
        if refusal is None:
            raise_for_problem(answer)
        else:
            self._patience.note(lane, refusal)
