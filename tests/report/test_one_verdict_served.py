"""A server says of each group on every surface what the command line says of the same groups' listing."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run_here
from tests.serve.played import Played, classic, offsets, request, topic

from apportion.serve.settings import ServerSettings
from apportion.sources.cluster_round import DescribedGroup

ENDS = (9_000_000, 9_000_000, 1000, 1000)
MEMBERS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "caught-up": {"a": (0, 2), "b": (1, 3)},
    "behind": {"a": (0, 2), "b": (1, 3)},
    "nobody": {},
    "lopsided": {"a": (0, 1, 2), "b": (3,)},
    "beyond": {"a": (0, 2), "b": (1, 3)},
    "uncommitted": {"a": (0, 1), "b": (2, 3)},
}
COMMITTED = {
    "caught-up": ENDS,
    "behind": (1_000_000, 1_000_000, 1000, 1000),
    "nobody": (9_000_000, 8_999_000, 1000, 1000),
    "lopsided": (9_000_000, 9_000_000, 1000, 995),
    "beyond": (9_000_000, 9_000_000, 1000, 1010),
    "uncommitted": (9_000_000, 9_000_000, 1000, -1),
}
Said = dict[str, tuple[str, list[str]]]
"""Group to its verdict and the reasons for it, the gravest first."""


def group(name: str) -> DescribedGroup:
    members = {f"{member}/1": {"t": owned} for member, owned in MEMBERS[name].items()}
    state = "Stable" if members else "Empty"
    return classic(name, members, offsets("t", *COMMITTED[name]), wants=["t"] if members else [], state=state)


def listing() -> str:
    """The same as ``kafka-consumer-groups --describe --all-groups`` prints it."""
    lines = []
    for name, members in MEMBERS.items():
        lines += ["", "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"]
        owner = {p: n for n, owned in enumerate(members.values()) for p in owned}
        ids = list(members)
        if not members:
            lines.insert(-1, f"Consumer group '{name}' has no active members.")
        for p, (committed, end) in enumerate(zip(COMMITTED[name], ENDS, strict=True)):
            at, lag = ("-", "-") if committed < 0 else (str(committed), str(end - committed))
            whose = f"{ids[owner[p]]}-1 /10.0.0.{owner[p] + 1} {ids[owner[p]]}" if p in owner else "- - -"
            lines.append(f"{name} t {p} {at} {end} {lag} {whose}")
    return "\n".join(lines) + "\n"


class Surfaces:
    """One server, and the same groups in a file: each method is one place where verdicts are shown."""

    def __init__(self, played: Played, folder: Path) -> None:
        self.played, self.folder = played, folder
        self.file = folder / "listing.txt"
        self.file.write_text(listing())

    def asked(self, path: str) -> bytes:
        status, headers, body = asyncio.run(request(self.played.server.app, path, headers={"host": "localhost:9308"}))
        assert status == 200
        return gzip.decompress(body) if ("content-encoding", "gzip") in headers else body

    def api_list(self) -> Said:
        return rows(json.loads(self.asked("/api/v1/groups"))["groups"])

    def api_group(self) -> Said:
        answers = {name: json.loads(self.asked(f"/api/v1/groups/{name}")) for name in MEMBERS}
        return {name: (answer["verdict"], answer["reasons"]) for name, answer in answers.items()}

    def live_page(self) -> Said:
        return rows(rows_of_page(self.asked("/").decode()))

    def event(self) -> Said:
        message, _ = self.played.answers.event(None)
        return rows(json.loads(message.split(b"data: ")[1])["groups"])

    def text_list(self) -> Said:
        lines = run_here("describe", str(self.file)).out.splitlines()
        found = {}
        for name in MEMBERS:
            [row] = [line for line in lines if line.startswith(f"{name} ")]
            found[name] = row.split()[1], [row]
        return found

    def text_group(self) -> Said:
        texts = {name: run_here("describe", str(self.file), "--group", name).out for name in MEMBERS}
        return {name: (re.search(r"^Verdict (\w+);", text, re.MULTILINE)[1], [text]) for name, text in texts.items()}  # type: ignore[index]

    def json_of_all(self) -> Said:
        groups = json.loads(run_here("describe", str(self.file), "-o", "json").out)["groups"]
        return {group["group"]: (group["described"]["verdict"], group["described"]["reasons"]) for group in groups}

    def page(self) -> Said:
        path = self.folder / "page.html"
        assert run_here("report", str(self.file), "-o", str(path)).code == 0
        return rows(rows_of_page(path.read_text()))

    def gate(self) -> Said:
        words = ("--now", "--max-skew", "9", "-o", "json")
        answers = {name: run_here("gate", str(self.file), "--group", name, *words) for name in MEMBERS}
        gated = {name: answer.json for name, answer in answers.items() if answer.code != 2}
        return {name: (answer["verdict"], answer["reasons"]) for name, answer in gated.items()}


def rows_of_page(text: str) -> Iterator[dict[str, Any]]:
    """The rows of the list that a page draws: lines behind the first one, and not the groups' pictures."""
    data = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1].strip().split("\n")  # type: ignore[index]
    yield from (row for row in map(json.loads, data[1:]) if "lag" in row)


def rows(groups: Any) -> Said:
    """Rows of the list: ``why`` begins with the reasons, and goes on with what is odd and no reason."""
    return {row["group"]: (row["verdict"], row["why"]) for row in groups}


@contextmanager
def served(folder: Path, rounds: int) -> Iterator[Surfaces]:
    with pytest.MonkeyPatch.context() as patch:
        played = Played(patch, ServerSettings(tail=False))
        for _ in range(rounds):
            played.round(map(group, MEMBERS), {"t": topic([(0, end) for end in ENDS])})
        yield Surfaces(played, folder)


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    with served(tmp_path_factory.mktemp("listing"), rounds=1) as surfaces:
        yield surfaces


SERVED = (Surfaces.api_list, Surfaces.api_group, Surfaces.live_page, Surfaces.event)
JOINED_ONCE = ["Nobody reads: the group has no members, and 1,000 messages wait."]
"""The reason for ``nobody`` where a coordinator tells that it is a group of members; a text does not."""


@pytest.mark.parametrize("of", [Surfaces.text_list, Surfaces.text_group, Surfaces.page, Surfaces.gate, *SERVED])
def test_every_surface_says_of_a_group_the_same_verdict_for_the_same_reasons(
    surfaces: Surfaces, of: Callable[[Surfaces], Said]
) -> None:
    expected, shown = surfaces.json_of_all(), of(surfaces)
    assert {verdict for verdict, _ in expected.values()} == {"OK", "WARN", "ERR"}
    assert set(expected) - set(shown) == ({"nobody"} if of is Surfaces.gate else set()), "no gate without a member"
    for name, (verdict, why) in shown.items():
        assert (name, verdict) == (name, expected[name][0])
        reasons = JOINED_ONCE if of in SERVED and name == "nobody" else expected[name][1]
        assert all(any(reason in text for text in why) for reason in reasons), (name, why)


@pytest.mark.parametrize("rounds", [2, 6, 50])
def test_a_verdict_stays_while_a_server_sees_nothing_move(tmp_path: Path, rounds: int) -> None:
    """Seconds without a commit are no evidence that eight million messages will be read."""
    with served(tmp_path, rounds) as surfaces:
        verdicts = {name: verdict for name, (verdict, _) in surfaces.api_list().items()}
        assert verdicts == {name: verdict for name, (verdict, _) in surfaces.json_of_all().items()}
        behind = json.loads(surfaces.asked("/api/v1/groups/behind"))
    assert behind["diagnosis"]["kind"] == "unknown"
