"""The effects of a switch to the new protocol (KIP-848) on a live group, as ``report --switch`` shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from apportion.history.switch_measures import GroupFacts, Switch
from apportion.history.switching import switch
from apportion.model.group import Group
from apportion.model.plan import Plan
from apportion.model.protocols import CONSUMER
from apportion.report import page_groups, switching
from apportion.serve.faults import Faults
from apportion.serve.snapshot import GroupState

KINDS: Final = (None, "classic", CONSUMER)
ROWS_S: Final = 0.5
"""For how long one request works on the table of all groups."""
ROUND_SHARE: Final = 0.05
"""The share of a core that rounds spend on that table, until it has every group as it is."""
KEPT: Final = 64
"""Groups whose answer is kept, the last asked for."""


def switch_of(state: GroupState) -> Switch | None:
    """The answer for one group; None if there is nothing to switch: no members, or no consumers' group.

    The broker's order follows from the members' own ids, so it is worked out with them, and told with those that may
    be shown.
    """
    kind = state.sighting.protocol
    if state.gone or not state.group.M or kind not in KINDS:
        return None
    facts = GroupFacts(kind, state.sighting.assignor, state.sighting.assigned_data)
    whole = switch(state.as_described, facts, state.past.frozen(state.group.topic_ids))
    return replace(
        whole, group=state.group, online=_shown(whole.online, state.group), fresh=_shown(whole.fresh, state.group)
    )


def _shown(plan: Plan, group: Group) -> Plan:
    """A plan under the names that may be shown; the members' order is the same."""
    return replace(plan, group=replace(plan.group, members=group.members, client_ids=(), hosts=()))


class Switches:
    """Answers, for the API and as the page draws them, each kept while members, owners, partitions and history stay."""

    def __init__(self, faults: Faults | None = None) -> None:
        self._faults = faults or Faults()
        self._kept: dict[str, tuple[tuple[Any, ...], Switch | None, dict[str, Any]]] = {}
        self._rows: dict[str, tuple[tuple[Any, ...], Mapping[str, Any] | None]] = {}

    def answer(self, state: GroupState) -> Switch | None:
        """``switch_of`` one group."""
        return self._current(state)[0]

    def drawn(self, state: GroupState) -> Mapping[str, Any]:
        """The page's data of one group's switch; empty if there is none."""
        return self._current(state)[1]

    def rows(self, states: Iterable[GroupState]) -> tuple[list[Mapping[str, Any]], int]:
        """The page's table of all groups, and how many groups are still to be looked at: ask again.

        Mostly rounds have worked it out already; what they have not is worked on for a moment.
        """
        states = list(states)
        waiting = self._work_out(states, time.monotonic, ROWS_S)
        known = [self._rows[state.name][1] for state in states if state.name in self._rows]
        return [row for row in known if row is not None], waiting

    def look_on(self, states: Sequence[GroupState], interval_s: float) -> None:
        """Go on with the table in a round: a person who asks for it does not wait."""
        names = {state.name for state in states}
        self._rows = {name: row for name, row in self._rows.items() if name in names}
        self._work_out(states, time.thread_time, ROUND_SHARE * interval_s)

    def _work_out(self, states: Iterable[GroupState], clock: Callable[[], float], some_s: float) -> int:
        """Rows of groups that are not as they were, for so long; how many are left. Old rows stay meanwhile."""
        until, waiting = clock() + some_s, 0
        for state in states:
            key, cached = self._key(state), self._rows.get(state.name)
            if cached is None or cached[0] != key or self._faults.sentence(state.name, "switch"):
                if clock() > until:
                    waiting += 1
                    continue
                seen = self._faults.guard(state.name, "switch", partial(switch_of, state))
                self._rows[state.name] = key, None if seen is None else switching.page_row(seen)
        return waiting

    @staticmethod
    def _key(state: GroupState) -> tuple[Any, ...]:
        protocol, described = state.sighting.assignor, state.key and state.key[0]
        return described, state.past, state.past.version, state.gone, state.sighting.assigned_data, protocol

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
