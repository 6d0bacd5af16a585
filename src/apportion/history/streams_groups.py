"""The records of a streams group (KIP-1071) folded: tasks by member, process and role; epochs with their causes.

In a generation a sub-topology stands where a topic stands for consumers, and a task's number where a partition does: so
moves, joins and needless moves are counted in tasks, by the same code. In the present a member holds the partitions
that its active tasks read, by topic, and its tasks stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from apportion.history.broker_assigned import Body, BrokerAssigned, member_of
from apportion.history.records import Assigned, Generation, GenerationMember, GroupRecord
from apportion.model.protocols import STREAMS
from apportion.wire.coordinator import EpochRecord

ASSIGNOR: Final = "sticky"
"""The one task assignor of a 4.3 broker; no record names it."""
ROLES: Final = {"active": "activeTasks", "standby": "standbyTasks", "warmup": "warmupTasks"}
"""What a member may do with a task -> the field that lists such tasks."""
MOST_PARTITIONS: Final = 1_000_000
"""Above it (topics times tasks of a member) a member's partitions are left out: no topology asks for so many."""


@dataclass
class StreamsRecords(BrokerAssigned):
    """One streams group; ``topology`` is the body of its newest key-23 record."""

    topology: Body = field(default_factory=dict)

    GROUP: ClassVar[int] = 17
    MEMBER: ClassVar[int] = 19
    TARGET: ClassVar[int] = 20
    TARGET_OF: ClassVar[int] = 21
    CURRENT: ClassVar[int] = 22
    TOPOLOGY: ClassVar[int] = 23

    def take(self, event: GroupRecord) -> Generation | None:
        """Take one record; a topology completes nothing."""
        if isinstance(event.record, EpochRecord) and event.record.key_type == self.TOPOLOGY:
            self.topology = event.record.body or {}
        return super().take(event)

    def _generation(self, event: GroupRecord, number: int) -> Generation:
        members = tuple(self._target_of(member) for member in sorted(self.members))
        epoch = self._completed(event, number, STREAMS, members, ASSIGNOR if self.members else None)
        # Its members are no consumers of topics: the strategies for those have nothing to say.
        return replace(epoch, readable=False, facts=self._facts())

    def _facts(self) -> dict[str, Any]:
        """The facts of an epoch besides its members: a change of one of these is a cause."""
        settings = self.group.get("lastAssignmentConfigs") or ()
        return {
            "topology": self.topology.get("epoch"),
            "topics": self.group.get("metadataHash"),
            "settings": tuple(sorted((setting["key"], setting["value"]) for setting in settings)),
            "stateless": tuple(sorted(self._stateless())),
        }

    def _stateless(self) -> Iterable[str]:
        return (sub["subtopologyId"] for sub in self.subtopologies if not sub["stateChangelogTopics"])

    @property
    def subtopologies(self) -> Iterable[Mapping[str, Any]]:
        """Those of the newest topology."""
        return self.topology.get("subtopologies") or ()

    @property
    def _sources(self) -> dict[str, list[str]]:
        """Sub-topology to the topics that it reads, those between sub-topologies too."""
        return {
            sub["subtopologyId"]: [*sub["sourceTopics"], *(topic["name"] for topic in sub["repartitionSourceTopics"])]
            for sub in self.subtopologies
        }

    def _target_of(self, member: str) -> GenerationMember:
        """A member with the tasks that it is to have, a sub-topology standing for a topic."""
        roles = roles_of(self.targets.get(member, {}))
        topics = {sub["subtopologyId"] for sub in self.subtopologies} | set(roles["active"])
        reads = _partitions(roles["active"], self._sources)
        return self._member(member, topics, roles["active"], roles, reads=reads)

    def present_members(self) -> tuple[GenerationMember, ...]:
        """The members with their present tasks."""
        sources = self._sources
        topics = {topic for read in sources.values() for topic in read}
        members = []
        for member in sorted(self.members):
            roles = roles_of(self.current.get(member, {}))
            members.append(self._member(member, topics, _partitions(roles["active"], sources), roles))
        return tuple(members)

    def _member(
        self, member: str, topics: Iterable[str], assigned: Assigned, roles: Mapping[str, Assigned], **more: Any
    ) -> GenerationMember:
        body = self.members[member]
        return member_of(member, body, topics, assigned, process_id=body.get("processId"), roles=roles, **more)


def roles_of(body: Body) -> dict[str, Assigned]:
    """Role to sub-topology to task numbers, of a target or of a member's present tasks."""
    assigned: dict[str, Assigned] = {}
    for role, name in ROLES.items():
        tasks: dict[str, list[int]] = {}
        for entry in body.get(name) or ():
            tasks.setdefault(entry["subtopologyId"], []).extend(entry["partitions"])
        assigned[role] = {subtopology: tuple(sorted(set(ids))) for subtopology, ids in sorted(tasks.items()) if ids}
    return assigned


def _partitions(active: Assigned, sources: Mapping[str, list[str]]) -> Assigned:
    """The partitions that active tasks read: task p reads partition p of every source topic of its sub-topology."""
    if sum(len(ids) * len(sources.get(subtopology, ())) for subtopology, ids in active.items()) > MOST_PARTITIONS:
        return {}
    read = {topic: ids for subtopology, ids in active.items() for topic in sources.get(subtopology, ())}
    return dict(sorted(read.items()))
