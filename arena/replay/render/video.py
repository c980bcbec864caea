"""Videos of a match: GIF by Pillow, MP4 by PyAV."""

import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from PIL import Image

from arena.replay.render import palette
from arena.replay.render.image.painter import Painter
from arena.replay.render.interpolate import Interpolator

HOLD_S = 2.5
"""Seconds for which the last image is shown."""

COLOURS = 255
"""Colours of a GIF's palette; Pillow needs one more for unchanged pixels."""

SAMPLES = 9
"""Number of images from which a GIF's colours are chosen."""


@dataclass(frozen=True)
class Clip:
    """Section of a match to render.

    Attributes:
        stage: The match.
        first, last: Range of frames.
        speed: Speed relative to real time.
        pictures_per_s: Frame rate.
        map_size: Edge of the map in pixels.
    """

    stage: Interpolator
    first: int
    last: int
    speed: float
    pictures_per_s: int
    map_size: int

    @property
    def moments(self) -> list[float]:
        """Moments of the images in frames; always includes the last one."""
        step = self.speed / (self.pictures_per_s * self.stage.recording.decision_s)
        return [*np.arange(self.first, self.last - 1e-9, step).tolist(), float(self.last)]


def make_gif(film: Clip, on_drawn: Callable[[int], None]) -> bytes:
    """Render a looping GIF, calling `on_drawn` after every image."""
    painter, moments = Painter(film.stage, film.map_size), film.moments
    samples = [painter.draw(moment) for moment in moments[:: max(1, len(moments) // SAMPLES)]]
    colours = _choose_colours(samples)

    def frames() -> Iterator[Image.Image]:
        for moment in moments:
            yield painter.draw(moment).quantize(palette=colours, dither=Image.Dither.NONE)
            on_drawn(1)

    gif, pictures = io.BytesIO(), frames()
    next(pictures).save(
        gif,
        format="GIF",
        save_all=True,
        append_images=pictures,
        duration=durations_ms(len(moments), film.pictures_per_s),
        loop=0,
        optimize=True,
    )
    return gif.getvalue()


def durations_ms(pictures: int, pictures_per_s: int) -> list[int]:
    """Return the duration of each image in milliseconds, rounded to GIF's hundredths of a second without drift."""
    shown_at = [round(100.0 * number / pictures_per_s) for number in range(pictures)]
    return [*(10 * (after - before) for before, after in itertools.pairwise(shown_at)), round(1000.0 * HOLD_S)]


def make_mp4(film: Clip, on_drawn: Callable[[int], None]) -> bytes:
    """Render an MP4 in H.264, calling `on_drawn` after every image."""
    import av  # optional dependency

    painter, moments = Painter(film.stage, film.map_size), film.moments
    mp4 = io.BytesIO()
    with av.open(mp4, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(film.pictures_per_s), options={"crf": "20"})
        stream.width, stream.height = painter.size
        stream.pix_fmt = "yuv420p"
        for moment in moments + [moments[-1]] * round(HOLD_S * film.pictures_per_s):
            picture = av.VideoFrame.from_ndarray(np.asarray(painter.draw(moment)), format="rgb24")
            container.mux(stream.encode(picture))
            on_drawn(1)
        container.mux(stream.encode())
    return mp4.getvalue()


def _choose_colours(samples: list[Image.Image]) -> Image.Image:
    """Choose a palette for all images: the fixed colours, and those most frequent in the samples."""
    wide = Image.new("RGB", (sum(sample.width for sample in samples), samples[0].height))
    for index, sample in enumerate(samples):
        wide.paste(sample, (index * sample.width, 0))
    fixed = [*palette.TEAMS, *palette.WEAPONS.values(), palette.TEXT, palette.PAINT, palette.ECM, palette.ECCM]
    chosen = wide.quantize(COLOURS - len(fixed), method=Image.Quantize.MEDIANCUT).getpalette() or []
    colours = Image.new("P", (1, 1))
    colours.putpalette([*(channel for colour in fixed for channel in colour), *chosen])
    return colours
