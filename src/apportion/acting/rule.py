"""The rule: act when a member cannot catch up, a plan has helped enough for long enough, and the group has rested.

A rebalance costs the group some seconds and some records that are read twice, so it must be worth it and must be rare.
Four numbers say so. ``horizon_s``: a member that works off its lag, and what comes in meanwhile, within this time needs
no help. One that gets more than it can read never does, however little it is behind yet. ``gain``: the plan must take
the heaviest member's time to catch up down by this share, or leave no member that needs help: near saturation a share
is blind. ``hold_s``: every look in that time must have seen such a plan, so that a short wave of messages moves
nothing. ``rest_s``: no rebalance, of whatever cause, was so short ago; so members that just joined are left alone, and
a new leader begins with a rest.

Two bounds follow, and the tests hold them. Acts are ``rest_s`` apart, since each makes a generation: at most
``3600 / rest_s`` in an hour, and twice as many rebalances, for a cooperative act takes two. While work and speeds stay
what they are, each act but the last leaves at most ``1 - gain`` of the heaviest member's time, which no plan takes
below ``least``: at most log(before / least) / -log(1 - gain) more acts follow, and one more where speeds are known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, Final

from apportion.errors import BadInput, UnknownName
from apportion.wording import count, percent

LONGEST_S: Final = 30 * 86_400.0
"""A month: whoever wants to wait longer does not want to act."""


@dataclass(frozen=True)
class Acting:
    """When a leader asks for a rebalance by itself.

    gain
        Share of the heaviest member's time to catch up that a new plan must save: above 0, below 1.
    hold_s
        Seconds for which it must have been so, without a look that saw less.
    rest_s
        Seconds since the group's last generation, at least.
    horizon_s
        Seconds in which each member should work off what it has to read; whoever does needs no help.
    moves
        At most so many partitions change hands at a time (1 or more), or partitions of at most this share of the work
        (a number below 1); None: as many as the plan moves.
    Raises
        BadInput for a number that is none of these.
    """

    gain: float = 0.2
    hold_s: float = 10.0
    rest_s: float = 60.0
    moves: int | float | None = None
    horizon_s: float = 60.0

    def __post_init__(self) -> None:
        if not (_is_number(self.gain) and 0 < self.gain < 1):
            raise BadInput("acting.gain", repr(self.gain), "a share of the time to catch up, above 0 and below 1")
        if not (_is_number(self.hold_s) and 0 <= self.hold_s <= LONGEST_S):
            raise BadInput("acting.hold_s", repr(self.hold_s), f"seconds, from 0 to {LONGEST_S:,.0f}")
        if not (_is_number(self.rest_s) and 1 <= self.rest_s <= LONGEST_S):
            raise BadInput("acting.rest_s", repr(self.rest_s), f"seconds, from 1 to {LONGEST_S:,.0f}")
        if not (_is_number(self.horizon_s) and 1 <= self.horizon_s <= LONGEST_S):
            raise BadInput("acting.horizon_s", repr(self.horizon_s), f"seconds, from 1 to {LONGEST_S:,.0f}")
        if self.moves is not None and not _limits(self.moves):
            needed = "a whole number of partitions from 1 on, a share of the work below 1, or None"
            raise BadInput("acting.moves", repr(self.moves), needed)

    @classmethod
    def of_text(cls, text: str, defaults: Acting | None = None) -> Acting:
        """From ``gain=0.2,hold=10,rest=60,horizon=60,moves=4``; missing settings are as in ``defaults``.

        Raises
            BadInput, UnknownName for a text that says nothing else.

        >>> Acting.of_text("rest=300,moves=4")
        Acting(gain=0.2, hold_s=10.0, rest_s=300.0, moves=4, horizon_s=60.0)
        """
        names = {field.name.removesuffix("_s"): field.name for field in fields(cls)}
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if name not in names:
                raise UnknownName("--acting", name, names)
            if names[name] in values:
                raise BadInput("--acting", f"{name} twice in {text!r}", "each name once")
            values[names[name]] = _number(f"--acting {name}", value if equals else "")
        if isinstance(values.get("moves"), float) and values["moves"] >= 1:
            values["moves"] = int(values["moves"]) if values["moves"].is_integer() else values["moves"]
        return replace(defaults or cls(), **values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _limits(moves: int | float) -> bool:
    if type(moves) is int:
        return moves >= 1
    return _is_number(moves) and 0 < moves < 1


def _number(where: str, text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else inf
    except ValueError:
        value = inf
    if not isfinite(value):
        raise BadInput(where, repr(text), "a number")
    return value


@dataclass(frozen=True)
class Outlook:
    """The change that a new plan would bring, by the heaviest member's time to catch up.

    before, after
        That time now, and under the plan; in seconds where a speed is known, else in messages per capacity.
    least
        What no plan gets below.
    member
        Who is the heaviest now.
    moves
        Partitions that would change hands; 0 where no plan was made, since none can save enough.
    in_seconds
        Whether the times are seconds.
    """

    before: float
    after: float
    least: float
    member: str
    moves: int
    in_seconds: bool = True

    @property
    def saves(self) -> float:
        """Share of the heaviest member's time that the plan saves, from 0 to 1."""
        return saved(self.before, self.after)


