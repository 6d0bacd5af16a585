"""Standbys and warm-ups of task plans in words, and as columns of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from apportion.model.plan import Plan
from apportion.report.text import Cell
from apportion.wording import count, shorten

_LONGEST: Final = 200
COLUMNS: Final = ("ROUNDS", "STANDBYS", "WARM-UPS")


def has_roles(plans: Iterable[Plan]) -> bool:
    """Whether some plan has standbys and warm-ups."""
    return any("warmups" in plan.answer.measures for plan in plans)


def cells(plan: Plan) -> tuple[Cell, ...]:
    """The columns of a step: rebalances until nothing waits, standbys at the end, warm-ups on the way."""
    measures = plan.measures
    return plan.answer.extra.get("rounds", 1), measures.get("standbys", 0), measures.get("warmups", 0)


def notes(plan: Plan) -> list[str]:
    """Who keeps copies of which tasks, who restores which, and when the group looks again."""
    tasks: Mapping[str, Any] | None = plan.answer.extra.get("tasks")
    if not tasks:
        return []
    sentences = []
    for role, text in (("standby", "Standbys"), ("warmup", "Warm-ups, restored before their tasks move there")):
        held = {member: names for hands in tasks.get(role, {}).values() for member, names in hands.items() if names}
        if held:
            number = sum(map(len, held.values()))
            each = "; ".join(f"{member}: {', '.join(names)}" for member, names in held.items())
            sentences.append(f"{text} ({number:,}): {shorten(each, _LONGEST)}.")
    if tasks.get("next_probing_rebalance_ms") is not None:
        minutes = tasks["next_probing_rebalance_ms"] / 60_000
        sentences.append(f"Some tasks move once their state is restored: the group looks again in {minutes:g} minutes.")
    return sentences


def step_notes(planned: Sequence[tuple[str, Plan]]) -> list[str]:
    """The state that was restored on the way of all steps, and the copies that the last one keeps."""
    plans = [plan for _, plan in planned]
    if not has_roles(plans):
        return []
    warmups = sum(plan.measures.get("warmups", 0) for plan in plans)
    rounds = sum(plan.answer.extra.get("rounds", 1) for plan in plans)
    taken = f"{count(warmups, 'warm-up')} in {count(rounds, 'rebalance')}"
    waiting = [step for step, plan in planned if plan.answer.waits]
    if not warmups and not waiting and rounds == len(plans):
        return notes(plans[-1])
    sentences = [f"{taken}: a task moves once its state is restored, and the group looks again until none waits."]
    if waiting:
        sentences.append(f"{waiting[0]}: some tasks still wait for their state when nothing more changes.")
    return [*sentences, *notes(plans[-1])]
