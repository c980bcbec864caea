"""Upload and download of checkpoints."""

import hashlib
import io
from pathlib import Path

import httpx2

from league import wire
from league.client import transfer
from league.client.connection import Connection, raise_for_problem, retriable_rejection
from league.errors import HashMismatchError
from league.request_class import request_class
from league.wire import PREFIX


class CheckpointCalls(Connection):
    """Calls for checkpoints."""

    def upload(self, checkpoint: Path | bytes, sha256: str) -> None:
        """Upload a checkpoint under its hash, unless the league already has it.

        Raises:
            HashMismatchError: The bytes do not match the hash.
            RefusedCheckpointError: The bytes are not a safetensors file.
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
        """Download a checkpoint and verify its hash; a broken transfer resumes.

        Raises:
            UnknownCheckpointError: The league does not have it.
            HashMismatchError: The received bytes do not match the hash.
        """
        path, fetch = f"{PREFIX}/checkpoints/{sha256}", transfer.Fetch(self._timeout_s)
        until = self._patience.begin()
        while not fetch.complete:
            self._fetch_on(path, fetch, until)
        content = fetch.content()
        received = hashlib.sha256(content).hexdigest()
        if received != sha256:
            rule = f"the bytes received hash to {received}"
            raise HashMismatchError(sha256, rule, "download again; if the error persists, publish the checkpoint again")
        return content

    def _fetch_on(self, path: str, fetch: transfer.Fetch, until: float) -> None:
        """Continue a download until it completes or the connection breaks."""
        kind, before = request_class("GET", path), fetch.received
        self._patience.await_turn(kind, until)
        headers = {**self._headers, **fetch.headers}
        try:
            with self._http.stream("GET", path, headers=headers, follow_redirects=False) as response:
                if response.is_success or response.has_redirect_location:
                    fetch.take(response)
                    return
                response.read()
        except httpx2.TransportError as error:
            # Without progress, another attempt would only repeat the failure.
            if fetch.received <= before:
                raise self._unreachable(error) from error
            return
        refusal = retriable_rejection(response)
        if refusal is None:
            raise_for_problem(response)
        else:
            self._patience.record(kind, refusal)
