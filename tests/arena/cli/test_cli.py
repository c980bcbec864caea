import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refused import assert_names

from arena.cli import bench, environments, main, output
from arena.environments import make, names
from arena.policies import ActorCritic, Architecture, CoreKind, save

LONG = "a" * 300
THROWS = ((0, "rock"), (1, "paper"), (2, "scissors"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    captured = capsys.readouterr()
    return exit_info.value.code or 0, captured.out, captured.err


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    spec = make("rps", num_envs=1).spec
    path = tmp_path / "policy.safetensors"
    save(path, ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=8)), spec)
    return str(path)


def test_match_json_is_stable(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(
        capsys, "match", "random", "random", "--environment", "rps", "--matches", "30", "--seed", "3", "--json"
    )

    printed = json.loads(out)
    assert code == 0
    keys = ["environment", "home", "away", "matches", "score", "low", "high", "reasons", "decisions_per_s"]
    assert list(printed) == keys
    assert printed["matches"] == 30
    assert printed["reasons"] == {"choice": 30}
    assert 0.0 <= printed["low"] < printed["score"] < printed["high"] <= 1.0
    assert printed["decisions_per_s"] > 0.0


def test_brackets_in_names_of_files_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, checkpoint: str
):
    monkeypatch.chdir(Path(checkpoint).parent)
    named = Path("[/v2] [red] :smile:") / "policy.safetensors"
    named.parent.mkdir(parents=True)
    Path(checkpoint).rename(named)

    _, out, err = run(capsys, "match", str(named), "random", "--environment", "rps", "--matches", "2")

    assert err == ""
    assert f"{named} v" in out


def test_match_repeats_from_its_seed(capsys: pytest.CaptureFixture[str]):
    arguments = ("match", "random", "random", "--environment", "rps", "--matches", "30", "--json", "--seed")

    first, second, other = (json.loads(run(capsys, *arguments, seed)[1])["score"] for seed in ("3", "3", "4"))

    assert first == second
    assert first != other


def test_bench_excludes_the_time_of_the_first_construction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    happened: list[str] = []

    def made(*arguments: object, **options: object) -> object:
        happened.append("made")
        return make(*arguments, **options)

    def clock() -> float:
        happened.append("clock")
        return float(len(happened))

    monkeypatch.setattr("arena.environments.make", made)
    monkeypatch.setattr("arena.cli.match.time.perf_counter", clock)
    assert run(capsys, "match", "random", "random", "--environment", "rps", "--matches", "2")[0] == 0
    assert happened[0] == "made"
    assert happened.count("clock") == 2


@pytest.mark.integration
def test_processes_change_nothing_that_is_played(capsys: pytest.CaptureFixture[str]):
    game = ("match", "random", "random", "--environment", "pettingzoo:tictactoe_v3", "--matches", "4", "--json")
    alone, apart = (json.loads(run(capsys, *game, *more)[1]) for more in ((), ("--processes", "1")))
    for printed in (alone, apart):
        del printed["decisions_per_s"]
    assert alone == apart
    code, _, told = run(capsys, "match", "random", "random", "--environment", "rps", "--processes", "2")
    assert code == 1
    assert_names(told, "rps", 2)


def test_networks_draw_nothing_where_that_is_asked_for(capsys: pytest.CaptureFixture[str], checkpoint: str):
    game = ("match", checkpoint, checkpoint, "--environment", "rps", "--matches", "20", "--json")
    assert json.loads(run(capsys, *game, "--greedy")[1])["score"] == 0.5
    assert json.loads(run(capsys, *game)[1])["matches"] == 20


