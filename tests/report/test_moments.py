"""Moments of records as people read them."""

from __future__ import annotations

import pytest

from apportion.report import page_groups, replaying


@pytest.mark.parametrize(
    ("at_ms", "on_the_page", "in_a_table"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01 00:00:00"),
        (1_700_000_000_123, "2023-11-14T22:13:20Z", "2023-11-14 22:13:20"),
        (-1, "", None),
        (-(2**63), "", None),
        (2**63 - 1, "", None),
    ],
)
def test_a_record_without_a_timestamp_has_no_moment(at_ms: int, on_the_page: str, in_a_table: str | None) -> None:
    """Kafka writes -1 where there is none; 1969 would be believed."""
    assert (page_groups.moment(at_ms), replaying.moment(at_ms)) == (on_the_page, in_a_table)
