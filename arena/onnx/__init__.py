"""ONNX models as files: their structure and the rules for them, read from the bytes without running the model.

Running one is in `arena.policies.onnx`.
"""
