"""A governor left running: one look at the cluster each pass, and a step of every group that is its own.

| what | when |
|---|---|
| heartbeats | by themselves, each when it is due (``heart``) |
| a pass | every ``interval_s``: one look for all groups, the shares of several governors, a step of each own group |
| a plan of a large group | in a worker process; the pass goes on, a later one takes the plan |
| a publication | with the next heartbeat of its carrier; what became of it is in the next pass |
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from apportion.errors import ApportionError, Unavailable
from apportion.governing.carrier import HAND_OVER, LEAVE, Carrier
from apportion.governing.governor import INSTANCE, Governed, Governor, who
from apportion.governing.heart import AT_ONCE, Heart
from apportion.governing.looking import GovernedLook, Selection
from apportion.governing.seen_group import Carried, GroupToGovern
from apportion.governing.sharing import CLUB, share
from apportion.model.group import Group
from apportion.sources.cluster import Cluster, connect, partition_of_group
from apportion.sources.cluster_round import Round, look
from apportion.sources.properties import Properties

LOG: Final = logging.getLogger("apportion.governing")
TICK_S: Final = 0.1
LARGE: Final = 100_000
"""Members times partitions from which on a plan is computed in a worker process."""
WORKERS: Final = 2
PATIENCE_S: Final = 30.0
"""For a release, or a publication that is waited for."""


@dataclass
class Counts:
    """A governor about itself: see ``metrics``.

    began_at, looked_at
        When this governor began, and when its last look at the cluster ended, seconds since 1970.
    passes, pass_s
        How many passes there were, and what the last one took.
    governors
        How many there are of the same rules.
    changes
        Group's outcomes by name, how often each began.
    """

    began_at: float = field(default_factory=lambda: time.time())
    looked_at: float = 0.0
    passes: int = 0
    pass_s: float = 0.0
    governors: int = 1
    changes: Counter[str] = field(default_factory=Counter)
    trouble: str = ""


@contextmanager
def governing(
    bootstrap: str, properties: Properties | None, looks: Cluster, selection: Selection, key: bytes | None = None
) -> Iterator[Governing]:
    """A governor with a name that no other has, on a connection for its heartbeats; the caller closes it."""
    name = f"{INSTANCE}-{uuid.uuid4().hex[:12]}"
    at_once = 2 * AT_ONCE  # kafka-python refuses what is beyond
    with connect(bootstrap, properties, client_id=name, max_in_flight_requests_per_connection=at_once) as beats:
        yield Governing(looks, beats, selection, key)


class Governing:
    """The groups of a selection, as far as this governor's share of them goes.

    looks, beats
        Connections for looking and for heartbeats; may be the same for a few groups.
    me
        The client id of ``beats``, by which governors know each other.
    state
        Of each own group what the last pass came to.
    """

    def __init__(self, looks: Cluster, beats: Cluster, selection: Selection, key: bytes | None = None) -> None:
        self.looks, self.selection, self.key = looks, selection, key
        self.heart = Heart(beats)
        self.me = str(beats._admin.config["client_id"])
        self.governors: dict[str, Governor] = {}
        self.state: dict[str, Governed] = {}
        self.counts = Counts()
        self.member = Carrier(CLUB, None)
        self.member.rack = _cohort(selection)
        self._leaders: Mapping[int, tuple[int, int]] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._computing: dict[str, Future[Any]] = {}
        self.heart.add(self.member)

    def round(self) -> dict[str, Governed]:
        """One pass over all own groups.

        Raises
            Unavailable: the cluster does not answer, or refuses.
        """
        began_s = time.monotonic()
        if not self.counts.passes:
            self.heart.wait([self.member], TICK_S * 20)  # so that the first look knows of this governor
        seen = look(self.looks, lambda admin: GovernedLook(admin, self.selection))
        self.counts.looked_at = seen.ended
        groups = seen.groups.keys() - {CLUB}
        governors = self._governors(seen)
        self.counts.governors = len(governors)
        own = share(groups, _holders(seen), governors, self.me)
        for name in self.governors.keys() & groups - own:
            self._hand_over(name)
        self._announce(seen.leaders)
        outcomes = {name: self._step(name, seen) for name in sorted(own)}
        outcomes |= {name: _failed(f"{name}: {why}") for name, why in seen.unknown.items() if name in self.governors}
        self._count(outcomes)
        self.counts.passes += 1
        self.counts.pass_s = time.monotonic() - began_s
        alone = f"{self.member.trouble}: it takes every group without a governor" if self.member.trouble else ""
        self.counts.trouble = " ".join(filter(None, [*seen.troubles, alone]))
        return outcomes

    def _governors(self, seen: Round) -> list[str]:
        """The governors that are there, of the same rules; this one always."""
        club = seen.groups.get(CLUB)
        members = club.facts["members"].values() if club else ()
        return sorted({self.me, *(m["client_id"] for m in members if m["rack"] == self.member.rack)})

    def _step(self, name: str, seen: Round) -> Governed:
        """One group; its errors are reported, and the others go on."""
        rule = self.selection.rule_of(name)
        if rule is None:
            return _failed(f"no [[group]] of --config is about {name}")
        if name not in self.governors:
            self.governors[name] = Governor(self.heart, name, rule, self.key, compute=partial(self._compute, name))
        try:
            return self.governors[name].step(GroupToGovern(seen.groups[name], seen, "lag" in rule.assignor.goals))
        except ApportionError as error:
            return _failed(str(error))

    def _compute(self, name: str, function: Callable[..., Any], group: Group, *args: Any) -> Any:
        """The plan of a small group; that of a large one comes from a worker process, None until it is there."""
        if group.M * group.P < LARGE:
            return function(group, *args)
        future = self._computing.get(name)
        if future is None:
            self._pool = self._pool or ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"))
            self._computing[name] = self._pool.submit(function, group, *args)
            return None
        if not future.done():
            return None
        del self._computing[name]
        return future.result()

    def _announce(self, leaders: Mapping[int, tuple[int, int]]) -> None:
        """Have the plan said again if a group's records have another leader: it knows members, and no plan."""
        before, self._leaders = self._leaders, leaders
        for name, governor in self.governors.items() if before else ():
            partition = partition_of_group(name, len(leaders)) if leaders else -1
            if before.get(partition) != leaders.get(partition):
                for carrier in governor.carriers:
                    carrier.announce()
                self.heart.wake(governor.carriers)

    def _hand_over(self, name: str) -> None:
        governor = self.governors.pop(name)
        governor.leave(HAND_OVER)
        self.state.pop(name, None)

    def _count(self, outcomes: Mapping[str, Governed]) -> None:
        for name, governed in outcomes.items():
            before = self.state.get(name)
            if before is None or before.outcome != governed.outcome:
                self.counts.changes[governed.outcome] += 1
        self.state = dict(outcomes)

    def close(self, epoch: int = HAND_OVER) -> None:
        """Leave all groups: plans stay in the groups until a session ends, and then in the brokers' memory."""
        for governor in self.governors.values():
            governor.leave(epoch)
        self.member.leave()
        self.heart.wake([self.member])
        self.heart.close()
        if self._pool:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def groups(self) -> list[str]:
        """The groups of the selection that are there."""
        seen = look(self.looks, lambda admin: GovernedLook(admin, self.selection))
        return sorted(seen.groups.keys() - {CLUB})

    # -- giving groups back -------------------------------------------------------------------------------------------

    def release(self, name: str) -> str:
        """Give a group back to ``uniform``, and wait until the brokers have computed; why not, as a sentence, or "".

        Raises
            Unavailable: the cluster does not answer, or refuses.
        """
        ends_s, governor, said = time.monotonic() + PATIENCE_S, None, list[str]()
        while time.monotonic() < ends_s:
            seen = look(self.looks, lambda admin: GovernedLook(admin, self.selection))
            if name not in seen.groups:
                return f"there is no group {name}" if seen.listed(name) else f"{name}: its coordinator does not answer"
            group = GroupToGovern(seen.groups[name], seen, asks_lag=False)
            members = sorted(group.sighting.group.members)
            if governor is None:
                if other := _living(group.carried):
                    return f"{who(other)} governs {name}: end it first; if it is dead, wait for the end of its session"
                governor = Governor(self.heart, name, self.selection.rules[0], self.key)
                governor.let_go(group.sighting.group, group.carried)
            elif self._released(governor, group):
                return ""
            elif said and said != members:
                governor.let_go(group.sighting.group, group.carried)
            said = members
            time.sleep(TICK_S * 3)
        if governor is not None:
            governor.leave(LEAVE)
        return f"{name}: the brokers did not take the release within {PATIENCE_S:.0f} s"

    def _released(self, governor: Governor, seen: GroupToGovern) -> bool:
        """Whether the brokers have computed with a release that names all that are there; then its carrier leaves."""
        if not all(carrier.settled for carrier in governor.carriers) or not seen.computed:
            return False
        if trouble := next((carrier.trouble for carrier in governor.carriers if carrier.trouble), ""):
            raise Unavailable(trouble)
        carriers = {carrier.member_id for carrier in governor.carriers}
        named = governor.named
        carried = any(seat["member_id"] in carriers for seat, _ in seen.carried)
        if not carried or named is None or named != set(seen.sighting.group.members):
            return False
        leaving = list(governor.carriers)
        governor.leave(LEAVE)
        return self.heart.wait(leaving, PATIENCE_S)


