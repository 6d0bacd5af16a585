"""What the adapters change in their clients' coordinators, as one table, and the versions that it was tried with.

Each change is made on the one coordinator that is given a strategy of ours (``adapter.patch_coordinators``). The
methods are private, so an adapter looks at the client's version and at every method before it changes any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Final, NamedTuple

from apportion.errors import ApportionError, MissingExtra, install_command


class Patch(NamedTuple):
    """One method of a client's coordinator, and what it does here that it does not do there."""

    method: str
    why: str


@dataclass(frozen=True)
class Patched:
    """A client that is patched.

    tried
        Versions that all of it was tried with; ``lowest`` and ``below`` bound what the extra takes.
    patches
        The table: a method may stand in several rows.
    """

    distribution: str
    extra: str
    lowest: str
    below: str
    tried: tuple[str, ...]
    patches: tuple[Patch, ...]


TAKEN_OVER: Final = "a taken instance id fails each call"
KAFKA_PYTHON: Final = Patched(
    "kafka-python",
    "kafka-python",
    *("3.0.12", "3.1", ("3.0.12",)),
    (
        Patch("need_rejoin", "a join that was begun is ended, also where `poll` ends between its two answers"),
        Patch("need_rejoin", "a leader with a rack joins again when replicas move to other racks (KIP-881)"),
        Patch("_do_join_and_sync_async", "an answer between two polls is taken by the next, not asked anew"),
        Patch("_do_join_and_sync_async", "a member expelled while it joins has lost its partitions (KIP-429)"),
        Patch("_do_join_and_sync_async", "a refused member is told both sides' strategies"),
        Patch("_on_join_prepare_async", "the commit before a join leaves out deleted topics (KAFKA-16224)"),
        Patch("_on_join_prepare_async", "the commit before a join has a second at least, however short the poll"),
        Patch("_on_join_prepare_async", "a listener that raises is heard once, and the member joins all the same"),
        Patch("_send_offset_commit_request", "a deleted topic ends the commit before a join as if it were committed"),
        Patch("_process_join_group_response", "an answer without a leader tells that the broker assigns (KIP-848)"),
        Patch("_process_join_group_response", "a static leader that restarted joins again, and leads (KAFKA-13435)"),
        Patch("_on_join_complete_async", "after a generation that an eager member missed, positions are asked anew"),
        Patch("_perform_assignment", "the leader plans from the members' own bytes, and unreadable ones end nothing"),
        Patch("_handle_find_coordinator_response", "a missing right to the group is named, with the command for it"),
        Patch("_send_heartbeat_request", TAKEN_OVER),
        Patch("_send_offset_commit_request", TAKEN_OVER),
        Patch("_do_join_and_sync_async", TAKEN_OVER),
        Patch("poll", "a member that stopped, was forked or taken over raises at each call"),
        Patch("commit_offsets_sync", "a member that was forked or taken over raises at each call"),
    ),
)
AIOKAFKA: Final = Patched(
    "aiokafka",
    "aiokafka",
    *("0.14", "0.15", ("0.14.0",)),
    (
        Patch("_perform_assignment", "the leader reads subscriptions of all versions, and plans in a thread"),
        Patch("_get_metadata_snapshot", "a leader with a rack joins again when replicas move to other racks (KIP-881)"),
        Patch("_send_req", "several strategies go into one JoinGroup, where the client sends one for each"),
        Patch("_send_req", "an answer without a leader tells that the broker assigns (KIP-848)"),
        Patch("_send_req", "a static leader that restarted joins again, and leads (KAFKA-13435)"),
        Patch("_do_rejoin_group", "a refused member is told both sides' strategies"),
        Patch("ensure_coordinator_known", "a missing right to the group is named, with the command for it"),
        Patch("_maybe_do_last_autocommit", "the last commit before a join and the end leaves out deleted topics"),
        Patch("_do_commit_offsets", "a deleted topic ends the last commit as if it were committed"),
        Patch("_on_join_prepare", "what was paused is remembered through a rebalance"),
        Patch("_on_join_complete", "what was paused and stays is paused again, before anything of it is fetched"),
    ),
)


class WrongVersion(MissingExtra):
    """A client is installed in a version that an adapter does not know."""

    def __init__(self, client: Patched, version: str) -> None:
        needed = f"{client.lowest} to {_last_of(client)} needed"
        ApportionError.__init__(self, f"{client.distribution} {version}, {needed}: {install_command(client.extra)}")
        self.extra = client.extra


def _last_of(client: Patched) -> str:
    major, minor = client.below.split(".")
    return f"{major}.{int(minor) - 1}.x"


def unusable(client: Patched, module: str) -> MissingExtra:
    """Why an adapter's imports failed: the client is there in another version, or not at all."""
    try:
        version = metadata.version(client.distribution)
    except metadata.PackageNotFoundError:
        return MissingExtra(module, client.extra)
    return WrongVersion(client, f"{version} found")


def require_patchable(client: Patched, coordinator: type) -> None:
    """Look, before anything is changed, whether this is a version whose methods are known.

    Raises
        WrongVersion with what was found and what is needed.
    """
    version = metadata.version(client.distribution)
    if not _numbers(client.lowest) <= _numbers(version) < _numbers(client.below):
        raise WrongVersion(client, f"{version} found")
    lost = sorted({patch.method for patch in client.patches if not hasattr(coordinator, patch.method)})
    if lost:
        raise WrongVersion(client, f"{version} without {coordinator.__name__}.{lost[0]} found")


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at its head: ``3.1.0.dev2`` is before ``3.1``'s successor, and counts as 3.1.0.

    >>> _numbers("3.0.12"), _numbers("3.1.0.dev2")
    ((3, 0, 12), (3, 1, 0))
    """
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def rows(client: Patched) -> Mapping[str, list[str]]:
    """Method to why it is changed, in the order of the table."""
    reasons: dict[str, list[str]] = {}
    for patch in client.patches:
        reasons.setdefault(patch.method, []).append(patch.why)
    return reasons
