"""How many of a broker's recorded targets of tasks its own assignor, as we follow it, gives to the task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apportion.assignors.broker_sticky import MOST_STANDBYS
from apportion.history.predicted_targets import Score
from apportion.history.records import Generation, GroupRecord
from apportion.history.streams_groups import roles_of
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

_GROUP, _MEMBER, _TARGET, _TARGET_OF, _CURRENT, _TOPOLOGY = 17, 19, 20, 21, 22, 23


def standbys_of(generation: Generation) -> int:
    """Copies that the group asked for in an epoch; none if its records say nothing, or nothing that makes sense."""
    return _standbys(dict(generation.facts.get("settings") or ()))


def _standbys(settings: Mapping[str, str]) -> int:
    text = settings.get(STANDBYS_SETTING) or ""
    return min(int(text), MOST_STANDBYS) if text.isascii() and text.isdigit() and len(text) < 10 else 0


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
