"""Random wrong command lines and inputs: never a traceback, always a sentence, the right exit code.

By default 300 of them; with APPORTION_THOROUGH=1 2,000. The same seed gives the same lines.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from apportion.cli.commands import COMMANDS, parser_of

from .conftest import ADS, PASTED, Done, Runner

TRIES = 2_000 if os.environ.get("APPORTION_THOROUGH") == "1" else 300
OFFLINE = [name for name in COMMANDS if name not in ("watch", "pipeline", "demo")]
OPTIONS = [
    *("--assignor", "--set", "--output", "-o", "-A", "--group", "--join", "--leave", "--grow", "--lose-rack", "--lag"),
    *(
        "--max-moves",
        "--max-skew",
        "--max-lag-share",
        "--max-unowned",
        "--require-proof",
        "--now",
        "--batch",
        "--title",
    ),
    *("--explain", "--diff", "--save", "--offsets", "--members", "--state", "--verbose", "--help", "--versoin", "-x"),
    *("--asignor", "--all-groups", "--context", "--", "-"),
]
VALUES = [
    *("sticky", "range", "nobody", "json", "csv", "xml", "wide", "group.json", "pasted.txt", "groups.ndjson", ".", "/"),
    *("/dev/null", "nowhere", "plan.json", "max_skew=2", "max_skew=x", "=x", "k=", "order=moves", "order=moves,moves"),
    *("scope=group", "pod-0", "consumer-2-91aa", "clicks:24", "clicks:0=9", "clicks:-1=9", "impressions:9", "a", "b"),
    *("clicks:0=99999999999999999999", "0", "1", "-1", "1e9", "NaN", "0.5", "٣", "2_0", "ads-join", "é", "", "../x"),
    *("\u2028", "\udc80", "\x1b[31m", "%", "%s", "{}"),
]
JUNK: list[Any] = [
    None, True, -1, 3.5, 10**40, "", "x", "\x00", "\u202e", [], {}, [1], {"a": 1}, "a" * 300, -(2**63), [[]], "clicks",
]  # fmt: skip


def is_a_sentence(done: Done) -> bool:
    """One line, ours, that ends; and no stack."""
    return done.err.startswith("apportion: ") and done.err.rstrip().endswith((".", "?")) and "Traceback" not in done.err


def check(done: Done, line: list[str]) -> None:
    assert done.code in (0, 1, 2, 3), (line, done)
    assert "Traceback" not in done.err, (line, done.err)
    assert "fault in apportion" not in done.err + done.out, (line, done)
    if done.code == 2:
        assert is_a_sentence(done), (line, done.err)
        assert done.out == "", (line, done.out)


@pytest.mark.slow
def test_random_command_lines_end_in_a_result_or_a_sentence(run: Runner, folder: Path) -> None:
    rng = random.Random(8)
    codes = set()
    for _ in range(TRIES):
        words = nearly_right(rng) if rng.random() < 0.6 else nonsense(rng)
        # What would be written goes nowhere but into the test's own folder.
        if any(word in ("/", "../x", ".") for word in words) and {"--save", "-o", "--output"} & set(words):
            continue
        done = run(*words, stdin=json.dumps(ADS).encode())
        check(done, words)
        codes.add(done.code)
    assert codes >= {0, 2}


def nonsense(rng: random.Random) -> list[str]:
    """Any command with any words."""
    words = [rng.choice([*OFFLINE, rng.choice(VALUES)])]
    return words + [rng.choice(OPTIONS if rng.random() < 0.5 else VALUES) for _ in range(rng.randint(0, 6))]


def nearly_right(rng: random.Random) -> list[str]:
    """A command with options of its own, each with a value where it takes one."""
    name = rng.choice(OFFLINE)
    options = {
        option: action.nargs != 0
        for option, action in parser_of(name)._option_string_actions.items()
        if option not in ("-h", "--help", "--bootstrap-server")
    }
    words = [name, rng.choice(["group.json", "pasted.txt", "-", rng.choice(VALUES)])]
    for _ in range(rng.randint(0, 4)):
        option = rng.choice(list(options) or ["--help"])
        words += [option, rng.choice(VALUES)] if options.get(option) else [option]
    return words


@pytest.mark.slow
def test_random_groups_end_in_a_plan_or_a_sentence(run: Runner, folder: Path) -> None:
    rng = random.Random(9)
    codes = []
    for _ in range(TRIES):
        raw = mutated(json.loads(json.dumps(ADS)), rng)
        command = rng.choice([["plan", "-"], ["describe", "-"], ["compare", "-"], ["gate", "-", "--max-moves", "3"]])
        form = rng.choice([["-o", "json"], []])
        done = run(*command, *form, stdin=json.dumps(raw).encode())
        check(done, [*command, json.dumps(raw)])
        codes.append(done.code)
    assert {0, 2} <= set(codes)


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with one place of it made something else, left out, or doubled under another name."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        change = rng.random()
        if change < 0.15:
            del value[key]
        elif change < 0.25:
            value[key + rng.choice(["x", "", "\u2028", "é"])] = value[key]
        else:
            value[key] = mutated(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.85:
        i = rng.randrange(len(value))
        value[i] = mutated(value[i], rng)
        return value
    return rng.choice(JUNK)


@pytest.mark.slow
def test_random_damage_to_pasted_text_ends_in_groups_or_a_sentence(run: Runner) -> None:
    rng = random.Random(10)
    texts = [path.read_bytes() for path in sorted(PASTED.glob("*.txt"))]
    for _ in range(TRIES):
        text = bytearray(rng.choice(texts) + rng.choice([b"", rng.choice(texts)]))
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            kind = rng.random()
            if kind < 0.4:
                text[at : at + rng.randint(1, 30)] = b""
            elif kind < 0.7:
                text[at:at] = rng.choice(
                    [b"\t", b"  ", b"\n", b"\r\n", b"-", b"\xff", b"999999999999999999999", "é".encode()]
                )
            else:
                text[at] = rng.randrange(256)
        done = run("describe", "-", *rng.choice([["-o", "json"], [], ["-o", "csv"]]), stdin=bytes(text))
        check(done, [repr(bytes(text))])


@pytest.mark.slow
def test_random_bytes_end_in_a_sentence(run: Runner) -> None:
    rng = random.Random(11)
    for _ in range(TRIES // 3):
        start = rng.choice([b"", b"{", b"[", b"PAR1", b"GROUP TOPIC PARTITION", b"\xff\xfe", b"\xef\xbb\xbf{"])
        done = run("describe", "-", stdin=start + rng.randbytes(rng.randint(0, 200)))
        check(done, [])
        assert done.code == 2


@pytest.mark.parametrize("command", ["plan", "describe", "compare", "what-if --leave pod-0", "report"])
def test_what_is_wrong_inside_a_file_is_told_with_its_name(run: Runner, folder: Path, command: str) -> None:
    """Of a group, of one of several, and of a saved plan; of standard input too."""
    faults = {
        "group.json": ({"members": {"a": {"topics": "t"}}, "topics": {}}, "members.a.topics"),
        "groups.json": ({"groups": [{"members": {"a": {"topics": "t"}}}]}, "groups[0].members.a.topics"),
        "plan.json": ({"version": 1, "assignor": "range", "assignment": 3}, "assignment"),
    }
    verb, *options = command.split()
    for name, (content, where) in faults.items():
        text = json.dumps(content)
        (folder / name).write_text(text)
        for path, shown in ((name, name), ("-", "standard input")):
            done = run(verb, path, *options, stdin=text.encode())
            assert done.code == 2
            assert done.err.startswith(f"apportion: {shown}: {where}: found "), (verb, done.err)


@pytest.mark.parametrize("words", ["compare", "plan", "gate --max-moves 0", "gate --now --max-skew 0", "switch"])
def test_a_text_that_names_no_partition_is_not_judged(run: Runner, words: str) -> None:
    """--members without --verbose only counts them: gate found every limit kept."""
    done = run(*words.split(), "-", "--group", "new", stdin=(PASTED / "members.txt").read_bytes())
    assert (done.code, done.out) == (2, "")
    assert "found members of 'new' that hold 4 partitions, but not which; needed what --describe" in done.err
