"""What every command prints with ``-o json`` is what its JSON Schema promises."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from .conftest import PASTED, Runner

SCHEMAS = {
    path.name: json.loads(path.read_text(encoding="utf-8"))
    for path in (Path(str(files("apportion"))) / "schemas").glob("*.json")
}
TASK_GROUPS = Path(__file__).parents[1] / "data" / "task_groups"
REGISTRY: Registry[Any] = Registry().with_resources(
    [(name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items()]
)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("plan", ["plan", "group.json"]), ("plan", ["plan", "group.json", "--diff", "--explain"]),
        ("plan", ["plan", "group.json", "--assignor", "streams"]), ("describe", ["describe", "group.json"]),
        ("describe", ["describe", str(PASTED / "offsets.txt")]), ("describe", ["describe", str(PASTED / "state.txt")]),
        ("describe", ["describe", "DUMP"]), ("compare", ["compare", "group.json"]),
        ("compare", ["compare", "DUMP", "--group", "ads-range", "-A", "sticky", "--speeds"]),
        ("what-if", ["what-if", "group.json", "--join", "2", "--lag", "clicks:0=4"]),
        ("size", ["size", "group.json", "--by", "partitions", "--capacity", "2"]),
        ("what-if", ["what-if", "group.json", "--rolling", "--protocol", "consumer", "--scale", "3"]),
        ("what-if", ["what-if", str(TASK_GROUPS), "--group", "enrich", "--join", "1", "--leave", "join-1"]),
        ("gate", ["gate", "group.json", "--max-moves", "0", "--max-lag-share", "0", "--require-proof", "-A", "range"]),
        ("switch", ["switch", "DUMP"]), ("switch", ["switch", "group.json"]),
        ("switch", ["switch", str(PASTED / "offsets.txt")]),
        ("replay", ["replay", "DUMP", "--group", "ads-range", "--assignor", "sticky"]),
        ("replay", ["replay", "DUMP", "--group", "profiles-kip848", "--assignor", "range"]),
    ],
)  # fmt: skip
def test_a_commands_json_is_what_its_schema_promises(run: Runner, folder: Path, schema: str, words: list[str]) -> None:
    from apportion.demo import dump

    done = run(*(str(dump()) if word == "DUMP" else word for word in words), "-o", "json")
    assert done.code in (0, 3), done.err
    Draft202012Validator(SCHEMAS[f"{schema}.schema.json"], registry=REGISTRY).validate(done.json)


def test_an_error_of_a_batch_is_what_its_schema_promises(run: Runner) -> None:
    answers = run("plan", "--batch", stdin=b"{}\n[]\n\xff\nx\n").lines
    assert len(answers) == 4
    for answer in answers:
        Draft202012Validator(SCHEMAS["error.schema.json"], registry=REGISTRY).validate(answer)
