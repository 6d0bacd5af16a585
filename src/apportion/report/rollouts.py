"""A rollout as a table, in sentences, and as the page's picture of the owners."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, Ints, ints
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.report import task_roles
from apportion.report.group_data import MOST_ROWS, group_data, summary
from apportion.report.text import Cell, TextTable, span
from apportion.rollouts import Stage, Times, begins_and_ends, identities, owners, places_in, total_sentence
from apportion.sighting.judged import Judged
from apportion.sighting.oddities import own_names
from apportion.sighting.sighting import Sighting
from apportion.wording import count, partitions_in_words, shorten, some_of


def as_shown(stage: Stage) -> Stage:
    """The stage without the parts that neither table nor picture shows, most of its memory: past claims, and copies."""
    plan, answer = stage.plan, stage.plan.answer
    extra = {name: answer.extra[name] for name in ("prediction", "rounds") if name in answer.extra}
    owners_alone = Answer(answer.owner, measures=answer.measures, extra=extra, waits=answer.waits)
    group = replace(plan.group.without_past())  # a copy of its fields, without what was worked out from them
    return replace(stage, plan=replace(plan, group=group, answer=owners_alone))


def _who_reads_on(stages: Sequence[Stage]) -> list[str]:
    """The clients for which the seconds do not hold, if members should read on while their group rebalances."""
    if not any(stage.generations and stage.plan.cooperative for stage in stages):
        return []
    holds = "The seconds hold for clients that read on while a join waits, as Java's do"
    return [f"{holds}; in kafka-python poll returns nothing meanwhile, and partitions are paused for longer."]


def table(stages: Sequence[Stage]) -> TextTable:
    """A row a stage: its generations, the partitions it takes from each member, and how long partitions pause."""
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
    measures = [stage.plan.measures for stage in stages]
    rows = [
        (*row, span(m["load_min"], m["load_max"]), *task_roles.cells(stage.plan)[1:])
        for row, stage, m in zip(rows, stages, measures, strict=True)
    ]
    return TextTable((*columns, "LOAD", *task_roles.COLUMNS[1:]), rows)


def notes(stages: Sequence[Stage], protocol: str) -> list[str]:
    """The cost of all of it, and the meaning of the columns."""
    strategy = stages[-1].plan.assignor if stages else ""
    sentences = [f"{protocol}, {strategy}. {total_sentence(stages)}", *_who_reads_on(stages)]
    predictions = [stage.plan.answer.extra.get("prediction") for stage in stages]
    shape = sum(prediction == "shape" for prediction in predictions)
    if shape:
        steps = f"{shape} of {count(len(stages), 'step')}"
        sentences.append(f"In {steps} the broker may give other partitions than shown; loads and "
                         "the number of moves are its own if all members subscribe to the same topics.")  # fmt: skip
    return sentences + task_roles.step_notes([(stage.step, stage.plan) for stage in stages])


def changes_in_words(stages: Sequence[Stage]) -> list[str]:
    """The facts about the changes that the table omits: newcomers' topics, partitions that lost their last replica."""
    sentences = []
    for stage in stages:
        if stage.lost_replicas:
            names = shorten(partitions_in_words(stage.lost_replicas), 120)
            sentences.append(f"{stage.step}: {names} lost the last replica: nobody can read there.")
        if stage.newcomers_topics:
            how = "" if " like " in stage.step else _as_others(stage)
            verb = "wants" if len(stage.joined) == 1 else "want"
            names, topics = some_of(stage.joined), some_of(stage.newcomers_topics)
            sentences.append(f"{stage.step}: {names} {verb} {topics}{how}.")
    return sentences


def _as_others(stage: Stage) -> str:
    """How many of the earlier members want the newcomers' topics."""
    group = stage.plan.group
    if len(group.subscriptions) == 1:
        return ", as all do"
    before = [m for m, name in enumerate(group.members) if name not in stage.joined]
    wanted = set(stage.newcomers_topics)
    same = sum({group.topics[t] for t in group.subscriptions[group.subscription_of[m]]} == wanted for m in before)
    return f", as {same:,} of {count(len(before), 'member')} {'does' if same == 1 else 'do'} (--like MEMBER chooses)"


