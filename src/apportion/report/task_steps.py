"""Steps of a streams group as a table and in words: the effects of each assignor of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.history.task_groups import TaskStage
from apportion.report.text import Cell, TextTable, span
from apportion.wording import count


def table(stages: Sequence[TaskStage]) -> TextTable:
    """A row for the present, and one for each step of each assignor."""
    rows: list[tuple[Cell, ...]] = []
    for stage in stages:
        load = span(stage.measures["load_min"], stage.measures["load_max"])
        counts = [stage.measures[name] for name in ("moves", "cold", "restored", "standbys")]
        rows.append((stage.assignor, stage.step, stage.members, stage.tasks, load, *counts, stage.rounds))
    columns = ("ASSIGNOR", "STEP", "#MEMBERS", "#TASKS", "LOAD", "MOVES", "COLD", "RESTORED", "STANDBYS", "ROUNDS")
    return TextTable(columns, rows)


def notes(stages: Sequence[TaskStage]) -> list[str]:
    """The costs of each assignor in all, and the meaning of the table's words."""
    sentences = []
    for name in dict.fromkeys(stage.assignor for stage in stages[1:]):
        moves, cold, restored = (
            sum(stage.measures[measure] for stage in stages if stage.assignor == name)
            for measure in ("moves", "cold", "restored")
        )
        begun = f"{count(cold, 'task')} begun without state, {count(restored, 'copy', 'copies')} restored"
        sentences.append(f"{name}: {count(moves, 'move')}, {begun}.")
    sentences.append("COLD: active tasks with state that begin where there is no copy, and wait until it is restored.")
    sentences.append("Each step begins where the same assignor ended the one before; ROUNDS are rebalances until then.")
    return sentences
