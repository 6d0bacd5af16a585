"""A rollout as a table, in sentences, and as the page's picture of who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apportion.arrays import NOBODY, ints
from apportion.model.group import Group
from apportion.report import task_roles
from apportion.report.data import group_data, summary
from apportion.report.text import Cell, TextTable
from apportion.rollouts import Stage, identities, owners, total_sentence
from apportion.wording import partitions_in_words, shorten, some_of

if TYPE_CHECKING:
    from apportion.inputs.described_group import Observed


def table(stages: Sequence[Stage]) -> TextTable:
    """A row a stage: its generations, what it takes from whom, and how long partitions stand still."""
    rows: list[tuple[Cell, ...]] = [
        (
            stage.step, stage.plan.group.M, stage.generations, stage.revoked, stage.taken, stage.moved,
            stage.read_anew, round(stage.standstill_s, 1), round(stage.longest_s, 1),
        )
        for stage in stages
    ]  # fmt: skip
    columns = ("STEP", "#MEMBERS", "GENERATIONS", "REVOKED", "TAKEN", "MOVED", "READ-ANEW", "STANDSTILL-S", "LONGEST-S")
    if not task_roles.has_roles(stage.plan for stage in stages):
        return TextTable(columns, rows)
    loads = [(stage.plan.measures["load_min"], stage.plan.measures["load_max"]) for stage in stages]
    rows = [
        (*row, str(low) if low == high else f"{low}-{high}", *task_roles.cells(stage.plan)[1:])
        for row, stage, (low, high) in zip(rows, stages, loads, strict=True)
    ]
    return TextTable((*columns, "LOAD", *task_roles.COLUMNS[1:]), rows)


def notes(stages: Sequence[Stage], protocol: str) -> list[str]:
    """What all of it costs, and what the columns say."""
    strategy = stages[-1].plan.assignor if stages else ""
    sentences = [f"{protocol}, {strategy}. {total_sentence(stages)}"]
    predictions = [stage.plan.answer.extra.get("prediction") for stage in stages]
    shape = sum(prediction == "shape" for prediction in predictions)
    if shape:
        steps = f"{shape} of {len(stages)} steps"
        sentences.append(f"In {steps} the broker may give other partitions than shown; loads and "
                         "the number of moves are its own where all members want the same.")  # fmt: skip
    return sentences + task_roles.step_notes([(stage.step, stage.plan) for stage in stages])


def changes_in_words(stages: Sequence[Stage]) -> list[str]:
    """What the table does not tell of the changes: what newcomers want, and partitions that lost their last replica."""
    sentences = []
    for stage in stages:
        if stage.lost_replicas:
            names = shorten(partitions_in_words(stage.lost_replicas), 120)
            sentences.append(f"{stage.step}: {names} lost the last replica: nobody can read there.")
        if stage.newcomers_topics:
            alike = len(stage.plan.group.subscriptions) == 1
            how = ", as all do" if alike else "" if " like " in stage.step else _AS_MOST
            verb = "wants" if len(stage.joined) == 1 else "want"
            names, topics = some_of(stage.joined), some_of(stage.newcomers_topics)
            sentences.append(f"{stage.step}: {names} {verb} {topics}{how}.")
    return sentences


_AS_MOST = ", as most members do (--like MEMBER chooses)"


def page_data(observed: Observed, before: Group, stages: Sequence[Stage]) -> dict[str, Any]:
    """The group as the page draws it, the rollout in the place of a history: partitions against stages.

    Members and partitions are those of the end; who owned what before is shown as far as they are still there.
    """
    first = {key: _label(who) for key, who in owners(before, before.owner).items()}
    rows: list[dict[str, Any]] = [{"generation": 0, "at": "", "cause": "now", "members": before.M, "moved": 0,
                                   "kept": len(first), "given": 0, "needless": None, "complete": True,
                                   "owners": first}]  # fmt: skip
    generation, had = 0, owners(before, before.owner)
    for stage in stages:
        generation += stage.generations
        has = owners(stage.plan.group, stage.plan.owner)
        kept = sum(had.get(key) == who for key, who in has.items())
        rows.append({
            "generation": generation, "at": "", "cause": stage.step, "members": stage.plan.group.M,
            "moved": sum(key in had and had[key] != who for key, who in has.items()), "kept": kept,
            "given": sum(key not in had for key in has), "needless": None, "complete": True,
            "owners": {key: _label(who) for key, who in has.items()},
        })  # fmt: skip
        had = has
    facts = {
        "state": observed.state or "",
        "protocol": observed.protocol or "",
        "generation": observed.generation,
        "advice": [
            total_sentence(stages),
            "The rebalances below have not happened: they are what the rollout would bring.",
        ],
    }
    if not stages:
        return group_data(before, [], facts=facts, history=rows)
    after = stages[-1].plan.group
    at = {identity: m for m, identity in enumerate(identities(after))}
    held = owners(before, before.owner)
    present = ints([at.get(held.get(after.name_of(p), ""), NOBODY) for p in range(after.P)])
    drawn = group_data(after, [stages[-1].plan], facts=facts, history=rows)
    return {**drawn, "owner": present.tolist(), "now": summary("now", after, present, {})}


def _label(identity: str) -> str:
    return identity.removeprefix("instance ")
