"""A plan: a group, an owner for each partition, and the proofs about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.model.frames import Tabular
from apportion.model.group import Group, MemberState
from apportion.model.measures import measure
from apportion.model.to_names import Assignment, collector_paused, owners_to_names, partitions_to_names


class Certificate(Protocol):
    """Why no better answer exists, for a reader to check."""

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        ...


class Later(Mapping[str, Any]):
    """Fields of an answer that are made when they are read, since most plans of a long rollout are not printed."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> Any:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True, eq=False)
class Answer:
    """A strategy's return value when it has more to say than the owners.

    owner
        (P,) the member that owns each partition; -1 nobody.
    proof
        Goal to ``optimal``, ``bounded`` or ``heuristic``, in the strategy's order of goals.
    measures
        Replaces or adds to the plan's measures (``lag_bound``).
    extra
        Top-level fields that the plan carries besides (``epoch``).
    certificate
        What shows the proof; ``plan --explain`` prints it.
    together
        (P,) partitions of one number change hands together or not at all; None: each by itself.
    state
        What members tell of their state once the plan is carried out and its copies are restored; None: as before.
    waits
        Whether the strategy is to be asked again then, since something is to move onto that state.
    """

    owner: Ints
    proof: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    together: Ints | None = None
    state: MemberState | None = None
    waits: bool = False


def hand_over(group: Group, owner: Ints, holds: Bools | None = None, together: Ints | None = None) -> Bools:
    """(P,) partitions withheld for a round before ``owner`` (P,) holds, because others claim them (KIP-429).

    The rule for plans, for live groups and for tasks: a partition waits that somebody else than its new owner claims,
    rightly or not, unless the new owner holds it by a claim that stands.

    holds
        (M,) whether a member still has what it claims; None: all have. The claims of one that has let go are wishes:
        they count for the strategy, but nobody needs to wait for them.
    together
        As in ``Answer``.
    """
    member, partition = group.claims.member, group.claims.partition
    if holds is not None and not holds.all():
        hard = holds[member]
        member, partition = member[hard], partition[hard]
    back = np.zeros(group.P, dtype=np.bool_)
    if not len(member):
        return back
    mine = owner[partition] == member
    waits = partition[~mine & (owner[partition] != NOBODY)]
    back[waits] = True
    own = partition[mine]  # who claims it with others keeps it only where its own claim stands
    back[own[owner[own] == group.owner[own]]] = False
    if together is not None:
        back = np.isin(together, together[back]) & (owner != NOBODY)
    return back


def in_two_rounds(
    group: Group, target: Ints, complete: Callable[[Group], Ints | None], together: Ints | None = None
) -> Ints:
    """(P,) a target that the second round gives too; ``target`` itself if nothing is held back.

    complete
        A group to owners: everybody keeps what they have, and the rest is handed out as a function of that alone.
    together
        As in ``Answer``.

    What is held back is planned by ``complete`` from what this round gives, which is what the second round sees. If
    some of that comes home it is given at once, and the rest is planned again: what is given grows, so this ends.
    """
    given = np.where(hand_over(group, target, together=together), NOBODY, target)
    if np.array_equal(given, target):
        return target
    while True:
        completed = complete(group.holding(given))
        if completed is None or (completed != given)[given != NOBODY].any():
            raise ArithmeticError("what stays of a plan is no part of any; please report this group")
        again = np.where(hand_over(group, completed, together=together), NOBODY, completed)
        if np.array_equal(again, given):
            return completed
        given = again