def test_deterministic_game_plays_one_match_per_side(capsys: pytest.CaptureFixture[str], checkpoint: str):
    game = ("match", checkpoint, checkpoint, "--environment", "rps", "--matches", "20")
    _, out, told = run(capsys, *game, "--greedy", "--json")
    printed = json.loads(out)
    assert (printed["matches"], printed["low"], printed["score"], printed["high"]) == (2, 0.5, 0.5, 0.5)
    assert_names(told, 2)
    assert "certain" in run(capsys, *game, "--greedy")[1]
    once = json.loads(run(capsys, *game[:-1], "1", "--greedy", "--json")[1])
    assert once["low"] < once["score"] < once["high"], "on the other side it may be otherwise"
    _, out, told = run(capsys, "match", checkpoint, "random", *game[3:], "--greedy", "--json")
    assert json.loads(out)["matches"] == 20
    assert not told


def test_with_chance_in_the_game_greedy_networks_play_all_matches(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    spec, path = make("recall", num_envs=1).spec, tmp_path / "policy.safetensors"
    save(path, ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=8)), spec)
    out = run(capsys, "match", str(path), str(path), "--environment", "recall", "--matches", "6", "--greedy", "--json")
    assert json.loads(out[1])["matches"] == 6


def test_where_sides_are_unlike_match_prints_both(capsys: pytest.CaptureFixture[str]):
    game = ("match", "random", "random", "--environment", "openspiel:kuhn_poker", "--matches", "9")
    printed = json.loads(run(capsys, *game, "--json")[1])
    home, away = printed["sides"]
    assert (home["side"], home["role"], home["matches"]) == ("home", "first", 5)
    assert (away["side"], away["role"], away["matches"]) == ("away", "second", 4)
    assert (5 * home["score"] + 4 * away["score"]) / 9 == pytest.approx(printed["score"])
    assert "A home, as first" in run(capsys, *game)[1]
    alone = json.loads(run(capsys, *game[:-1], "1", "--json")[1])
    assert [each["side"] for each in alone["sides"]] == ["home"]


def test_match_takes_a_checkpoint_by_its_path(capsys: pytest.CaptureFixture[str], checkpoint: str):
    code, out, _ = run(capsys, "match", checkpoint, "random", "--environment", "rps", "--matches", "4")

    assert code == 0
    assert "95 % interval" in out
    assert "choice 4" in out


def test_bench_json_is_stable(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "bench", "--environment", "recall", "--num-envs", "8", "--threads", "1", "--json")

    printed = json.loads(out)
    assert code == 0
    assert list(printed)[:5] == ["environment", "num_envs", "device", "agent_steps_per_s", "env_steps_per_s"]
    assert list(printed)[5:] == ["state_bytes_per_env", "observation_bytes_per_env", "shared_bytes"]
    assert printed["agent_steps_per_s"] == pytest.approx(2 * printed["env_steps_per_s"])
    assert printed["device"] == "cpu"


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "random", "random", "--matches", "2", "--environment"),
        ("tournament", "random", "loud_games:lazy", "--matches", "2", "--environment"),
        ("bench", "--num-envs", "1", "--environment"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_output_of_games_does_not_mix_with_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
):
    monkeypatch.setattr(bench, "BENCH_STEPS", 2)
    code, out, err = run(capsys, *arguments, "loud_games:Loud", "--json")
    assert code == 0
    json.loads(out)
    assert {"making", "opening", "playing"} <= set(err.split())


def test_environments_are_listed_with_their_signatures(capsys: pytest.CaptureFixture[str]):
    listed = json.loads(run(capsys, "environments", "--json")[1])["items"]
    table = run(capsys, "environments")[1]

    assert [item["name"] for item in listed] == [*names()]
    assert {"mech-company", "mech-duel", "mech-pack", "recall", "rps", "openspiel:kuhn_poker"} <= {*names()}
    for item in listed:
        assert item["signature"] == make(item["name"], num_envs=1).spec.signature
        assert item["signature"] in table
        assert "random" in [baseline["name"] for baseline in item["baselines"]]
        assert all(f" {block['name']} " in table for block in item["observation"])
        assert all(f" {head['name']} " in table for head in item["heads"])
    for words in ("10 v 10", "4 medium", "lieutenant-half"):
        assert words in table


