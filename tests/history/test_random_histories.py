"""All that is told of groups whose records were made at random, against what was written down."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from tests.history.random_records import random_group
from tests.history.test_whole_histories import moved, or_sentence, past_of, plain
from tests.support.written_down import as_written

from apportion.history.switch_measures import concerns, facts_of
from apportion.history.switching import switch
from apportion.model.group_json import read_group

WRITTEN = Path(__file__).parent / "random_histories.json"


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.parametrize("kind", ["classic", "consumer", "streams"])
def test_a_random_group_is_told_as_was_written_down(kind: str, seed: int) -> None:
    group = random_group(seed, kind)
    said: list[Any] = past_of(group)
    names = ("streams", "broker-sticky") if group.runs_tasks else ("sticky", "broker-uniform", "lag-aware", "streams")
    assignor = names[seed % len(names)]
    said.append([assignor, or_sentence(lambda: moved(group.replay(assignor)))])
    said.append([[one.assignor, one.scenario, *astuple(one)[2:]] for one in group.what_if([assignor, "range"])])
    said.append(or_sentence(lambda: [one.to_dict() for one in group.what_if_tasks(["join 1"], "broker-sticky")]))
    said.append(group.raw)
    if concerns(group):
        said.append(switch(read_group(group.raw), facts_of(group), group).to_dict())
    as_written(WRITTEN, f"{kind} {seed}", plain(said))
