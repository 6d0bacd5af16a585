"""What a switch to the new protocol (KIP-848) would do to a live group, as ``report --switch`` shows it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from apportion.history.records import CONSUMER
from apportion.history.switch_measures import GroupFacts, Switch
from apportion.history.switching import switch
from apportion.model.group import Group
from apportion.model.plan import Plan
from apportion.report import page_groups, switching
from apportion.serve.snapshot import GroupState

KINDS: Final = (None, "classic", CONSUMER)
ROWS_S: Final = 1.5
"""For how long one request works on the table of all groups."""
KEPT: Final = 64
"""Groups whose answer is kept, the last asked for."""


def switch_of(state: GroupState) -> Switch | None:
    """The answer for one group; None where there is nothing to switch: nobody is there, or it is no consumers' group.

    The broker's order follows from the members' own ids, so it is worked out with them, and told with those that may
    be shown.
    """
    kind = state.shown.seen.kind
    if state.gone or not state.group.M or kind not in KINDS:
        return None
    facts = GroupFacts(kind, state.shown.seen.protocol, state.assigned_data)
    whole = switch(state.as_described, facts, state.past.frozen(state.group.topic_ids))
    return replace(
        whole, group=state.group, online=_shown(whole.online, state.group), fresh=_shown(whole.fresh, state.group)
    )


def _shown(plan: Plan, group: Group) -> Plan:
    """A plan under the names that may be shown; the members' order is the same."""
    return replace(plan, group=replace(plan.group, members=group.members, client_ids=(), hosts=()))


class Switches:
    """Answers, for the API and as the page draws them, each kept while members, owners, partitions and history stay."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[Any, ...], Switch | None, dict[str, Any]]] = {}
        self._rows: dict[str, tuple[tuple[Any, ...], Mapping[str, Any] | None]] = {}

    def answer(self, state: GroupState) -> Switch | None:
        """``switch_of`` one group."""
        return self._current(state)[0]

    def drawn(self, state: GroupState) -> Mapping[str, Any]:
        """The page's data of one group's switch; empty where there is none."""
        return self._current(state)[1]

    def rows(self, states: Iterable[GroupState]) -> tuple[list[Mapping[str, Any]], int]:
        """The page's table of all groups, and how many groups are still to be looked at: ask again.

        A call takes a second or two; what was worked out is kept while the group stays as it is.
        """
        until, rows, waiting = time.monotonic() + ROWS_S, [], 0
        for state in states:
            key, cached = self._key(state), self._rows.get(state.name)
            if cached is None or cached[0] != key:
                if time.monotonic() > until:
                    waiting += 1
                    continue
                seen = switch_of(state)
                cached = self._rows[state.name] = key, None if seen is None else switching.page_row(seen)
            if cached[1] is not None:
                rows.append(cached[1])
        return rows, waiting

    @staticmethod
    def _key(state: GroupState) -> tuple[Any, ...]:
        protocol, described = state.shown.seen.protocol, state.key and state.key[0]
        return described, state.past, state.past.version, state.gone, state.assigned_data, protocol

    def _current(self, state: GroupState) -> tuple[Switch | None, dict[str, Any]]:
        key = self._key(state)
        cached = self._kept.pop(state.name, None)
        if cached is None or cached[0] != key:
            seen = switch_of(state)
            cached = key, seen, {} if seen is None else page_groups.switch_data(seen)
        self._kept[state.name] = cached
        for name in list(self._kept)[:-KEPT]:
            self._kept.pop(name, None)
        return cached[1:]
