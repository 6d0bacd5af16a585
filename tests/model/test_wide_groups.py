"""A group too wide for one table of wishes says who may own what as a small one does."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.model import group as rooms
from apportion.model.group_json import read_group
from apportion.testing.groups import many_groups


def test_who_may_own_what_does_not_depend_on_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "CELLS", 0)
    compared = 0
    for raw in many_groups(60, seed=5):
        group = read_group(raw)
        member, partition = (index.ravel() for index in np.indices((len(group.members), group.P)))
        wished = [
            group.topics[t] in raw["members"][group.members[m]]["topics"]
            for m, t in zip(member.tolist(), group.topic_of[partition].tolist(), strict=True)
        ]
        assert group.may_own(member, partition).tolist() == wished
        compared += len(group.subscriptions) > 1
    assert compared > 10, "some groups have several subscriptions"