def page_data(sighting: Sighting, before: Group, stages: Sequence[Stage], times: Times) -> dict[str, Any]:
    """The group as the page draws it, the rollout in the place of a history: partitions against stages.

    Members and partitions are those of the end; who owned what before is shown as far as they are still there.
    """
    not_yet = "The rebalances below have not happened: they are what the rollout would bring."
    advice = [total_sentence(stages), *_who_reads_on(stages), not_yet]
    if not stages:
        return group_data(Judged(replace(sighting, group=before)), [], advice=advice, planned=True)
    after = stages[-1].plan.group
    at = {identity: m for m, identity in enumerate(identities(after))}
    held = owners(before, before.owner)
    present = ints([at.get(held.get(after.name_of(p), ""), NOBODY) for p in range(after.P)])
    shown = _most_stopped(stages, after)
    drawn = group_data(
        Judged(replace(sighting, group=after)), [stages[-1].plan], advice=advice, planned=True,
        history=_moments(before, stages, times, shown),
    )  # fmt: skip
    past = drawn["history"]
    past |= {"planned": True, "left_out": after.P - len(past["rows"])}
    row_of = {name: i for i, name in enumerate(past["rows"])}
    for moment, stage in zip(past["rebalances"][1:], stages, strict=True):
        position, still = places_in(stage.plan.group, after), stage.still_s
        moment["stopped"] = {
            row_of[name]: round(1000 * float(still[position[p]]))
            for p in shown
            if position[p] != NOBODY and still[position[p]] and (name := "{}-{}".format(*after.name_of(p))) in row_of
        }
    return {**drawn, "owner": present.tolist(), "now": summary("now", after, present, {})}


def _most_stopped(stages: Sequence[Stage], after: Group) -> list[int]:
    """Partitions of the group after that are drawn: those with the longest pauses, ascending."""
    total = np.zeros(after.P)
    for stage in stages:
        position = places_in(stage.plan.group, after)
        total += np.where(position == NOBODY, 0.0, stage.still_s[np.maximum(position, 0)])
    most: list[int] = np.sort(np.argsort(-total, kind="stable")[:MOST_ROWS]).tolist()
    return most


def _moments(before: Group, stages: Sequence[Stage], times: Times, shown: Sequence[int]) -> list[dict[str, Any]]:
    """The present and each stage as a row of the page's history, with the owners of the partitions shown."""
    after = stages[-1].plan.group
    groups = [before, *(stage.plan.group for stage in stages)]
    names = _names(groups)

    def labels_of(group: Group, owner: Ints) -> tuple[list[str | None], dict[tuple[str, int], str]]:
        """(P,) the name of who has each partition of the group after, and those of the partitions shown."""
        owners = np.append(owner, NOBODY)[places_in(group, after)].tolist()
        who = [names.get(identity, identity) for identity in identities(group)]
        of_all = [None if m == NOBODY else who[m] for m in owners]
        return of_all, {after.name_of(p): name for p in shown if (name := of_all[p]) is not None}

    had, owned = labels_of(before, before.owner)
    rows: list[dict[str, Any]] = [{
        "generation": 0, "at": "", "cause": "now", "members": before.M, "moved": 0, "kept": len(had) - had.count(None),
        "given": 0, "needless": None, "complete": True, "owners": owned, "at_ms": 0, "duration_ms": 0,
        "still": [0, None, None, None], "movers": (),
    }]  # fmt: skip
    generation = 0
    for stage, (begin, end) in zip(stages, begins_and_ends(stages, times), strict=True):
        generation += stage.generations
        has, owned = labels_of(stage.plan.group, stage.plan.owner)
        still = stage.still_s[stage.still_s > 0]
        bounds = [round(1000 * float(bound)) for bound in (still.min(), still.max())] if len(still) else [None, None]
        rows.append({
            "generation": generation, "at": "", "cause": _by_name(stage.step, names), "members": stage.plan.group.M,
            "moved": stage.moved, "kept": sum(a is not None and a == b for a, b in zip(had, has, strict=True)),
            "given": sum(a is None and b is not None for a, b in zip(had, has, strict=True)), "needless": None,
            "complete": True, "owners": owned, "at_ms": round(1000 * end), "duration_ms": round(1000 * (end - begin)),
            "still": [len(still), *bounds, None],
            "movers": [stage.plan.group.name_of(p) for p in stage.movers.tolist()],
        })  # fmt: skip
        had = has
    return rows


def _by_name(step: str, names: Mapping[str, str]) -> str:
    """The effects of a step, with the names of the legend."""
    return re.sub(r"[^\s,]+", lambda word: names.get(word[0], word[0]), step)


def _names(groups: Sequence[Group]) -> dict[str, str]:
    """Identity to its client id, if no group has another member of that: a restarted member stays who it was."""
    labels = own_names([list(zip(identities(group), group.client_ids, strict=False)) for group in groups])
    return {who: who.removeprefix("instance ") for group in groups for who in identities(group)} | labels