@dataclass(frozen=True, eq=False)
class Plan(Tabular):
    """A strategy's answer to a group.

    answer
        Its owners are the target: who owns what once every hand-over is done.
    cooperative
        Whether a partition that changes hands belongs to nobody for one round (KIP-429).
    """

    group: Group
    assignor: str
    settings: Mapping[str, Any]
    answer: Answer
    cooperative: bool = False

    @property
    def owner(self) -> Ints:
        """(P,) the member that owns each partition in the end; -1 for none."""
        return self.answer.owner

    @property
    def proof(self) -> dict[str, str]:
        """Goal to ``optimal``, ``bounded`` or ``heuristic``, in the strategy's order."""
        return dict(self.answer.proof)

    @cached_property
    def changed(self) -> Ints:
        """(N,) partitions, ascending, that do not stay: those without a past or a new owner are among them."""
        changed: Ints = (self.owner != self.group.owner).nonzero()[0]
        return changed

    @cached_property
    def withheld(self) -> Bools:
        """(P,) partitions that another member than the new owner claims, so that no member gets them this round."""
        if not self.cooperative:
            return np.zeros(self.group.P, dtype=np.bool_)
        return hand_over(self.group, self.owner, together=self.answer.together)

    @cached_property
    def owner_now(self) -> Ints:
        """(P,) who owns each partition this round."""
        return np.where(self.withheld, NOBODY, self.owner) if self.withheld.any() else self.owner

    @cached_property
    def assignment(self) -> Assignment:
        """Member to topic to partition ids, for this round: ``{"a": {"clicks": [0, 1]}}``."""
        return owners_to_names(self.group, self.owner_now)

    @cached_property
    def target(self) -> Assignment:
        """The assignment after the hand-over; if nothing is withheld the assignment itself.

        What a member gets in both is the same object: leave it as it is, or copy.
        """
        if not self.cooperative or not self.withheld.any():
            return self.assignment
        # Only members for whom something is withheld get other lists than they have.
        group, waits = self.group, np.zeros(self.group.M, dtype=np.bool_)
        waits[self.owner[self.withheld]] = True
        later = owners_to_names(group, np.where(waits[self.owner], self.owner, NOBODY))
        with collector_paused():
            return {
                member: later[member] if differs else share
                for (member, share), differs in zip(self.assignment.items(), waits.tolist(), strict=True)
            }

    @cached_property
    def measures(self) -> dict[str, Any]:
        """Balance, moves, lag and locality of the target; see ``measure``."""
        return {**measure(self.group, self.owner), **self.answer.measures}

    @property
    def unassigned(self) -> dict[str, list[int]]:
        """Described partitions that no member gets: topic to ids."""
        return partitions_to_names(self.group, self.owner == NOBODY)

    @property
    def ignored(self) -> list[dict[str, str | int]]:
        """Claims that fell, each with the reason."""
        members = self.group.members
        return [
            {"member": members[member], "topic": topic, "partition": number, "why": why}
            for member, topic, number, why in self.group.rejected_claims()
        ]

    def columns(self) -> dict[str, list[Any]]:
        """A row a partition: its owner in the end, this round and before (None: no owner), its lag (None: unknown)."""
        group, members = self.group, [*self.group.members, None]  # NOBODY, -1, is the last one
        topics = [group.topics[t] for t in group.topic_of.tolist()]
        owners = {"owner": self.owner, "owner_now": self.owner_now, "previous_owner": group.owner}
        named = {name: [members[m] for m in owner.tolist()] for name, owner in owners.items()}
        known = zip(group.lag.tolist(), group.lag_known.tolist(), strict=True)
        lag = [messages if is_known else None for messages, is_known in known]
        return {"topic": topics, "partition": group.number.tolist(), **named, "lag": lag}

    def explain(self) -> list[str]:
        """The certificate in words, a sentence a line."""
        if self.answer.certificate is not None:
            return self.answer.certificate.explain(self.group)
        return [f"{goal}: {how}." for goal, how in self.proof.items()] or ["This strategy proves nothing."]

    def to_dict(self) -> dict[str, Any]:
        """plan.json as a dict; the same input gives the same dict, in the same order."""
        with collector_paused():
            return self._fields()

    def _fields(self) -> dict[str, Any]:
        """plan.json field by field."""
        result: dict[str, Any] = {
            "version": 1,
            "group": self.group.name,
            "assignor": self.assignor,
            "settings": dict(self.settings),
            "assignment": self.assignment,
        }
        if self.cooperative:
            result["target"] = self.target
            result["withheld"] = partitions_to_names(self.group, self.withheld)
        result["unassigned"] = self.unassigned
        result["ignored"] = self.ignored
        result["measures"] = self.measures
        result["proof"] = self.proof
        return {**result, **self.answer.extra}

    def to_json(self) -> str:
        """plan.json as one line of text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __repr__(self) -> str:
        return f"Plan({self.group.name!r}, {self.assignor}, moves={self.measures['moves']}, proof={self.proof})"
