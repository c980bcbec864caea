"""Upload and download of checkpoints."""

import hashlib
import io
from pathlib import Path

from league import wire
from league.client import transfer
from league.client.operation import Call, Steps, operation, post
from league.client.responses import raise_for_problem
from league.errors import HashMismatchError
from league.wire import PREFIX


class CheckpointCalls:
    """Calls for checkpoints."""

    @operation
    def upload(self, checkpoint: Path | bytes, sha256: str) -> Steps[None]:
        """Upload a checkpoint under its hash, unless the league already has it.

        Raises:
            HashMismatchError: The bytes do not match the hash.
            RefusedCheckpointError: The bytes are neither a safetensors file nor an ONNX model.
        """
        path = f"/checkpoints/{sha256}"
        size_bytes = len(checkpoint) if isinstance(checkpoint, bytes) else checkpoint.stat().st_size
        upload = yield from post(f"{path}/uploads", wire.UploadCreate(size_bytes=size_bytes), wire.Upload)
        if upload.stored:
            return
        with io.BytesIO(checkpoint) if isinstance(checkpoint, bytes) else checkpoint.open("rb") as content:
            if upload.url is None:
                raise_for_problem((yield Call("PUT", PREFIX + path, content=content)))
                return
            yield from transfer.send(upload.url, upload.headers, content, size_bytes)
        raise_for_problem((yield Call("POST", f"{PREFIX}{path}/complete")))

    @operation
    def download(self, sha256: str) -> Steps[bytes]:
        """Download a checkpoint and verify its hash; a broken transfer resumes.

        Raises:
            UnknownCheckpointError: The league does not have it.
            HashMismatchError: The received bytes do not match the hash.
        """
        content = yield from transfer.fetch(f"{PREFIX}/checkpoints/{sha256}")
        received = hashlib.sha256(content).hexdigest()
        if received != sha256:
            rule = f"the bytes received hash to {received}"
            raise HashMismatchError(sha256, rule, "download again; if the error persists, publish the checkpoint again")
        return content
