"""Governors that see the same share the groups: each group to one, about as many each, and no lease moves in vain."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadInput
from apportion.governing.metrics import listening
from apportion.governing.sharing import share

GROUPS = st.sets(st.text("abcdef", min_size=1, max_size=4), max_size=30)
GOVERNORS = st.lists(st.sampled_from([f"g{n}" for n in range(9)]), min_size=1, max_size=5, unique=True)


@given(GROUPS, GOVERNORS, st.data())
def test_each_group_has_one_governor_and_none_has_more_than_its_share(
    groups: set[str], governors: list[str], data: st.DataObject
) -> None:
    """Whoever held what before, alive or dead; who has room keeps all that it has."""
    everybody = st.sampled_from([*governors, "dead", None])
    drawn = {group: data.draw(everybody) for group in sorted(groups)}
    holders = {group: holder for group, holder in drawn.items() if holder}
    most = -(-len(groups) // len(governors))
    kept_all = {g for g in governors if Counter(holders.values())[g] <= most}
    shares = {governor: share(groups, holders, governors, governor) for governor in governors}
    for _ in governors:  # what is handed over is free at the next look, and found by who has room
        holders = {group: holder for holder, mine in shares.items() for group in mine}
        assert sum(map(len, shares.values())) == len(holders), "none has two"
        assert max(map(len, shares.values()), default=0) <= most
        assert all(
            set(mine) >= {g for g, h in drawn.items() if h == who} for who, mine in shares.items() if who in kept_all
        )
        shares = {governor: share(groups, holders, governors, governor) for governor in governors}
    assert set().union(*shares.values()) == groups


@given(GROUPS, GOVERNORS)
def test_a_governor_that_comes_takes_leases_from_those_with_too_many_alone(
    groups: set[str], governors: list[str]
) -> None:
    old = governors[1:] or ["g0"]
    before = {group: who for who in old for group in share(groups, {}, old, who)}
    for who in old:
        mine = {group for group, holder in before.items() if holder == who}
        assert share(groups, before, [*old, "new"], who) <= mine


@pytest.mark.parametrize("address", ["9309", "host", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "192.0.2.1:9309"])
def test_an_address_that_cannot_be_listened_at_is_a_sentence(address: str) -> None:
    with pytest.raises(BadInput, match="--listen"), listening(address, None, 5):  # type: ignore[arg-type]
        pass
