"""A GIF written picture by picture: Pillow's own writer keeps them all in memory, and writes unchanged pixels again."""

import io
import struct

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.GifImagePlugin import getdata

COLOURS = 255
"""Of a palette; number 255 says "as in the picture before"."""

UNCHANGED = COLOURS


class GifWriter:
    """Collects the pictures of a GIF that repeats for ever.

    Args:
        size: Width and height of all pictures.
        palette: A picture with the palette of all pictures, of at most COLOURS colours.
    """

    def __init__(self, size: tuple[int, int], palette: Image.Image) -> None:
        self._palette = palette
        self._shown: NDArray[np.uint8] = np.full((size[1], size[0]), UNCHANGED, dtype=np.uint8)
        self._file = io.BytesIO()
        colours = bytes(palette.getpalette() or ()).ljust(3 * 256, b"\0")
        full_table, repeat = 0xF7, b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
        self._file.write(b"GIF89a" + struct.pack("<HHBBB", *size, full_table, 0, 0) + colours + repeat)

    def add(self, picture: Image.Image, duration_ms: int) -> None:
        """Add a picture: only the box that changed, and in it only the pixels that did."""
        indices = np.asarray(picture.quantize(palette=self._palette, dither=Image.Dither.NONE))
        changed = indices != self._shown
        rows, columns = (np.flatnonzero(changed.any(axis=axis)) for axis in (1, 0))
        top, bottom = (rows[0], rows[-1] + 1) if len(rows) else (0, 1)
        left, right = (columns[0], columns[-1] + 1) if len(columns) else (0, 1)
        box = np.where(changed, indices, UNCHANGED)[top:bottom, left:right].astype(np.uint8)
        blocks = getdata(
            Image.fromarray(box), (int(left), int(top)), duration=duration_ms, transparency=UNCHANGED, disposal=1
        )
        self._file.write(b"".join(blocks))
        self._shown = indices

    def finish(self) -> bytes:
        """The whole file."""
        return self._file.getvalue() + b";"