def test_environments_fit_a_terminal_of_120_columns(capsys: pytest.CaptureFixture[str]):
    table = run(capsys, "environments")[1]

    assert max(len(line.rstrip()) for line in table.splitlines()) <= 120


def test_tables_fit_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "PIPED_WIDTH", 80)
    players = ("lieutenant", "lieutenant-half")
    game = ("--environment", "mech-duel", "--matches", "2")

    printed = (
        run(capsys, "environments")[1]
        + run(capsys, "match", *players, *game)[1]
        + run(capsys, "tournament", *players, "random", "turret", *game)[1]
        + run(capsys, "bench", "--environment", "mech-duel", "--num-envs", "2")[1]
    )

    assert max(len(line) for line in printed.splitlines()) <= 80
    assert "…" not in printed
    for whole in (make("mech-company", num_envs=1).spec.signature, "lieutenant-half", "rating ± 2 RD", "elimination 2"):
        assert f" {whole} " in printed


def test_out_of_memory_is_a_one_line_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes")

    monkeypatch.setattr(bench, "make", full)
    code, _, err = run(capsys, "bench", "--environment", "mech-duel", "--num-envs", "16000000")

    assert code == 1
    assert_names(err, 16000000, "mech-duel", "cpu")
    assert err.count("\n") == 1


def test_match_count_beyond_any_memory_is_bad_usage(capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, "bench", "--environment", "mech-duel", "--num-envs", "100000000000")

    assert code == 2
    assert str(bench.NUM_ENVS_MAX) in err


def test_match_and_bench_know_the_mech_presets(capsys: pytest.CaptureFixture[str]):
    played = run(capsys, "match", "lieutenant", "turret", "--environment", "mech-pack", "--matches", "4", "--json")
    measured = run(capsys, "bench", "--environment", "mech-pack", "--num-envs", "2", "--json")

    match, speed = json.loads(played[1]), json.loads(measured[1])
    assert match["score"] == 1.0
    assert set(match["reasons"]) <= {"zone", "elimination", "time"}
    assert speed["agent_steps_per_s"] == pytest.approx(10 * speed["env_steps_per_s"])
    assert 0 < speed["state_bytes_per_env"] + speed["observation_bytes_per_env"] < 200_000
    assert speed["shared_bytes"] > 0


def test_tournament_prints_ratings_and_scores(capsys: pytest.CaptureFixture[str], checkpoint: str):
    arguments = ("tournament", "random", checkpoint, "--environment", "rps", "--matches", "6")

    printed = json.loads(run(capsys, *arguments, "--json")[1])
    code, table, _ = run(capsys, *arguments)

    assert code == 0
    first, second = printed["items"]
    assert first["rating"] >= second["rating"]
    assert first["scores"][second["player"]] == pytest.approx(1.0 - second["scores"][first["player"]])
    assert first["points"] + second["points"] == pytest.approx(6.0)
    assert "rating ± 2 RD" in table


def test_report_of_a_tournament_comes_from_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    throws = [f"def {name}(batch): return dict(choice=[{action}] * len(batch.observation))" for action, name in THROWS]
    (tmp_path / "throws.py").write_text("\n".join(throws))
    monkeypatch.syspath_prepend(tmp_path)
    file, plot = tmp_path / "results.json", tmp_path / "components.svg"
    players = ("random", *(f"throws:{name}" for _, name in THROWS))
    game = ("--environment", "rps", "--matches", "20", "--output", str(file), "--json")
    played = json.loads(run(capsys, "tournament", *players, *game)[1])
    reported = json.loads(run(capsys, "report", str(file), "--components", "1", "--plot", str(plot), "--json")[1])

    assert reported["players"] == list(players)
    scores = {item["player"]: item["scores"] for item in played["items"]}
    for one, row in zip(players, reported["scores"], strict=True):
        met = [score for score in row if score is not None]
        assert met == pytest.approx([scores[one][other] for other in players if other != one])
    assert reported["source"]["matches"] == 20
    assert reported["strongest_cycle"]["players"] == ["throws:rock", "throws:scissors", "throws:paper"]
    assert plot.read_text().startswith("<svg")

    code, table, _ = run(capsys, "report", str(file), "--limit", "3")
    assert code == 0
    assert "95 % interval" in table
    assert "3 of 4 players; --limit 4 shows all" in table
    assert "strongest predicted cycle: throws:rock beats with" in table


