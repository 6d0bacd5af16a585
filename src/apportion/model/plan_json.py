"""A saved plan.json judged as strictly as a group, and laid over a group again.

A plan that was saved says who owns what, what it was worth and what was proved; the group it was made for is not in it.
So its figures can be read as they stand, and its owners can be laid over any group that has the same members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.json_checks import INT32_MAX, Check, check_object, check_text, check_version, is_a, one_line

_PROVED: Final = ("optimal", "bounded", "heuristic")
MEASURES: Final = (
    "partitions", "members", "load_min", "load_max", "load_squares", "kept", "moves", "rack_misses",
)  # fmt: skip
"""What every plan tells."""

Assignment = Mapping[str, Mapping[str, Sequence[int]]]


@dataclass(frozen=True)
class SavedPlan:
    """A plan.json that was read.

    owned
        Member to topic to ids: the target where the plan has one, else the assignment.
    raw
        The whole document.
    """

    group: str
    assignor: str
    owned: Assignment
    measures: Mapping[str, int]
    proof: Mapping[str, str]
    raw: Mapping[str, Any]

    def owners_in(self, group: Group) -> Ints:
        """(P,) the owner of each of the group's partitions under this plan; -1 for none.

        Raises
            BadInput where a member or a partition of the plan is not the group's: it is a plan of another group.
        """
        owner = np.full(group.P, NOBODY)
        index = {member: m for m, member in enumerate(group.members)}
        topics = {topic: t for t, topic in enumerate(group.topics)}
        for member, held in self.owned.items():
            if held and member not in index:
                raise BadInput("target", f"the member {one_line(member)}", f"members of the group {group.name!r}")
            for topic, ids in held.items():
                span = group.partitions(topics[topic]) if topic in topics else slice(0, 0)
                at = np.searchsorted(group.number[span], ids)
                inside = at < span.stop - span.start
                hit = inside & (group.number[span][np.where(inside, at, 0)] == ids) if inside.any() else inside
                if not hit.all():
                    missing = next(p for p, ok in zip(ids, hit.tolist(), strict=True) if not ok)
                    raise BadInput(f"target.{member}.{topic}", f"partition {missing}", "partitions of the group")
                owner[span.start + at] = index[member]
        return owner

    def as_group(self) -> dict[str, Any]:
        """group.json of the group as this plan leaves it, as far as it says: members want the topics they hold."""
        ids: dict[str, set[int]] = {}
        for held in [*self.owned.values(), self.raw["unassigned"]]:
            for topic, numbers in held.items():
                ids.setdefault(topic, set()).update(numbers)
        members = {
            member: {"topics": sorted(held), "owned": {t: list(p) for t, p in sorted(held.items())}, "generation": 0}
            for member, held in self.owned.items()
        }
        topics = {topic: [{"partition": p} for p in sorted(numbers)] for topic, numbers in sorted(ids.items())}
        return {"version": 1, "group": self.group, "topics": topics, "members": members}


def read_plan(raw: Any) -> SavedPlan:
    """A plan.json as a dict, after every field was looked at.

    Raises
        BadInput that names the first bad place, what stood there and what was needed.
    """
    required = ("group", "assignor", "assignment", "unassigned", "ignored", "measures", "proof")
    extra = {name: _anything for name in raw if name not in _PLAN} if isinstance(raw, dict) else {}
    check_object("", raw, {**_PLAN, **extra}, required=required)  # a strategy may add fields of its own
    owned = raw.get("target") or raw["assignment"]
    _each_once(owned)
    return SavedPlan(raw["group"], raw["assignor"], owned, raw["measures"], raw["proof"], raw)


def _anything(where: str, value: Any) -> None:
    """A field that we do not judge."""


def _settings(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of settings")


def _partitions(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of topics")
    for topic, ids in value.items():
        check_text(f"{where}.{topic}", topic)
        is_a(f"{where}.{topic}", ids, list, "a list of partition ids")
        for i, number in enumerate(ids):
            if type(number) is not int or not 0 <= number <= INT32_MAX:
                raise BadInput(f"{where}.{topic}[{i}]", one_line(number), f"an integer from 0 to {INT32_MAX}")
        if len(set(ids)) < len(ids):
            raise BadInput(f"{where}.{topic}", "a partition twice", "each partition once")


def _assignment(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of members")
    for member, held in value.items():
        check_text(f"{where}.{member}", member)
        _partitions(f"{where}.{member}", held)


def _each_once(owned: Assignment) -> None:
    """No partition has two owners."""
    owner_of: dict[tuple[str, int], str] = {}
    for member, held in owned.items():
        for topic, ids in held.items():
            for number in ids:
                if owner_of.setdefault((topic, number), member) != member:
                    twice = f"{topic}-{number}, which {owner_of[topic, number]} has too"
                    raise BadInput(f"assignment.{member}.{topic}", twice, "one owner for each partition")


def _ignored(where: str, value: Any) -> None:
    is_a(where, value, list, "a list of claims")


def _measures(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of figures")
    for name in MEASURES:
        if name not in value:
            raise BadInput(f"{where}.{name}", "nothing", "an integer")
    for name, figure in value.items():
        fraction = name.endswith("_cost") and type(figure) is str  # an exact fraction in text
        weighed = name.startswith("weight_") and type(figure) is float and figure >= 0
        if not (fraction or weighed) and (type(figure) is not int or figure < 0):
            raise BadInput(f"{where}.{name}", one_line(figure), "an integer of at least 0")


def _proof(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of goals")
    for goal, how in value.items():
        if how not in _PROVED:
            raise BadInput(f"{where}.{goal}", one_line(how), "one of " + ", ".join(_PROVED))


_PLAN: Final[dict[str, Check]] = {
    "version": check_version,
    "group": check_text,
    "assignor": check_text,
    "settings": _settings,
    "assignment": _assignment,
    "target": _assignment,
    "withheld": _partitions,
    "unassigned": _partitions,
    "ignored": _ignored,
    "measures": _measures,
    "proof": _proof,
}
