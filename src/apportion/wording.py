"""Numbers, partitions and proofs in words, as every sentence for people has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def count(n: int, thing: str, things: str | None = None) -> str:
    """A number with its noun: ``1 partition``, ``2,000 partitions``."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def some_of(names: Sequence[str]) -> str:
    """The first three of some names, and how many more there are: ``a, b, c and 5 more``."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def shorten(text: str, places: int) -> str:
    """The text, cut with an ellipsis if it is longer than so many places."""
    return text if len(text) <= places else text[: max(places - 3, 0)] + "..."


def percent(share: float) -> str:
    """A share in words of which ``100%`` is the whole and nothing less.

    >>> percent(0.9995), percent(0.5), percent(1.0)
    ('over 99%', '50%', '100%')
    """
    return "over 99%" if 0.99 < share < 1 else f"{share:.0%}"


def partitions_in_words(topics: Mapping[str, Sequence[int]], runs: bool = True) -> str:
    """Partitions as Kafka's tool writes them, runs drawn together: ``clicks(0-3,7), orders(1)``."""
    return ", ".join(f"{topic}({','.join(_runs(ids) if runs else map(str, ids))})" for topic, ids in topics.items())


def _runs(ids: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a},{b}" for a, b in runs]


def proof_in_words(proof: dict[str, str]) -> str:
    """``balance optimal, moves optimal``; a strategy that promises nothing says so."""
    return ", ".join(f"{goal} {how}" for goal, how in proof.items()) or "this strategy promises none"


def kind_of(value: object) -> str:
    """A value's type with its article, for errors.

    >>> kind_of(5), kind_of([])
    ('an int', 'a list')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
