"""The server says which member of a group reads a key, and at which address it answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from kafka.partitioner.default import murmur2
from tests.serve.played import Played, classic, request, topic

from apportion.serve.settings import ServerSettings


@pytest.mark.parametrize("personal", [True, False])
def test_a_key_has_a_partition_a_member_and_its_address(monkeypatch: pytest.MonkeyPatch, personal: bool) -> None:
    played = Played(monkeypatch, ServerSettings(tail=False, personal=personal))

    def ask(path: str) -> tuple[int, Any]:
        status, _, body = asyncio.run(
            request(played.server.app, f"/api/v1/groups/{path}", headers={"host": "localhost"})
        )
        return status, json.loads(body)

    logs = topic([(0, 9)] * 6)
    held = {"a/1": {"t": [0, 1, 2]}, "b/2": {"t": [3, 4]}}
    group = classic("g/owner", held, {}, wants=["t"], addresses={"a-1": "10.0.0.1:80", "b-2": "10.0.0.2:80"})
    played.round([group], {"t": logs})
    status, owner = ask("g/owner/owner?topic=t&key=user-17")  # partition 0 by Java's hash, 1 by librdkafka's
    assert (status, owner["partition"], owner["address"]) == (200, 0, "10.0.0.1:80")
    assert (owner["member"], owner["client_id"], owner["host"]) == (
        ("a-1", "a", "/10.0.0.1") if personal else ("1", None, None)
    )
    assert ask("g/owner/owner?topic=t&key=user-17&partitioner=consistent_random")[1]["partition"] == 1
    assert ask("g/owner/owner?topic=t&key=%ff%00")[1]["partition"] == (murmur2(b"\xff\x00") & 0x7FFFFFFF) % 6
    nobodys = next(o for n in range(60) if (o := ask(f"g/owner/owner?topic=t&key={n}")[1])["partition"] == 5)
    assert (nobodys["member"], nobodys["address"]) == (None, None)
    assert ask("g/owner")[1]["group"] == "g/owner", "a group may be called so"
    for path, code in (
        ("g/owner/owner?topic=u&key=k", 404),
        ("h/owner?topic=t&key=k", 404),
        ("g/owner/owner?topic=t&key=k&partitioner=x", 404),
        ("g/owner/owner?topic=t&key=&partitioner=consistent_random", 400),
    ):
        status, refused = ask(path)
        assert status == code
        assert refused["error"]["message"]
