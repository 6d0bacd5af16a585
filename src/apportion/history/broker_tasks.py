"""What the broker's task assignor would give the members of a streams group's epoch, from what it gave them before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from apportion.assignors import Assignor, find
from apportion.errors import BadInput
from apportion.history.predicted_targets import Score
from apportion.history.records import Generation, GenerationMember, GroupRecord
from apportion.history.streams_groups import roles_of
from apportion.server_side.java_hash import string_hash, timeline_rank
from apportion.server_side.sticky_tasks import (
    STANDBYS_SETTING,
    CoordinatorSubtopology,
    MemberTasks,
    TaskId,
    TaskMember,
    sticky_tasks,
)
from apportion.server_side.timeline import Timeline
from apportion.wire.coordinator import EpochRecord

MOST_STANDBYS: Final = 100
"""No group may ask for more; a foreign record that does is not followed."""
_GROUP, _MEMBER, _TARGET, _TARGET_OF, _CURRENT, _TOPOLOGY = 17, 19, 20, 21, 22, 23


@dataclass(frozen=True)
class BrokerSticky:
    """The broker's ``sticky`` task assignor (Kafka 4.3), as a strategy of ``replay`` and ``what-if``.

    num_standby_replicas
        Copies of each stateful task; None: what the group asked for in each epoch.
    """

    num_standby_replicas: int | None = None

    name: ClassVar[str] = "broker-sticky"

    def __post_init__(self) -> None:
        """Refuse what no broker takes."""
        wanted = self.num_standby_replicas
        if wanted is not None and not 0 <= wanted <= MOST_STANDBYS:
            raise BadInput("num_standby_replicas", str(wanted), f"a number from 0 to {MOST_STANDBYS}")

    def give(
        self, generation: Generation, counts: Mapping[str, int], before: Mapping[str, MemberTasks]
    ) -> dict[str, MemberTasks]:
        """Member (by identity) to its target in an epoch.

        counts
            Sub-topology to its tasks.
        before
            The same of the epoch before.
        """
        stateless = set(generation.facts.get("stateless") or ())
        subtopologies = [
            CoordinatorSubtopology(name, tasks, name not in stateless) for name, tasks in sorted(counts.items())
        ]
        # As a coordinator that has just read its log hands them on.
        line = sorted(generation.members, key=lambda member: timeline_rank(string_hash(member.member_id)))
        nothing = MemberTasks()
        members = [
            TaskMember(member.member_id, member.process_id or member.identity, had.active, had.standby)
            for member in line
            for had in (before.get(member.identity, nothing),)
        ]
        standbys = self.num_standby_replicas
        given = sticky_tasks(members, subtopologies, standbys_of(generation) if standbys is None else standbys)
        return {member.identity: given[member.member_id] for member in line}


def task_strategy(name: str, settings: Mapping[str, str]) -> Assignor | BrokerSticky:
    """The strategy of that name, the broker's for tasks too.

    Raises
        UnknownName, BadInput: no such name or setting; a value that is none.
    """
    return broker_sticky(settings) if name == BrokerSticky.name else find(name, settings)


def broker_sticky(settings: Mapping[str, str]) -> BrokerSticky:
    """The broker's with these settings; ``BadInput`` for one that it does not have, or a value that is none."""
    unknown = sorted(set(settings) - {"num_standby_replicas"})
    if unknown:
        raise BadInput(f"settings.{unknown[0]}", "a setting that broker-sticky does not know", "num_standby_replicas")
    text = settings.get("num_standby_replicas")
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 5):
        raise BadInput("settings.num_standby_replicas", repr(text), f"a number from 0 to {MOST_STANDBYS}")
    return BrokerSticky(None if text is None else int(text))


def standbys_of(generation: Generation) -> int:
    """Copies that the group asked for in an epoch; none where its records say nothing, or nothing that makes sense."""
    return _standbys(dict(generation.facts.get("settings") or ()))


def _standbys(settings: Mapping[str, str]) -> int:
    text = settings.get(STANDBYS_SETTING) or ""
    return min(int(text), MOST_STANDBYS) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def given_by(members: Iterable[GenerationMember]) -> dict[str, MemberTasks]:
    """Member (by identity) to the target that the records name."""
    return {member.identity: _tasks(member.roles) for member in members}


