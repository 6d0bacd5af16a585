"""Should a classic group switch to the new protocol (KIP-848), and with which effects?

The broker's assignors are followed, not described: the first target after an online upgrade, whose past is the last
classic assignment; the target of a group that starts anew; and the recorded joins and leaves again, each answer the
past of the next. What no log tells is left out: the id of the consumer that brings the upgrade, and what applications
do in their callbacks.
"""

from __future__ import annotations

from dataclasses import replace

from apportion.defaults import PROTOCOLS
from apportion.history.group_history import GroupHistory
from apportion.history.predicted_targets import Score
from apportion.history.switch_advice import advice, loses, traps
from apportion.history.switch_history import moves
from apportion.history.switch_measures import (
    GroupFacts,
    Switch,
    blockers,
    busiest,
    classic_clients,
    concentration,
    even,
    together,
)
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.model.protocols import CONSUMER
from apportion.planning import plan


def switch(group: Group, facts: GroupFacts, past: GroupHistory | None = None, scored: Score | None = None) -> Switch:
    """Everything that can be said of one group with members.

    past
        Its recorded history, where there is one.
    scored
        How well the broker's assignors are predicted on groups of the same cluster.
    """
    online = plan(group, PROTOCOLS["consumer"])
    fresh = plan(group.without_past(), PROTOCOLS["consumer"])
    owners = {"now": group.owner, "online": online.owner, "fresh": fresh.owner}
    seen = Switch(
        group=group,
        facts=facts,
        blockers=None if facts.kind == CONSUMER else blockers(facts),
        now=measure(group, group.owner),
        online=online,
        fresh=fresh,
        concentration={
            **{name: concentration(group, owner) for name, owner in owners.items()},
            "even": even(group),
        },
        together=together(group, owners),
        history=None if past is None else moves(past),
        score=scored or Score(),
        busiest=busiest(group, owners),
        classic_clients={} if facts.kind == CONSUMER else classic_clients(group),
    )
    seen = replace(seen, loses=loses(seen), traps=traps(seen))
    return replace(seen, advice=advice(seen))
