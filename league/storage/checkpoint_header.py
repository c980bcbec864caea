"""Header of a checkpoint in either format: a safetensors file or an ONNX model. Nothing is loaded or run."""

from arena.errors import OnnxModelError
from arena.onnx.model import START_BYTES, is_onnx, read_model
from arena.onnx.protobuf import Readable
from league.errors import RefusedCheckpointError
from league.storage import safetensors_header
from league.storage.safetensors_header import Header


def read_header(stream: Readable, size: int, name: str) -> Header:
    """Return the header of a checkpoint after checking that the file is well-formed.

    Of an ONNX model, the whole file is read and the header has no tensors.

    Args:
        stream: The file at its start.
        size: Size of the whole file in bytes.
        name: Name of the file in errors.

    Raises:
        RefusedCheckpointError: The file is neither a well-formed safetensors file nor a valid ONNX model.
    """
    start = stream.read(START_BYTES)
    if not is_onnx(start):
        return safetensors_header.read_header(start, stream, size, name)
    try:
        return Header(read_model(stream, size, start).metadata, {})
    except OnnxModelError as error:
        raise RefusedCheckpointError(name, error.rule, error.remedy) from error