def _tasks(roles: Mapping[str, Mapping[str, Sequence[int]]]) -> MemberTasks:
    def of(role: str) -> set[TaskId]:
        return {(name, p) for name, ids in roles.get(role, {}).items() for p in ids}

    return MemberTasks(of("active"), of("standby"))


def score_tasks(events: Iterable[GroupRecord]) -> Score:
    """How many recorded targets of a streams group the model gives to the task, the records before them known.

    Targets without a task are left out: the group's topics were not there yet.
    """
    replayed = _Log()
    for event in events:
        if isinstance(event.record, EpochRecord) and _GROUP <= event.record.key_type <= _TOPOLOGY:
            replayed.take(event.record)
    return Score(len(replayed.right), sum(replayed.right))


class _Log:
    """One streams group's records, taken in order; ``right`` says of each target whether it was computed again."""

    def __init__(self) -> None:
        self.right: list[bool] = []
        self.subtopologies: list[Mapping[str, Any]] = []
        self.settings: dict[str, str] = {}
        self._clear()

    def _clear(self) -> None:
        self.table = Timeline()
        self.members: dict[str, Mapping[str, Any]] = {}
        self.targets: dict[str, MemberTasks] = {}
        self.fresh: dict[str, MemberTasks] = {}
        self.newcomer: str | None = None

    def take(self, record: EpochRecord) -> None:
        """Take one record."""
        member, body = record.member_id or "", record.body
        if record.key_type == _TARGET_OF and body is not None:
            self.fresh[member] = _tasks(roles_of(body))
        elif record.key_type == _TARGET and body is not None:
            self._compare()
        elif record.key_type == _TOPOLOGY:
            self.subtopologies = list((body or {}).get("subtopologies") or ())
        elif record.key_type == _GROUP:
            if body is None:
                self._clear()
            else:
                self.settings = {
                    setting["key"]: setting["value"] for setting in body.get("lastAssignmentConfigs") or ()
                }
        else:
            self._person(record.key_type, member, body)

    def _person(self, key_type: int, member: str, body: Mapping[str, Any] | None) -> None:
        if body is None:
            if key_type == _MEMBER:
                self.table.remove(member)
                self.members.pop(member, None)
            elif key_type == _TARGET_OF:
                self.targets.pop(member, None)
                self.fresh.pop(member, None)
            return
        self._settle()
        if key_type == _MEMBER:
            self.members[member] = body
            if member not in self.table:  # it comes into the table only when its first request was answered
                self.newcomer = member
                return
        self.table.put(member)

    def _settle(self) -> None:
        if self.newcomer is not None:
            self.table.put(self.newcomer)
        self.newcomer = None

    def _compare(self) -> None:
        """A target is whole: compute it from the one before."""
        order = [member for member in self.table.members() if member in self.members]
        order += [self.newcomer] if self.newcomer in self.members else []
        recorded = {member: self.fresh.get(member, self.targets.get(member, MemberTasks())) for member in order}
        if any(given.active for given in recorded.values()):
            self.right.append(self._computed(order, recorded) == recorded)
        self.targets = recorded
        self.fresh = {}
        self._settle()

    def _computed(self, order: Sequence[str], recorded: Mapping[str, MemberTasks]) -> dict[str, MemberTasks] | None:
        tasks = [task for given in recorded.values() for task in given.active]
        sizes: dict[str, int] = {}
        for name, p in tasks:
            sizes[name] = max(sizes.get(name, 0), p + 1)
        if sum(sizes.values()) > 2 * len(tasks):
            return None  # a hostile number; the broker's targets have no gaps
        stateful = {sub["subtopologyId"]: bool(sub["stateChangelogTopics"]) for sub in self.subtopologies}
        subtopologies = [
            CoordinatorSubtopology(name, count, stateful.get(name, True)) for name, count in sorted(sizes.items())
        ]
        nothing = MemberTasks()
        members = [
            TaskMember(member, self.members[member].get("processId") or member, had.active, had.standby)
            for member in order
            for had in (self.targets.get(member, nothing),)
        ]
        return sticky_tasks(members, subtopologies, _standbys(self.settings))