def test_report_of_another_file_is_refused_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "results.json").write_text("{}")
    for name, code in (("results.json", 1), ("gone.json", 1)):
        found, _, err = run(capsys, "report", str(tmp_path / name))
        assert found == code
        assert_names(err, name)
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("match", "random", "random", "--environment", "chess"), 2, "arena: unknown environment 'chess': choose one"),
        (("match", "bob", "random", "--environment", "rps"), 2, "arena: unknown baseline 'bob' of rps: choose one"),
        (("bench", "--environment", "chess"), 2, "arena: unknown environment 'chess'"),
        (("match", "random", "gone.safetensors", "--environment", "rps"), 1, "arena: cannot read checkpoint gone"),
        (("match", LONG, "random", "--environment", "rps"), 2, f"arena: file '{LONG[:100]}"),
        (("bench", "--environment", "rps", "--device", "tpu"), 1, "arena: unknown device 'tpu': choose cpu"),
    ],
)
def test_user_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
):
    exit_code, out, err = run(capsys, *arguments)

    assert exit_code == code
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(environments, "print_json", full)
    code, _, err = run(capsys, "environments", "--json")

    assert code == 1
    assert_names(err, "No space left on device")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "random", "random"),
        ("match", "random", "random", "--environment", "rps", "--matches", "0"),
        ("tournament", "random", "--environment", "rps"),
        ("tournament", "random", "random", "--environment", "rps"),
        ("bench", "--environment", "rps", "--num-envs", "0"),
        ("bench", "--environment", "rps", "--threads", "9223372036854775807"),
        ("bench", "--environment", "rps", "--num-envs", "9223372036854775807"),
        ("wrestle",),
    ],
)
def test_bad_usage_exits_with_two(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]):
    code, _, err = run(capsys, *arguments)

    assert code == 2
    assert "Traceback" not in err


def test_exploitability_of_players_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    spec, path = make("openspiel:kuhn_poker", num_envs=1).spec, str(tmp_path / "policy.safetensors")
    save(Path(path), ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=8)), spec)

    printed = json.loads(run(capsys, "exploitability", path, "random", "--environment", spec.name, "--json")[1])
    table = run(capsys, "exploitability", "random", "--environment", f"{spec.name}:rounds=20")[1]

    assert [item["player"] for item in printed["items"]] == [path, "random"]
    assert printed["items"][0]["exploitability"] != printed["items"][1]["exploitability"] == pytest.approx(11 / 24)
    assert printed["items"][1]["lost_to_home"] + printed["items"][1]["lost_to_away"] == pytest.approx(11 / 12)
    assert "0.4583" in table


def test_exploitability_of_a_phantom_game_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    spec, path = make("openspiel:dark_hex(board_size=2)", num_envs=1).spec, str(tmp_path / "policy.safetensors")
    save(Path(path), ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=8)), spec)

    printed = json.loads(run(capsys, "exploitability", spec.name, path, "random", "--json")[1])

    assert [item["player"] for item in printed["items"]] == [path, "random"]
    assert printed["items"][1]["lost_to_home"] == pytest.approx(1.0)
    assert printed["items"][1]["lost_to_away"] == pytest.approx(0.25)
    assert printed["items"][0]["exploitability"] != pytest.approx(printed["items"][1]["exploitability"])


