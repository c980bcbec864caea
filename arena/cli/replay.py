"""`arena replay`."""

import contextlib
import importlib.util
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from arena.atomic_files import write_atomically
from arena.cli.output import print_json, progress, stdout
from arena.errors import ArenaError, MissingPackageError
from arena.replay import MechRecording, Recording, read_recording

app = typer.Typer()

REFRESH_S = 0.1
"""Seconds between two frames in a terminal."""
HOLD_S = 1.5
"""Seconds for which the last frame stays."""

PILLOW, PYAV = ("PIL", "Pillow", "train"), ("av", "PyAV", "video")
FORMATS = {".gif": (PILLOW,), ".mp4": (PILLOW, PYAV)}
"""Required packages by file suffix: module, name and extra."""

RecordingFile = Annotated[Path, typer.Argument(metavar="FILE", help="Recording of `arena match --record`.")]
Speed = Annotated[float, typer.Option("--speed", min=0.1, max=100.0, help="Speed relative to real time.")]
First = Annotated[int, typer.Option("--from", min=0, metavar="DECISION", help="First decision.")]
Last = Annotated[int | None, typer.Option("--to", min=1, metavar="DECISION", help="Last decision.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", dir_okay=False, help="Write an animation: FILE.gif or FILE.mp4."),
]
PicturesPerS = Annotated[int, typer.Option("--fps", min=1, max=50, help="Frames per second, with --out.")]
Size = Annotated[int, typer.Option("--size", min=160, max=2160, help="Edge of the map in pixels, with --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON without the frames.")]


@app.command(epilog="Example: arena replay first.replay.json.gz --out first.gif --speed 2")
def replay(
    file: RecordingFile,
    speed: Speed = 1.0,
    first: First = 0,
    last: Last = None,
    out: Out = None,
    pictures_per_s: PicturesPerS = 10,
    size: Size = 640,
    as_json: AsJson = False,
) -> None:
    """Show a recorded match: live in a terminal, as a table elsewhere, or write it as a GIF or MP4."""
    if out is not None:
        _require_format(out)
    recording = read_recording(file)
    stretch = _cut(recording, first, last)
    if out is not None:
        _write_film(recording, stretch, out, speed, pictures_per_s, size)
    elif as_json:
        from arena.replay.render.summary import summarise

        print_json(summarise(recording))
    else:
        from arena.replay.render.summary import tabulate

        console = stdout()
        if console.is_terminal and isinstance(recording, MechRecording):
            _play(recording, stretch, speed, console)
        console.print(tabulate(recording))


def _require_format(out: Path) -> None:
    """Reject an unknown file format, or one whose packages are not installed."""
    if out.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{out}: give a file that ends in {' or '.join(FORMATS)}", param_hint="--out")
    for module, name, extra in FORMATS[out.suffix.lower()]:
        if importlib.util.find_spec(module) is None:
            raise MissingPackageError(
                f"writing {out} needs {name}, which is not installed: pip install 'echelon-league[{extra}]'"
            )


def _cut(recording: Recording, first: int, last: int | None) -> tuple[int, int]:
    """Return the first and last decision to show."""
    decisions = recording.header.outcome.decisions
    end = decisions if last is None else last
    if not first < end <= decisions:
        raise typer.BadParameter(
            f"decisions {first} to {end} of a match of {decisions}: give 0 to {decisions}, in order",
            param_hint="--from, --to",
        )
    return first, end


def _play(recording: MechRecording, stretch: tuple[int, int], speed: float, console: Console) -> None:
    """Play the recording in real time; Ctrl-C ends it."""
    from arena.replay.render.interpolate import Interpolator
    from arena.replay.render.terminal import TerminalView

    stage, moment, last = Interpolator(recording), float(stretch[0]), stretch[1]
    start = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while moment < last:
            moment = min(last, stretch[0] + (time.monotonic() - start) * speed / recording.decision_s)
            live.update(TerminalView(stage, console.width, console.height).show(moment), refresh=True)
            time.sleep(REFRESH_S)
        time.sleep(HOLD_S)


def _write_film(
    recording: Recording, stretch: tuple[int, int], out: Path, speed: float, pictures_per_s: int, size: int
) -> None:
    if not isinstance(recording, MechRecording):
        raise typer.BadParameter(
            f"{out}: a match of {recording.header.environment} has no animation; omit --out to read its decisions",
            param_hint="--out",
        )
    from arena.replay.render.interpolate import Interpolator
    from arena.replay.render.video import Clip, make_gif, make_mp4

    film = Clip(Interpolator(recording), *stretch, speed, pictures_per_s, size)
    make = make_gif if out.suffix.lower() == ".gif" else make_mp4
    with progress(f"drawing {out.name}", len(film.moments)) as advance:
        data = make(film, advance)
    try:
        write_atomically(out, data)
    except OSError as error:
        raise ArenaError(f"cannot write {out}: {error.strerror}; choose another file") from error
    typer.echo(f"wrote {out}: {len(film.moments)} pictures, {len(data) / 1e6:.1f} MB", err=True)
