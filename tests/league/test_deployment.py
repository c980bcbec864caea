"""The images and the composition name settings that exist."""

import re
from pathlib import Path

import pytest
import yaml

from league.config import Settings

ROOT = Path(__file__).parents[2]
CLIENT_SIDE = {"LEAGUE_URL", "LEAGUE_TOKEN"}


@pytest.mark.parametrize("name", ["docker-compose.yml", "Dockerfile"])
def test_every_league_variable_is_a_setting(name: str) -> None:
    known = {f"LEAGUE_{field.upper()}" for field in Settings.model_fields} | CLIENT_SIDE
    named = set(re.findall(r"LEAGUE_[A-Z_]+", (ROOT / name).read_text()))
    assert named
    assert named <= known


@pytest.mark.parametrize("name", ["docker-compose.yml", "Dockerfile"])
def test_every_image_is_pinned(name: str) -> None:
    images = re.findall(r"^\s*(?:image:|FROM)\s+(\S+)", (ROOT / name).read_text(), flags=re.MULTILINE)
    assert images
    assert [image for image in images if image != "league" and not re.search(r":\d+\.\d+", image)] == []


def test_workers_of_the_composition_keep_what_they_have_not_sent_in_a_volume_that_lasts() -> None:
    composition = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    folders = {}
    for name, service in composition["services"].items():
        command = service.get("command", [])
        if command[:1] == ["trainer"]:
            folders[name] = Path(command[command.index("--run") + 1])
            volume, place = service["volumes"][0].split(":")
            assert volume in composition["volumes"]
            assert folders[name].parent == Path(place)
    assert set(folders) == {"trainer", "evaluator"}
    assert len(set(folders.values())) == len(folders)


def test_a_password_of_any_characters_reaches_the_database() -> None:
    """In an address it would have to be quoted, which a composition cannot do."""
    league = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["league"]["environment"]
    assert "$" not in league["LEAGUE_DATABASE_URL"]
    assert league["PGPASSWORD"].startswith("${POSTGRES_PASSWORD")
