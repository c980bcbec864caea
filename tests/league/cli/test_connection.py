"""Where a command looks for the league."""

from pathlib import Path

import pytest
from league_command import Run
from reserved_port import reserved

from league.home import publish_address


@pytest.mark.parametrize(
    ("variable", "option", "named"),
    [
        (False, False, "from var/league.url"),
        (True, False, "from LEAGUE_URL"),
        (True, True, "check the address"),
        (False, True, "check the address"),
    ],
)
def test_a_command_names_the_place_of_an_address_where_no_league_answers(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: bool, option: bool, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAGUE_HOME", raising=False)
    publish_address(Path("var"), "http://127.0.0.1:9")
    with reserved() as port:
        dead = f"http://127.0.0.1:{port}"
        if variable:
            monkeypatch.setenv("LEAGUE_URL", "http://127.0.0.1:9" if option else dead)
        elif not option:
            publish_address(Path("var"), dead)
        outcome = command("players", *(("--url", dead) if option else ()))
    assert outcome.code == 75
    assert dead in outcome.one_line_error
    assert named in outcome.err