def govern(
    governing: Governing,
    interval_s: float,
    report: Callable[[str, Governed], None],
    until: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Govern until ``until`` is true, hand the groups over, and return those whose plan is not followed.

    report
        Hears of each change of a group's outcome, and of each plan that is published.
    """
    reported: dict[str, tuple[str, tuple[str, ...]]] = {}
    due_s, trouble = 0.0, ""
    try:
        while not until():
            if time.monotonic() < due_s:
                time.sleep(TICK_S)
                continue
            due_s = time.monotonic() + interval_s
            try:
                outcomes, found = governing.round(), governing.counts.trouble
            except Unavailable as error:
                outcomes, found = {}, str(error)
            if found and found != trouble:
                LOG.warning("the cluster cannot be looked at whole: %s", found)
            trouble = governing.counts.trouble = found
            for name, governed in outcomes.items():
                words = governed.outcome, governed.sentences
                if governed.outcome == "published" or words != reported.get(name, ("unchanged", ())):
                    report(name, governed)
                reported[name] = words if governed.outcome != "unchanged" else ("unchanged", ())
        return sorted(name for name, governed in governing.state.items() if governed.outcome in ("refused", "failed"))
    finally:
        governing.close()


def _failed(sentence: str) -> Governed:
    return Governed(time.time(), "failed", sentences=(sentence,))


def _living(carried: Carried) -> Mapping[str, Any] | None:
    """The carrier with the lease, unless it has handed it over."""
    seats = (seat for seat, _ in carried if seat["instance_id"] == INSTANCE)
    return next((seat for seat in seats if seat["member_epoch"] >= 0), None)


def _holders(seen: Round) -> dict[str, str]:
    """Group to the governor that has its lease."""
    living = {name: _living(group.facts.get("carriers", ())) for name, group in seen.groups.items()}
    return {name: str(seat["client_id"]) for name, seat in living.items() if seat}


def _cohort(selection: Selection) -> str:
    """The common part of governors with the same rules, so that none is counted for groups that it does not govern."""
    return hashlib.sha256(repr(selection).encode()).hexdigest()[:16]
