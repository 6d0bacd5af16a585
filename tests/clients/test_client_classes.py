"""What we change in the clients stands in subclasses, which one place installs; the versions and the page agree."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import apportion.clients
from apportion.clients.aio_kafka.coordinator import ApportionGroupCoordinator
from apportion.clients.group.client_versions import (
    AIOKAFKA,
    KAFKA_PYTHON,
    SupportedClient,
    WrongVersion,
    changes,
    overrides,
    require_known,
    unusable,
)
from apportion.clients.kafka_python.coordinator import ApportionCoordinator
from apportion.clients.kafka_python.fetcher import ApportionFetcher
from apportion.errors import MissingExtra, install_command

DOCS = Path(__file__).parents[2] / "docs"
OURS: list[tuple[Any, type[Any]]] = [
    (KAFKA_PYTHON, ApportionCoordinator),
    (KAFKA_PYTHON, ApportionFetcher),
    (AIOKAFKA, ApportionGroupCoordinator),
]


class Lacking:
    """A client's class that has lost a method."""


class Derived(Lacking):
    """A class of ours."""

    @overrides
    def poll(self) -> None:
        """Why it is changed."""


def versions(client: SupportedClient) -> tuple[list[str], list[str]]:
    major, minor = client.below.split(".")
    inside = [client.lowest, *client.tried, f"{client.lowest}.99"]
    return inside, [
        client.below,
        f"{client.below}.0.dev2",
        f"{int(major) + 1}.0",
        f"{major}.{int(minor) - 2}.99",
        "dev",
    ]


@pytest.mark.parametrize("client", [KAFKA_PYTHON, AIOKAFKA])
def test_a_client_that_is_not_known_is_named_with_both_versions_before_anything_is_changed(
    monkeypatch: pytest.MonkeyPatch, client: SupportedClient
) -> None:
    inside, outside = versions(client)
    for version in inside:
        monkeypatch.setattr(metadata, "version", lambda _, version=version: version)
        require_known(client)
        with pytest.raises(WrongVersion, match=r"without Lacking\.poll found"):
            require_known(client, Derived)
    for version in outside:
        monkeypatch.setattr(metadata, "version", lambda _, version=version: version)
        with pytest.raises(WrongVersion) as refused:
            require_known(client)
        assert str(refused.value).startswith(f"{client.distribution} {version} found, {client.lowest} to ")
        assert str(refused.value).endswith(install_command(client.extra))
        assert str(unusable(client, "apportion.clients.x")) == str(refused.value)


def test_a_client_that_is_not_there_is_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", version)
    missing = unusable(KAFKA_PYTHON, "apportion.clients.kafka_python")
    assert type(missing) is MissingExtra
    assert "needs a library that is not installed" in str(missing)


@pytest.mark.parametrize(("client", "ours"), OURS)
def test_the_page_has_each_method_that_a_class_of_ours_changes_with_its_reason(
    client: SupportedClient, ours: type
) -> None:
    """And each method of the client's that a class has in its own form is marked, so that none is missing there."""
    base, page = ours.__mro__[1], (DOCS / "client-changes.md").read_text()
    own = {name for name, value in vars(ours).items() if callable(value) and hasattr(base, name)}
    assert own - {"__init__", "__doc__"} == changes(ours).keys()
    rows = "\n".join(f"| `{method}` | {reason.rstrip('.')} |" for method, reason in changes(ours).items())
    assert f"|---|---|\n{rows}\n\n" in page, f"the table is to be\n{rows}"
    assert metadata.version(client.distribution) in client.tried
    assert f"`{base.__name__}`" in page


def assignments(tree: ast.AST) -> Iterator[ast.expr]:
    """What is assigned to, deleted, or set by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield target
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[thing, *_]):
                yield ast.Attribute(thing, "by name")


def attributes(target: ast.expr) -> Iterator[ast.Attribute]:
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from attributes(part)
    elif isinstance(target, ast.Attribute):
        yield target


OBJECTS_OF_OURS = {
    "assignor", "method",  # functions
    "member.may_join", "bridge.warm_up", "self.feed.on_nudge", "self._bridge.memory_now",
    "self._numbers.default_factory", "self.hands_over",
    "folder._users", "state.error", "state.sent", "state.expected", "self.running[task].given",
}  # fmt: skip


def test_one_place_alone_assigns_to_a_class_or_an_object_of_a_client() -> None:
    """``install`` lets a client's class choose one of ours; all else is a subclass, or an object of our own."""
    folder = Path(apportion.clients.__file__).parent
    strange: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.py")):
        for target in assignments(ast.parse(path.read_text())):
            for attribute in attributes(target):
                owner = ast.unparse(attribute.value)
                if owner not in {"self", "cls"} | OBJECTS_OF_OURS and ast.unparse(attribute) not in OBJECTS_OF_OURS:
                    strange[f"{path.relative_to(folder)}: {ast.unparse(attribute)}"] = attribute
    assert list(strange) == ["group/adapter.py: base.__new__"]


def test_no_class_of_ours_has_a_field_that_its_client_sets_in_its_own_way() -> None:
    """A name that both used for different things would be overwritten in silence."""
    for _, ours in OURS:
        own = fields(ours)
        for base in ours.__mro__[1:-1]:
            assert not own & fields(base) - SHARED, (ours, own & fields(base))


SHARED = {"coordinator_id", "rejoining", "_offset_fetch_futures", "_next_partition_records"} | {
    "_group_subscription", "_metadata_snapshot", "_rebalance_protocol", "_rejoin_needed_fut",
}  # fmt: skip
"""Fields of the client's that a class of ours sets as the client does."""


def fields(cls: type) -> set[str]:
    found = (
        attribute
        for target in assignments(ast.parse(inspect.getsource(cls).strip()))
        for attribute in attributes(target)
    )
    return {one.attr for one in found if isinstance(one.value, ast.Name) and one.value.id == "self"}
