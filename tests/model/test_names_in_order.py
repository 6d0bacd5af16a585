"""Names stand in Java's order, whatever a client may have put into them."""

from __future__ import annotations

import apportion
from apportion.model.group import java_order
from apportion.model.group_json import read_group


def test_names_are_ordered_by_utf_16_units_lone_surrogates_too() -> None:
    names = ["\ue000", "\U00010000", "\ud800", "b", "\uffff", "a", "a0", ""]
    assert sorted(names, key=java_order) == ["", "a", "a0", "b", "\ud800", "\U00010000", "\ue000", "\uffff"]


def test_claims_that_fell_are_listed_in_java_s_order_of_topics() -> None:
    topics = ["\uffee", "\U00010000", "a"]
    owned: dict[str, list[int]] = {topic: [9, 7] for topic in topics}
    members = {name: {"topics": topics, "owned": owned} for name in ("m", "l")}
    group = read_group({"topics": dict.fromkeys(topics, 1), "members": members})
    expected = [(t, p, m) for t in ("a", "\U00010000", "\uffee") for p in (7, 9) for m in (0, 1)]
    assert [(topic, number, member) for member, topic, number, _ in group.rejected_claims()] == expected


def test_a_plan_in_text_has_names_as_people_write_them() -> None:
    plan = apportion.plan({"topics": {"заказы": 1}, "members": {"ü": {"topics": ["заказы"]}}}, "range")
    assert '"assignment": {"ü": {"заказы": [0]}}' in plan.to_json()
