"""Recordings of matches and their file format. Importing this package does not load torch."""

from arena.replay.file import RecordingError, pack_recording, read_recording, unpack_recording, write_recording
from arena.replay.header import Header, Result
from arena.replay.recording import MechRecording, Recording, StepsRecording

__all__ = [
    "Header",
    "MechRecording",
    "Recording",
    "RecordingError",
    "Result",
    "StepsRecording",
    "pack_recording",
    "read_recording",
    "unpack_recording",
    "write_recording",
]