def saved(before: float, after: float) -> float:
    """Share of ``before`` that ``after`` saves; 0 if there is nothing to save.

    >>> saved(200.0, 50.0)
    0.75
    """
    return max(0.0, 1 - after / before) if before > 0 else 0.0


@dataclass(frozen=True)
class Decision:
    """One look's outcome.

    act
        Whether to ask for a rebalance now.
    why
        The reason in words, for one log line.
    since_s
        Since when every look has seen a plan that saves enough; None where this one did not.
    """

    act: bool
    why: str
    since_s: float | None = None


def is_resting(acting: Acting, now_s: float, generation_s: float) -> bool:
    """Whether the last generation is so young that even a look that holds from now on could not act in time."""
    return now_s - generation_s < acting.rest_s - acting.hold_s


def resting(acting: Acting, now_s: float, generation_s: float) -> Decision:
    """The decision of a group that rests."""
    ago = f"the last rebalance was {_s(now_s - generation_s)} ago"
    return Decision(False, f"{ago}, and the group rests for {_s(acting.rest_s)}")


def decide(acting: Acting, now_s: float, generation_s: float, since_s: float | None, outlook: Outlook) -> Decision:
    """Whether to act.

    now_s, generation_s
        The moment of this look, and of the group's last generation, by one clock.
    since_s
        ``since_s`` of the decision before.

    >>> decide(Acting(hold_s=10, rest_s=60), 100.0, 0.0, 85.0, Outlook(80.0, 40.0, 20.0, "a", 2)).why
    'a needs 80 s to catch up, after 2 moves the heaviest would need 40 s: 50% less'
    """
    if outlook.in_seconds and 0 < outlook.before <= acting.horizon_s:
        return Decision(False, f"every member catches up within {_s(acting.horizon_s)}")
    relieves = outlook.in_seconds and outlook.before > acting.horizon_s >= outlook.after
    if not relieves and round(outlook.saves, 9) < acting.gain:  # 48 of 60 s are a fifth, whatever floats make of it
        return Decision(False, _too_little(acting, outlook))
    since_s = now_s if since_s is None else since_s
    if now_s - since_s < acting.hold_s:
        held = f"for {_s(now_s - since_s)} of {_s(acting.hold_s)}"
        return Decision(False, f"{_saving(outlook)}, but only {held}", since_s)
    if now_s - generation_s < acting.rest_s:
        return Decision(False, f"{_saving(outlook)}, but {resting(acting, now_s, generation_s).why}", since_s)
    return Decision(True, _saving(outlook))


def _too_little(acting: Acting, outlook: Outlook) -> str:
    if not outlook.before:
        return "no member has anything to catch up with"
    planned = bool(outlook.moves) or round(saved(outlook.before, outlook.least), 9) >= acting.gain
    subject = "a new plan saves" if planned else "no plan saves more than"
    saves = saved(outlook.before, outlook.after if planned else outlook.least)
    share = percent(int(100 * saves + 1e-9) / 100)  # rounded down: what is too little must not read as enough
    return f"{subject} {share} of {_time(outlook, outlook.before)}, and {percent(acting.gain)} are needed"


def _saving(outlook: Outlook) -> str:
    after = f"after {count(outlook.moves, 'move')} the heaviest would need {_time(outlook, outlook.after)}"
    before = f"{outlook.member} needs {_time(outlook, outlook.before)} to catch up"
    return f"{before}, {after}: {percent(outlook.saves)} less"


def _time(outlook: Outlook, amount: float) -> str:
    return _s(amount) if outlook.in_seconds else f"{amount:,.0f} messages"


def _s(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