@pytest.mark.parametrize("core", [CoreKind.FEEDFORWARD, CoreKind.LSTM])
@pytest.mark.parametrize(("shares", "lost"), [((1 / 2, 1 / 6, 1 / 3), 0.0), ((0.98, 0.01, 0.01), 1.93)])
def test_exploitability_of_a_matrix_game_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, core: CoreKind, shares: tuple[float, ...], lost: float
):
    """Paper wins 2 x 0.98 - 3 x 0.01 of the second policy; nothing wins of the first, the equilibrium."""
    spec, path = make("rps", num_envs=1).spec, str(tmp_path / "policy.safetensors")
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(8,), core=core, recurrent_size=8))
    with torch.no_grad():
        network.actor.weight.zero_()
        network.actor.bias.copy_(torch.tensor(shares).log())
    save(Path(path), network, spec)

    alone = json.loads(run(capsys, "exploitability", "rps", path, "--json")[1])
    beside = json.loads(run(capsys, "exploitability", path, "random", "--environment", "rps", "--json")[1])

    assert alone["environment"] == "rps"
    assert alone["exploitability"] == pytest.approx(lost, abs=1e-6)
    assert alone["lost_to_home"] == pytest.approx(alone["lost_to_away"])
    assert alone["items"] == beside["items"][:1]
    assert beside["items"][1]["exploitability"] == pytest.approx(2 / 3)


def test_exploitability_of_rounds_of_a_matrix_game_is_that_of_one_round(capsys: pytest.CaptureFixture[str]):
    printed = json.loads(run(capsys, "exploitability", "rps:rounds=10", "random", "--json")[1])

    assert printed["exploitability"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["rps"], "rps"),
        (["rps", "process:./bot"], "process:./bot"),
        (["recall", "random"], "rps"),
    ],
)
def test_exploitability_error_names_the_unsupported_policy(
    capsys: pytest.CaptureFixture[str], arguments: list[str], names: str
):
    code, _, err = run(capsys, "exploitability", *arguments)

    assert code == 2
    assert names in " ".join(err.replace("│", " ").split())


def test_exploitability_needs_a_game_of_openspiel(capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, "exploitability", "random", "--environment", "recall")

    assert code == 2
    assert_names(err, "OpenSpiel", "openspiel:GAME", "recall")


@pytest.mark.integration
def test_help_is_quick_to_come_because_it_loads_no_torch():
    loaded = subprocess.run(
        [sys.executable, "-c", "import arena.cli, sys; sys.exit('torch' in sys.modules)"], check=False
    )

    assert loaded.returncode == 0


SMALL_DEPTH = ("--matches", "2", "--rounds", "1", "--candidates", "4")


@pytest.mark.integration
def test_depth_of_a_preset_is_printed_and_continues_from_its_state(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    state = str(tmp_path / "duel.json")
    arguments = ("depth", "mech-duel", "turret", *SMALL_DEPTH, "--state", state)

    printed = json.loads(run(capsys, *arguments, "--json")[1])
    before = Path(state).read_bytes()
    again = json.loads(run(capsys, *arguments, "--json")[1])
    table = run(capsys, *arguments)[1]
    _, _, err = run(capsys, *arguments, "--seed", "1")

    assert printed == again
    assert Path(state).read_bytes() == before
    assert printed["players"][:3] == ["lieutenant", "turret", "plain"]
    assert sum(printed["nash"]) == pytest.approx(1.0)
    assert {"mixture", "lieutenant", "ablations", "cyclic_share", "tactics_above_10_percent"} <= printed.keys()
    assert all(text in table for text in ("turret", "cyclic share", "score of home", "strafing"))
    assert_names(err, state, "seed", "0", "1")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("rps",), ("rps", "mech-duel")),
        (("mech-duel", "--matches", "3"), ("3", "even")),
        (("mech-duel", "--state", "STATE"), ("--state",)),
    ],
)
def test_depth_rejects_what_it_cannot_measure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], expected: tuple[str, ...]
):
    state = tmp_path / "broken.json"
    state.write_text("[]")
    code, _, err = run(capsys, "depth", *(str(state) if each == "STATE" else each for each in arguments))
    assert code != 0
    assert all(text in err for text in expected)
