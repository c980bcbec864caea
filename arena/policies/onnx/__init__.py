"""Policies in ONNX models: running them, alone and many in one call. The rules for their files are in `arena.onnx`."""
