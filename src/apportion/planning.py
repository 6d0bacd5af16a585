"""One call from a group to a checked plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import BadInput, BrokenAssignor
from apportion.model.group import Group
from apportion.model.group_json import GroupLike, group_of
from apportion.model.plan import Answer, Plan
from apportion.strategy.assignor import Assignor
from apportion.strategy.registry import find
from apportion.strategy.settings import changed_settings
from apportion.strategy.traits import facts_of, traits_of
from apportion.wording import kind_of


def plan(
    group: GroupLike,
    assignor: str | Assignor = DEFAULT_ASSIGNOR,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Plan a group with a strategy.

    group
        A ``Group``, group.json as a dict or text, or the ``Path`` of a file.
    assignor
        A strategy, or the name of a known one; then ``settings`` are its settings.
    Raises
        BadInput (UnknownName) for a bad group, name or setting; BrokenAssignor where the strategy's answer is no plan.

    >>> plan({"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}}, "roundrobin").assignment
    {'a': {'t': [0, 1, 2]}}
    """
    group = group_of(group)
    assignor = strategy_of(assignor, settings)
    traits = traits_of(assignor)
    group = group.with_facts(traits.facts)
    return Plan(group, assignor.name, changed_settings(assignor), checked(group, assignor), traits.cooperative)


def checked(group: Group, assignor: Assignor) -> Answer:
    """A strategy's answer to a group, without the plan around it; ``BrokenAssignor`` if it is none."""
    answer = assignor.assign(group.with_facts(facts_of(assignor)))
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    check_owners(assignor.name, group, answer.owner)
    return answer


def strategy_of(assignor: str | Assignor, settings: Mapping[str, Any] | None = None) -> Assignor:
    """The strategy of that name, or the one that was made by hand."""
    if isinstance(assignor, str):
        return find(assignor, settings)
    if isinstance(assignor, type):
        raise BadInput("assignor", f"the class {assignor.__name__}", f"a strategy made of it, {assignor.__name__}()")
    if not callable(getattr(assignor, "assign", None)):
        raise BadInput("assignor", kind_of(assignor), "a strategy, such as LagAware(), or its name")
    if settings:
        raise BadInput("settings", f"{', '.join(settings)} next to a strategy object", "them where it is made")
    return assignor


def check_owners(name: str, group: Group, owner: Ints) -> None:
    """Raise ``BrokenAssignor`` unless the answer names, for each partition, no member or one that wants it."""
    if not isinstance(owner, np.ndarray) or owner.shape != (group.P,) or owner.dtype.kind != "i":
        raise BrokenAssignor(
            f"the assignor {name!r} answered {_shape(owner)} to a group of {group.P} partitions; "
            f"needed an integer array of shape ({group.P},)."
        )
    if not group.P:
        return
    if owner.min() < NOBODY or owner.max() >= group.M:
        worst = int(owner.max() if owner.max() >= group.M else owner.min())
        raise BrokenAssignor(f"the assignor {name!r} named member {worst}; there are members 0 to {group.M - 1}.")
    if len(group.subscriptions) == 1 and group.all_wanted:
        return
    # What stays with its owner was looked at when the claims were judged.
    elsewhere = owner != (group.owner if len(group.claims.member) else NOBODY)
    given = (elsewhere & (owner != NOBODY)).nonzero()[0]
    wrong = given[~group.may_own(owner[given], given)]
    if len(wrong):
        topic, number = group.name_of(int(wrong[0]))
        member = group.members[int(owner[wrong[0]])]
        raise BrokenAssignor(f"the assignor {name!r} gave {topic}-{number} to {member!r}, who does not want {topic!r}.")


def _shape(owner: object) -> str:
    if isinstance(owner, np.ndarray):
        return f"an array of {owner.dtype} and shape {owner.shape}"
    return kind_of(owner)
