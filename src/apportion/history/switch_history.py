"""A group's recorded joins and leaves walked again under the broker's assignors: as they came, and as they might have.

Three things change what a rebalance costs under the new protocol, and none of them is the assignor. Static ids: a
member that restarts and is back before its session ends keeps everything, and nobody else hears of it. Their absence:
the same restart is a leave and a join. Batching (KIP-1263): after an assignment the coordinator waits for
``group.consumer.assignment.interval.ms`` before it makes the next, and what came meanwhile is one change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from apportion.defaults import DEFAULT_EAGER, PROTOCOLS
from apportion.history import stood_still
from apportion.history.group_history import GroupHistory
from apportion.history.records import Generation, counts_after
from apportion.history.replay import happened, replay_steps, total
from apportion.history.steps import Step, TopicEntries, sizes, step, steps
from apportion.strategy.registry import brokers

INTERVAL_MS: Final = 1_000
"""``group.consumer.assignment.interval.ms``, the broker's default."""
SESSION_MS: Final = 45_000
"""``group.consumer.session.timeout.ms``, the broker's default: a static member that is back by then was never gone."""
LEAST_GENERATIONS: Final = 2


def replayed() -> tuple[str, ...]:
    """The broker's strategies, and with them the fairest one that moves least."""
    return (*brokers(), DEFAULT_EAGER)


def moves(past: GroupHistory) -> dict[str, int] | None:
    """Moves between members that stay in a group's recorded generations; None without two of them.

    ``recorded`` is what happened; a strategy's name is what it would have moved; ``NAME-static`` with static ids (of
    members that client ids tell apart), ``NAME-dynamic`` without those that there are, ``NAME-batched`` with joins and
    leaves gathered as KIP-1263 does. ``stopped``: partitions that eager members gave up and were given again;
    ``stopped_ms_at_least`` and ``_at_most``: how long the median one of them stood still, see ``stood_still``.
    """
    if past.runs_tasks:
        return None
    topics, ids = past.all_topics, past.topic_ids
    walk = steps(past.name, past.folded.generations, topics, ids)
    if len(walk) < LEAST_GENERATIONS:
        return None
    then = happened(walk)
    moved = {"generations": len(walk), "recorded": sum(measures["moves"] for measures in then)}
    for name in replayed():
        moved[name] = total(replay_steps(walk, name, then))["moves"]
    variants = {
        "static": as_static(walk),
        "dynamic": as_dynamic(past.name, past.folded.generations, topics, ids),
        "batched": batched(walk),
    }
    for variant, changed in variants.items():
        for name in brokers() if changed is not None else ():
            moved[f"{name}-{variant}"] = total(replay_steps(changed or (), name))["moves"]
    eager = stood_still.eager_offsets(past.folded.generations, past.rebalances)
    moved["stopped"] = sum(rebalance.kept for rebalance in past.rebalances if rebalance.source_offset in eager)
    still = stood_still.bounds(past.folded.generations, past.rebalances, past.habits, eager)
    return moved | {f"stopped_ms_{bound}": ms for bound, ms in still.items()}


def batched(walk: Sequence[Step], interval_ms: int = INTERVAL_MS) -> list[Step]:
    """The generations that are left if an assignment is made at most once an interval."""
    remaining: list[Step] = []
    last: int | None = None
    first: Step | None = None
    for taken, after in zip(walk, [*walk[1:], None], strict=True):
        first = first or taken
        at = taken.generation.at
        when = at if last is None else max(at, last + interval_ms)
        if after is not None and after.follows and after.generation.at <= when:
            continue  # that one comes before this target is made, and is in it
        remaining.append(replace(taken, follows=first.follows))
        last, first = when, None
    return remaining


def as_static(walk: Sequence[Step], session_ms: int = SESSION_MS) -> list[Step] | None:
    """The generations that are left if members had static ids: those that only miss somebody who is back in time go.

    Returns
        None where all have static ids already, or client ids do not tell the members of a generation apart.
    """
    if all(all(taken.group.instance_ids) for taken in walk):
        return None
    names = [_by_client(taken) for taken in walk]
    identities = [name for name in names if name is not None]
    if len(identities) < len(walk):
        return None
    remaining: list[Step] = []
    before: set[str] = set()
    first: Step | None = None
    for i, taken in enumerate(walk):
        first = first or taken
        missing = before - set(identities[i]) if taken.follows else set()
        if any(_is_back(walk, identities, i, name, session_ms) for name in missing):
            continue
        remaining.append(replace(taken, identities=identities[i], follows=first.follows))
        before, first = set(identities[i]), None
    return remaining


def _by_client(taken: Step) -> tuple[str, ...] | None:
    """Who each member is by its client id; None if that is not one each."""
    clients = taken.group.client_ids or ()
    if len(clients) < taken.group.M or len(set(clients)) < len(clients) or not all(clients):
        return None
    return tuple(str(client) for client in clients)


def _is_back(walk: Sequence[Step], names: Sequence[Sequence[str]], i: int, name: str, session_ms: int) -> bool:
    for j in range(i + 1, len(walk)):
        if not walk[j].follows or walk[j].generation.at - walk[i].generation.at > session_ms:
            return False
        if name in names[j]:
            return True
    return False


def as_dynamic(
    name: str, generations: Sequence[Generation], topics: TopicEntries, ids: Mapping[str, str]
) -> list[Step] | None:
    """The generations with every static member's return taken apart: without it, and with it as somebody new.

    Returns
        None where no member has a static id.
    """
    if not any(seat.instance_id is not None for generation in generations for seat in generation.members):
        return None
    counts = counts_after(generations, sizes(topics, generations))
    walk: list[Step] = []
    before: dict[str, str] = {}
    follows = False
    for generation, count in zip(generations, counts, strict=True):
        follows = follows and not generation.fresh and bool(generation.members)
        if not generation.members or not generation.readable:
            continue
        seats = {seat.identity: seat.member_id for seat in generation.members}
        returned = (
            {identity for identity, member in seats.items() if before.get(identity, member) != member}
            if follows
            else set()
        )
        stayed = tuple(seat for seat in generation.members if seat.identity not in returned)
        for members in [stayed, generation.members] if returned and stayed else [generation.members]:
            taken = step(name, replace(generation, members=members), count, topics, ids=ids)
            walk.append(replace(taken, identities=taken.group.members, follows=follows))
            follows = True
        before = seats
    return walk


def sentences(history: Mapping[str, int], strategy: str = PROTOCOLS["consumer"]) -> Iterable[str]:
    """The effect that static ids and batching would have had, if that is known and differs."""
    plain = history[strategy]
    meaning = {
        "static": "with static ids, which keep a member's place while it restarts",
        "dynamic": "without the static ids that there are",
        "batched": "with what comes within a second taken as one change (KIP-1263)",
    }
    changed = {name: history[f"{strategy}-{name}"] for name in meaning if f"{strategy}-{name}" in history}
    parts = [f"{n:,} {meaning[name]}" for name, n in changed.items() if n != plain]
    if parts:
        yield f"Of these {plain:,} under {strategy} it would be {', and '.join(parts)}."
    same = [word for name, word in (("static", "static ids"), ("batched", "batching")) if changed.get(name) == plain]
    if plain and same:
        yield f"{' and '.join(same).capitalize()} would not have changed that."
