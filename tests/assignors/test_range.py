"""Range is even within each topic and cuts like topics alike, racks and gaps included."""

from __future__ import annotations

import numpy as np

import apportion
from apportion.testing import Kinds, many_groups


def test_counts_within_a_topic_differ_by_at_most_one() -> None:
    for raw in many_groups(1500, seed=11):
        plan = apportion.plan(raw, "range")
        for topic in range(plan.group.T):
            subscribers = plan.group.subscribers(topic)
            held = np.bincount(plan.owner[plan.group.partitions(topic)] + 1, minlength=plan.group.M + 1)[1:][
                subscribers
            ]
            assert not len(held) or held.max() - held.min() <= 1


def test_topics_with_the_same_subscribers_and_ids_line_up() -> None:
    pairs = 0
    for raw in many_groups(3000, seed=12, kinds=Kinds(topics=4, partitions=5, subscriptions=("equal", "disjoint"))):
        plan = apportion.plan(raw, "range")
        group, seen = plan.group, {}
        for topic in range(group.T):
            place, subscribers = group.partitions(topic), group.subscribers(topic)
            if len(subscribers) and place.start < place.stop:
                key = (subscribers.tobytes(), group.number[place].tobytes())
                cut = plan.owner[place].tolist()
                assert seen.setdefault(key, cut) == cut, raw
                pairs += seen[key] is not cut
    assert pairs > 200


def test_a_rack_never_makes_misses_where_the_plain_ranges_have_none() -> None:
    """Kafka's deal by racks is greedy, but it starts from what is near."""
    for raw in many_groups(1500, seed=13, kinds=Kinds(topics=1, gaps=False, odd=False)):
        plan = apportion.plan(raw, "range")
        plain = apportion.plan({**raw, "members": {m: {**f, "rack": None} for m, f in raw["members"].items()}}, "range")
        same = apportion.measure(plan.group, plain.owner)["rack_misses"]
        assert plan.measures["rack_misses"] <= same or same > 0
