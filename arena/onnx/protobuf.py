"""Sequential reader of protobuf messages that holds one block of the file in memory.

Source: the wire format, https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

_BLOCK_BYTES = 2**20
_FIELDS_MAX = 500_000
"""Most fields of a file, about a second of reading; a policy of 1,000 nodes has about 20,000."""

_TEXT_MAX_BYTES = 2**16
_VARINT_BITS, _VARINT_MAX = 64, 0xFFFF_FFFF_FFFF_FFFF
_FIXED_SIZES = {1: 8, 5: 4}
_VARINT, _DELIMITED = 0, 2


class Readable(Protocol):
    """Sequential reader."""

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, fewer at the end."""


class Source:
    """Bytes of a file in order.

    Args:
        stream: The file after `start`.
        start: Bytes that were read before.
    """

    def __init__(self, stream: Readable, start: bytes = b"") -> None:
        self._stream = stream
        self._block, self._index = start, 0
        self._fields = 0
        self.position = 0

    def count_field(self) -> None:
        """Count one more field.

        Raises:
            ValueError: The file has too many.
        """
        self._fields += 1
        if self._fields > _FIELDS_MAX:
            raise ValueError(f"it has more than {_FIELDS_MAX} fields")

    def varint(self) -> int:
        """Return the next base-128 integer, unsigned."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= _VARINT_BITS:
                raise ValueError(f"the number before byte {self.position} has no end")
        return value & _VARINT_MAX

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        parts = []
        while size:
            part = self._next(size)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        while size:
            size -= len(self._next(size))

    def _byte(self) -> int:
        return self._next(1)[0]

    def _next(self, most: int) -> bytes:
        """Return at least one and at most `most` bytes."""
        if self._index == len(self._block):
            self._block, self._index = self._stream.read(_BLOCK_BYTES), 0
            if not self._block:
                raise ValueError(f"it ends at byte {self.position}, within a field")
        part = self._block[self._index : self._index + most]
        self._index += len(part)
        self.position += len(part)
        return part


@dataclass(frozen=True)
class Message:
    """A message, text or array of bytes that ends at byte `end` of the source."""

    source: Source
    end: int

    def fields(self) -> Iterator[tuple[int, "int | Message"]]:
        """Yield number and value of each field; a delimited value is lost once the next field is read.

        Raises:
            ValueError: The bytes are no message.
        """
        source = self.source
        while source.position < self.end:
            source.count_field()
            number, wire_type = divmod(source.varint(), 8)
            if wire_type == _VARINT:
                yield number, source.varint()
            elif wire_type == _DELIMITED:
                size = source.varint()
                end = source.position + size
                if end > self.end:
                    raise ValueError(f"field {number} before byte {source.position} has {size} bytes, more than fit")
                yield number, Message(source, end)
                source.skip(end - source.position)
            elif wire_type in _FIXED_SIZES:
                yield number, int.from_bytes(source.take(_FIXED_SIZES[wire_type]), "little")
            else:
                raise ValueError(f"field {number} before byte {source.position} has the unknown type {wire_type}")
        if source.position != self.end:
            raise ValueError(f"a field ends at byte {source.position}, after its message")

    def text(self) -> str:
        """Return the value as UTF-8 text.

        Raises:
            ValueError: It is no text, or longer than 64 KiB.
        """
        size = self.end - self.source.position
        if size > _TEXT_MAX_BYTES:
            raise ValueError(f"a name has {size} bytes, and at most {_TEXT_MAX_BYTES} are read")
        return self.source.take(size).decode("utf-8")
