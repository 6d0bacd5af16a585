"""Inside a process: which consumer runs, or keeps warm, which of the process's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apportion.tasks.topology import Task


def share_active(
    consumers: Sequence[str], stateful: Sequence[Task], stateless: Sequence[Task], before: Mapping[Task, str | None]
) -> dict[str, list[Task]]:
    """Deal active tasks to consumers: stateful ones evenly, stateless ones so that the totals are even too.

    A task stays with the consumer that ran it as long as that one is not above its share.
    """
    hands: dict[str, list[Task]] = {consumer: [] for consumer in sorted(consumers)}
    for tasks in (stateful, stateless):
        _deal(hands, tasks, before)
    return {consumer: sorted(tasks) for consumer, tasks in hands.items()}


def share_copies(
    consumers: Sequence[str], copies: Sequence[Task], active: Mapping[str, Sequence[Task]]
) -> dict[str, list[Task]]:
    """Deal standbys and warm-ups to the consumers with fewest tasks in all."""
    hands: dict[str, list[Task]] = {consumer: [] for consumer in sorted(consumers)}
    for task in sorted(copies):
        least = min(hands, key=lambda consumer: (len(active.get(consumer, ())) + len(hands[consumer]), consumer))
        hands[least].append(task)
    return hands


def _deal(hands: dict[str, list[Task]], tasks: Sequence[Task], before: Mapping[Task, str | None]) -> None:
    """Fill every hand up to the level that all reach together; owners first, then the emptiest hand."""
    total = sum(map(len, hands.values())) + len(tasks)
    level, odd = divmod(total, len(hands))
    waiting = []
    for task in sorted(tasks):
        hand = hands.get(before.get(task) or "")
        if hand is not None and len(hand) < level:
            hand.append(task)
        elif hand is not None and len(hand) == level and odd:
            hand.append(task)
            odd -= 1
        else:
            waiting.append(task)
    for task in waiting:
        least = min(hands, key=lambda consumer: (len(hands[consumer]), consumer))
        hands[least].append(task)
