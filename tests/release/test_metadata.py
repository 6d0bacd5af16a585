"""What the package says of itself is so: every range is used, every import has its extra, every pin is needed."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SHIPPED = {extra: ranges for extra, ranges in EXTRAS.items() if extra not in ("all", "dev")}
IMPORTED_AS = {
    "kafka-python": "kafka", "confluent-kafka": "confluent_kafka", "prometheus-client": "prometheus_client",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry", "opentelemetry-sdk": "opentelemetry",
}  # fmt: skip
WITHOUT_IMPORT = {"pandas"}
"""PySpark asks for it by itself where functions on Arrow's batches run."""


def required(requirements: list[str]) -> set[str]:
    """The packages that some requirements name, without ourselves."""
    return {Requirement(one).name for one in requirements} - {"apportion"}


def imported() -> set[str]:
    """The top of each module that the package's sources import and that is neither Python's nor ours."""
    tops = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                tops |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                tops.add((node.module or "").split(".")[0])
    return tops - set(sys.stdlib_module_names) - {"apportion", "__future__"}


@pytest.mark.slow
def test_each_range_is_of_a_package_that_the_sources_import_and_each_import_has_a_range() -> None:
    ranges = required(PROJECT["dependencies"]).union(*map(required, SHIPPED.values()))
    wanted = {IMPORTED_AS.get(name, name) for name in ranges - WITHOUT_IMPORT}
    assert wanted - imported() == set(), "a range that nothing needs"
    known = wanted | WITHOUT_IMPORT | {"pytest", "hypothesis"}  # the kit for authors of strategies brings tests with it
    assert {top for top in imported() if top not in known} == set(), "an import that no extra brings"


def test_all_is_every_extra_there_is() -> None:
    (everything,) = EXTRAS["all"]
    chosen = Requirement(everything).extras
    reached, todo = set(), set(chosen)
    while todo:
        extra = todo.pop()
        reached.add(extra)
        own = [Requirement(one) for one in EXTRAS[extra]]
        todo |= {extra for one in own if one.name == "apportion" for extra in one.extras} - reached
    assert reached == set(SHIPPED)


def test_every_pin_is_needed_and_within_the_ranges() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    versions = {str(canonicalize_name(name)): pin for name, pin in pins.items()}
    ranges = [*PROJECT["dependencies"], *(one for ranges in EXTRAS.values() for one in ranges)]
    needed, unknown = needed_by(ranges)
    # Where a tool is not installed (both ends of the ranges are tried without some) nobody tells what it needs.
    assert unknown or versions.keys() - needed == set(), "stale pins"
    for one in map(Requirement, ranges):
        if one.name != "apportion":
            assert one.specifier.contains(versions[canonicalize_name(one.name)]), one


def needed_by(requirements: list[str]) -> tuple[set[str], set[str]]:
    """The names of all that these requirements bring on the Python of the pins, and those that are not here to ask."""
    pinned_for = {"python_version": "3.11", "python_full_version": "3.11.7"}
    todo = [(Requirement(one), "") for one in requirements]
    seen: set[tuple[str, str]] = set()
    unknown: set[str] = set()
    while todo:
        one, of_extra = todo.pop()
        if one.marker and not one.marker.evaluate({"extra": of_extra, **pinned_for}):
            continue
        for extra in ("", *one.extras):
            place = (str(canonicalize_name(one.name)), extra)
            if place in seen or one.name == "apportion":
                continue
            seen.add(place)
            try:
                theirs = metadata.requires(one.name) or []
            except metadata.PackageNotFoundError:
                unknown.add(one.name)
                continue
            todo += [(Requirement(text), extra) for text in theirs]
    return {name for name, _ in seen}, unknown


def test_the_pythons_are_those_that_the_forges_workflow_tries() -> None:
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    workflow = ROOT / ".github" / "workflows" / "ci.yml"  # which an unpacked sdist does not have
    tried = re.findall(r"python: \[(.*)\]", workflow.read_text(encoding="utf-8")) if workflow.exists() else []
    assert tried or not workflow.exists()
    for versions in tried:
        assert re.findall(r'"(3\.\d+)"', versions) == listed
    assert PROJECT["requires-python"] == f">={listed[0]}"


def test_nothing_is_said_of_an_address_that_does_not_exist() -> None:
    """There is no public address yet; CONTRIBUTING says what to fill in when there is one."""
    assert "urls" not in PROJECT
    assert "project.urls" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
