"""``python -m apportion.testing.simulation --faults N --seed S``: generated schedules until N faults were put in.

One JSON line at the end: ``{"seed", "hours" (virtual), "events": {kind: n}, "failures": [{"seed", "check",
"schedule"}]}``; exit 1 if there are failures. ``--show`` prints the events of the first run instead.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from apportion.errors import ApportionError
from apportion.testing.simulation.schedules import Plan, Run, draw, run, shortened
from apportion.testing.simulation.stage import Action
from apportion.testing.simulation.worlds import STORIES, explored

EACH: Final = 1000
"""After so many faults the run says how far it is."""


def main(words: Sequence[str] | None = None) -> int:
    """Run schedules, and report the failures."""
    parser = argparse.ArgumentParser(
        prog="python -m apportion.testing.simulation", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--faults", type=int, default=500, help="put in so many faults (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="the first schedule's seed; the next have the next ones")
    parser.add_argument("--show", action="store_true", help="print the events of this seed's run alone")
    parser.add_argument("--small", type=int, default=0, metavar="N", help="small worlds: a fault at each of N messages")
    parser.add_argument("--orders", type=int, default=0, metavar="N", help="small worlds: every order of N choices")
    arguments = parser.parse_args(words)
    gc.freeze()  # what is loaded by now need not be looked through after each run
    try:
        if arguments.show:
            return show(arguments.seed)
        if depths := (arguments.orders, arguments.small) if arguments.orders or arguments.small else ():
            return max(small(story, *depths) for story in STORIES)
        return sweep(arguments.seed, arguments.faults, map(draw, itertools.count(arguments.seed)))
    except ApportionError as error:
        print(error, file=sys.stderr)
        return 2


def show(seed: int) -> int:
    """The events of one run, a JSON line each."""
    result = run(draw(seed))
    for event in result.events:
        print(json.dumps(event))
    if result.failure is not None:
        print(result.failure, file=sys.stderr)
    return int(result.failure is not None)


def sweep(first: int, faults: int, plans: Iterable[Plan]) -> int:
    """One run after the other until so many faults were put in; the state by then, after each thousand."""
    events: Counter[str] = Counter()
    failures, seconds, put_in = list[dict[str, object]](), 0.0, 0

    def summary() -> str:
        hours = round(seconds / 3600, 3)
        return json.dumps({"seed": first, "hours": hours, "events": dict(events), "failures": failures})

    for plan in plans:
        result = run(plan)
        seconds += result.seconds
        before, put_in = put_in, put_in + (sum(result.faults.values()) or 1)
        events.update(result.faults)
        events["join"] += result.joins
        if result.failure is not None:
            script = shortened(plan.script, partial(again, plan))
            failures.append({"seed": plan.seed, "check": result.failure.check, "schedule": script})
            print(f"seed {plan.seed}: {result.failure}", file=sys.stderr, flush=True)
        if put_in >= faults:
            break
        if put_in // EACH > before // EACH:
            print(f"{put_in} faults up to seed {plan.seed}: {summary()}", file=sys.stderr, flush=True)
    print(summary())
    return int(bool(failures))


def small(story: str, orders: int, faults: int) -> int:
    """All schedules of a small world; one JSON line."""
    began, runs, failures = time.process_time(), Counter[bool](), list[dict[str, object]]()
    for choices, result in explored(story, orders, faults):
        runs[result is not None] += 1
        if result is not None and result.failure is not None:
            failures.append({"choices": choices, "check": result.failure.check})
            print(f"{story} {choices}: {result.failure}", file=sys.stderr, flush=True)
    facts = {"schedules": runs.total(), "seen before": runs[False], "cpu_s": round(time.process_time() - began, 1)}
    print(json.dumps({"story": story, "orders": orders, "faults": faults, **facts, "failures": failures}), flush=True)
    return int(bool(failures))


def again(plan: Plan, script: Sequence[Action]) -> Run:
    """A plan with another schedule."""
    return run(replace(plan, script=tuple(script)))


if __name__ == "__main__":
    sys.exit(main())
