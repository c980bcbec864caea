"""Matches of a league in this process or elsewhere that have recordings."""

from league_scene import Scene

from arena.replay import Recording
from league import wire
from league.cli.demo.simulation import report_recording


def play_recorded(scene: Scene, recording: Recording) -> wire.PlayedMatch:
    """Report a rating match that went as a recording has it, and send that."""
    (lease, *_), where = scene.rating_leases(2), {"environment": scene.environment, "signature": scene.signature}
    return report_recording(scene.client, scene.evaluator, lease, recording, **where)
