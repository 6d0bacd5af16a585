"""A list, one group in full, the page and the gate say of a group what the one judge said, with the same reasons."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import run_here

from apportion.demo import dump

FIELDS = ("verdict", "reasons", "diagnosis")


def described(*words: str) -> dict[str, dict[str, Any]]:
    """Group to what ``describe -o json`` says of it."""
    groups = json.loads(run_here("describe", *words, "-o", "json").out)["groups"]
    return {group["group"]: {name: group["described"][name] for name in FIELDS} for group in groups}


def test_every_output_has_the_same_verdict_of_each_recorded_group_with_its_reasons(tmp_path: Path) -> None:
    recorded = str(dump())
    whole = described(recorded)
    assert {group["verdict"] for group in whole.values()} == {"OK", "WARN", "ERR"}
    assert all(bool(group["reasons"]) == (group["verdict"] != "OK") for group in whole.values())
    for name in ("feed-cooperative", "near-racks", "export-simple"):
        assert described(recorded, "--group", name) == {name: whole[name]}
    rows = run_here("describe", recorded).out.splitlines()
    for name, group in whole.items():
        [row] = [line for line in rows if line.startswith(f"{name} ")]
        assert re.search(rf"^{re.escape(name)} +{group['verdict']} ", row), row
        assert not group["reasons"] or group["reasons"][0][:40] in row
    page = tmp_path / "page.html"
    assert run_here("report", recorded, "-o", str(page)).code == 0
    lines = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)[1].strip().split("\n")  # type: ignore[index]
    fields = json.loads(lines[0])["list"]["fields"]
    for line in lines[1::2]:
        row = json.loads(line)
        shown = dict(zip(fields, row, strict=True)) if isinstance(row, list) else row
        if shown["group"] in whole:
            group = whole[shown["group"]]
            assert (shown["verdict"], shown["diagnosis"]) == (group["verdict"], group["diagnosis"]), shown["group"]
            assert shown["why"][: len(group["reasons"])] == group["reasons"]


def test_a_gate_on_present_owners_says_the_verdict_whether_a_limit_is_breached_or_not(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    topic = [{"partition": p, "lag": 8_000_000} for p in range(2)]
    members = {f"m{p}": {"topics": ["t"], "owned": {"t": [p]}} for p in range(2)}
    path.write_text(json.dumps({"topics": {"t": topic}, "members": members}))
    [group] = described(str(path)).values()
    gated = run_here("gate", str(path), "--now", "--max-skew", "1", "-o", "json")
    assert gated.code == 0
    assert (gated.json["verdict"], gated.json["reasons"]) == (group["verdict"], group["reasons"])
    assert f"Verdict WARN. {group['reasons'][0]}" in run_here("gate", str(path), "--now", "--max-lag", "1").out
