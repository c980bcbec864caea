"""The images and the composition name settings that exist."""

import re
from pathlib import Path

import pytest

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
