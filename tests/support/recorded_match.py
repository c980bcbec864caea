"""Matches of a league in this process or elsewhere that have recordings."""

from dataclasses import replace

from league_scene import Scene

from arena.replay import Recording, pack_recording
from arena.seeding import match_seed
from league import wire


def play_recorded(scene: Scene, recording: Recording) -> wire.PlayedMatch:
    """Report a rating match that went as a recording has it, and send that."""
    lease = scene.rating_leases(2)[0]
    seed, outcome = match_seed(lease.seed, 0), recording.header.outcome
    result = wire.Result(
        lease_id=lease.lease_id,
        sequence=0,
        score=outcome.score,
        decisions=outcome.decisions,
        reason=outcome.reason,
        seed=seed,
    )
    (answer,) = scene.report(result, worker=scene.evaluator)
    match = scene.client.match(int(answer.match_id or 0))
    header = replace(
        recording.header,
        environment=scene.environment,
        signature=scene.signature,
        seed=seed,
        players=(match.home.name, match.away.name),
    )
    scene.client.upload_replay(match.id, pack_recording(replace(recording, header=header)))
    return match
