"""Which past claims are valid: stale, claimed twice and unsubscribed ones fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import NOBODY, Bools, Ints

STANDS, STALE, TWICE, NOT_SUBSCRIBED = range(4)


@dataclass(frozen=True, eq=False)
class JudgedClaims:
    """The judgement on all claims of a group.

    owner
        (P,) the member whose claim stands; -1 nobody.
    code
        (C,) STANDS, or what the claim fell by.
    newest
        (P,) the highest generation that claims the partition; only where some claim is contested, else empty.
    undisputed
        Whether every claim stands: then ``owner`` says all that the claims say.
    """

    owner: Ints
    code: NDArray[np.int8]
    newest: Ints
    undisputed: bool = False

    def reasons(self, member: Ints, partition: Ints, generation: Ints) -> Iterator[tuple[int, str]]:
        """Each claim that fell, with the reason in words."""
        for claim in (self.code != STANDS).nonzero()[0]:
            if self.code[claim] == NOT_SUBSCRIBED:
                yield int(claim), "not subscribed"
                continue
            newest = self.newest[partition[claim]]
            if self.code[claim] == TWICE:
                # Sources that tell owners and no generation give them the generation 0, which no broker has.
                yield int(claim), f"claimed twice in generation {newest}" if newest else "claimed twice"
            else:
                yield int(claim), f"stale: generation {generation[member[claim]]}, newest {newest}"


def judge(
    member: Ints,
    partition: Ints,
    generation: Ints,
    partitions: int,
    may_own: Callable[[Ints, Ints], Bools],
) -> JudgedClaims:
    """Judge claims (C,) on existing partitions, in the order: newest generation, single, subscribed.

    A member can miss a rebalance and come back with old claims, so the newest generation is right (KIP-341); at
    equal generations nobody is (Kafka, AbstractStickyAssignor). Last, a claim falls whose member no longer wants it.
    """
    code = np.zeros(len(member), dtype=np.int8)
    newest = np.empty(0, dtype=np.int64)
    owner = np.full(partitions, NOBODY)
    if not len(member):
        return JudgedClaims(owner, code, newest, undisputed=True)
    if np.bincount(partition, minlength=partitions).max() > 1:
        newest = np.full(partitions, np.iinfo(np.int64).min)
        np.maximum.at(newest, partition, generation[member])
        code[generation[member] < newest[partition]] = STALE
        top = code == STANDS
        code[top & (np.bincount(partition[top], minlength=partitions)[partition] > 1)] = TWICE
    wanted = may_own(member, partition)
    if not len(newest) and wanted.all():
        owner[partition] = member
        return JudgedClaims(owner, code, newest, undisputed=True)
    code[(code == STANDS) & ~wanted] = NOT_SUBSCRIBED
    stands = code == STANDS
    owner[partition[stands]] = member[stands]
    return JudgedClaims(owner, code, newest)
