"""The smallest member that a group's record can hold is read in every version: a count is not refused too early."""

from __future__ import annotations

import pytest
from tests.support.records import group_key, group_value

from apportion.wire.coordinator import GroupGeneration, Member, decode


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("count", [1, 2, 50])
def test_members_of_the_fewest_bytes_at_the_very_end_are_read(version: int, count: int) -> None:
    members = tuple(Member("", None, "", "", 1, 1, subscription=b"", assignment=b"") for _ in range(count))
    raw = group_value(GroupGeneration("g", False, generation=1, protocol_type="connect", members=members), version)
    found = decode(group_key("g"), raw)
    assert isinstance(found, GroupGeneration)
    assert len(found.members) == count
