"""Write the schema of ``describe -o json`` anew, with the fields that ``sighting.measures`` has.

python -m tools.describe_schema
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apportion.sighting import measures

FILE = Path(__file__).parents[1] / "src" / "apportion" / "schemas" / "describe.schema.json"
OTHERS = ("governed", "lag_unknown", "owners_told", "members", "partitions", "roles", "verdict", "reasons", "diagnosis",
          "odd")  # fmt: skip
"""Fields of ``described`` that are no measures."""


def schema() -> dict[str, Any]:
    """The file's schema with today's measures of groups, members and partitions."""
    document: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    described = document["$defs"]["described"]
    others = {name: described["properties"][name] for name in OTHERS}
    described["properties"] = measures.schema("group") | others
    for field, level in (("members", "member"), ("partitions", "row")):
        others[field]["items"]["properties"] = measures.schema(level)
    return document


if __name__ == "__main__":
    FILE.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
