"""The server says which pods should go for its advised number of members, or why it cannot say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.serve.played import Played, classic, request, topic

from apportion.serve.settings import ServerSettings


def test_the_pods_that_should_go_have_the_lowest_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, ServerSettings(tail=False, personal=True, capacity=1000.0))

    def ask(path: str) -> tuple[int, Any]:
        status, _, body = asyncio.run(
            request(played.server.app, f"/api/v1/groups/{path}", headers={"host": "localhost"})
        )
        return status, json.loads(body)

    group = classic("g", {"a/1": {"t": [0, 1, 2]}, "b/2": {"t": [3]}}, {}, wants=["t"])
    played.round([group], {"t": topic([(0, 0)] * 4)})
    assert ask("g/pods?rule=client-id")[0] == 400, "no rate is known yet"
    played.now += 60
    played.round([group], {"t": topic([(0, 600)] * 4)})
    played.round([group], {"t": topic([(0, 600)] * 4)})
    status, answer = ask("g/pods?rule=client-id")
    assert (status, answer["members"], answer["advised_members"]) == (200, 2, 1)
    assert (answer["leave"], answer["deletion_cost"]) == (["b"], {"a": 4, "b": 0})
    assert ask("g/pods?rule=pod")[0] == 400
    assert ask("h/pods?rule=client-id")[0] == 404
