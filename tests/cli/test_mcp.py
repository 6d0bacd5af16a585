"""An agent asks over the Model Context Protocol and gets the commands' own sentences and JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import HERE, run_here

LISTING = (HERE.parent / "sources" / "cases" / "bound.txt").read_text()
SERVER = [sys.executable, "-m", "apportion", "mcp"]


def asked(*requests: dict[str, Any], words: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The replies to requests over standard input."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", "id": i, **request}) + "\n" for i, request in enumerate(requests))
    done = subprocess.run([*SERVER, *words], input=lines, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.mark.slow
def test_every_tool_says_what_its_command_says() -> None:
    calls: dict[str, tuple[dict[str, Any], list[str]]] = {
        "describe": ({}, ["describe", "-"]),
        "compare": ({"assignors": ["range", "sticky"]}, ["compare", "-", "-A", "range", "-A", "sticky"]),
        "what_if": ({"steps": ["join=1"], "assignor": "sticky"}, ["what-if", "-", "--join", "1", "-A", "sticky"]),
        "size": ({"capacity": "9000", "by": "lag"}, ["size", "-", "--capacity", "9000", "--by", "lag"]),
    }
    replies = asked(*(call(name, text=LISTING, **more) for name, (more, _) in calls.items()))
    for reply, (_, words) in zip(replies, calls.values(), strict=True):
        result, command = reply["result"], run_here(*words, stdin=LISTING.encode())
        assert result["isError"] is False
        assert command.out in result["content"][0]["text"]
        assert result["structuredContent"] == run_here(*words, "-o", "json", stdin=LISTING.encode()).json


def test_files_are_read_below_the_root_alone(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret.txt"
    root.mkdir()
    (root / "here.txt").write_text(LISTING)
    secret.write_text(LISTING)
    (root / "link.txt").symlink_to(secret)
    paths = ["here.txt", "../secret.txt", str(secret), "link.txt", "s3a://bucket/x", "\0"]
    replies = asked(*(call("describe", path=path) for path in paths), words=("--root", str(root)))
    assert [reply["result"]["isError"] for reply in replies] == [False, True, True, True, True, True]
    [rootless] = asked(call("describe", path="here.txt"))
    assert "started without --root" in rootless["result"]["content"][0]["text"]


def test_no_argument_becomes_an_option_and_no_name_commands_the_client() -> None:
    group = {"group": "\x1b[31mg\u202e", "topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}
    replies = asked(
        call("describe", text=json.dumps(group)),
        call("describe", text=LISTING, group="--help"),
        call("plan", text=LISTING),
        call("describe", text=LISTING, save="plan.json"),
        call("what_if", text=LISTING, steps=["output=html"]),
        call("describe"),
    )
    assert [reply["result"]["isError"] for reply in replies] == [False, True, True, True, True, True]
    text = replies[0]["result"]["content"][0]["text"]
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_what_is_no_request_gets_an_error_and_the_server_goes_on() -> None:
    lines = 'no json\n[]\n{"jsonrpc":"2.0","id":7,"method":"nothing"}\n{"jsonrpc":"2.0","method":"notifications/x"}\n'
    lines += '{"jsonrpc":"2.0","id":8,"method":"ping"}\n'
    done = subprocess.run(SERVER, input=lines, capture_output=True, text=True, check=True)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply.get("error", {}).get("code") for reply in replies] == [-32700, -32600, -32601, None]
    assert replies[-1]["result"] == {}


@contextmanager
def serving(*words: str, **variables: str) -> Iterator[int]:
    process = subprocess.Popen(
        [*SERVER, "--port", "0", *words], stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    try:
        assert process.stderr is not None
        yield int(process.stderr.readline().rsplit(":", 1)[1].partition("/")[0])
    finally:
        process.terminate()
        process.wait()


def status(port: int, path: str = "/mcp", at: str = "127.0.0.1", **headers: str) -> int:
    connection = HTTPConnection(at, port, timeout=60)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    connection.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse().status


def test_http_answers_this_machine_and_no_page_of_another_origin() -> None:
    with serving() as port:
        assert status(port) == status(port, origin="http://localhost:3000") == 200
        assert status(port, origin="https://evil.example") == status(port, host="evil.example") == 403
        assert status(port, path="/other") == 404


def test_another_address_needs_a_token() -> None:
    refused = run_here("mcp", "--port", "0", "--host", "127.0.0.2")
    assert (refused.code, "APPORTION_MCP_TOKEN" in refused.err) == (2, True)
    secret = "x" * 20
    with serving("--host", "127.0.0.2", APPORTION_MCP_TOKEN=secret) as port:
        assert status(port, at="127.0.0.2") == status(port, at="127.0.0.2", authorization="Bearer another") == 401
        assert status(port, at="127.0.0.2", authorization=f"Bearer {secret}") == 200


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_client_lists_the_tools_and_gets_an_answer(transport: str) -> None:
    mcp, anyio = pytest.importorskip("mcp"), pytest.importorskip("anyio")

    async def talk(server: Any) -> tuple[list[str], str, Any]:
        async with mcp.Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("describe", {"text": LISTING})
            return tools, answer.content[0].text, answer.structured_content

    if transport == "stdio":
        environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        server = mcp.StdioServerParameters(command=SERVER[0], args=SERVER[1:], env=environment)
        tools, text, data = anyio.run(talk, server)
    else:
        with serving() as port:
            tools, text, data = anyio.run(talk, f"http://127.0.0.1:{port}/mcp")
    assert tools == ["describe", "compare", "what_if", "size", "switch", "replay"]
    assert "g: 2 members, 4 partitions, lag 13,000" in text
    assert data["groups"][0]["described"]["lag"] == 13_000
