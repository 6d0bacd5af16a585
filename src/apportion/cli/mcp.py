"""``apportion mcp``: the answers of the commands as tools of the Model Context Protocol, for agents; it only reads.

A tool is a command line of ours: the same sentences as text, the same JSON as data. Each call is a process of its own,
with a limit of time, so that no input can hold up or end the server.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any, Final

from apportion import __version__
from apportion.cli import source
from apportion.cli.output import tell
from apportion.cli.parser import Parser, Usage, whole
from apportion.errors import BadInput, Unavailable
from apportion.report.text import to_json

DETAILS = (
    "Tools: describe, compare, what_if, size, switch, replay, over a pasted listing or group.json, a file or folder\n"
    "below --root, or the live cluster that --bootstrap-server names. Without --port it talks over standard input and\n"
    "output, as agents start it; with --port over HTTP at /mcp of this machine. Any other address needs a token in\n"
    "APPORTION_MCP_TOKEN."
)
EXAMPLES = (
    ("started by an agent, which may read this folder", "apportion mcp --root ."),
    ("over HTTP, on a live cluster", "apportion mcp --port 8765 --bootstrap-server localhost:9092"),
)
VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, the newest first; a client that names another one gets the newest."""
TOKEN: Final = "APPORTION_MCP_TOKEN"  # noqa: S105 - a variable's name
MOST_REQUEST: Final = 16 << 20
MOST_ANSWER: Final = 400_000
"""Letters of one answer: what an agent can read at once."""
PATIENCE_S: Final = 120
_PARSE, _INVALID, _NO_METHOD, _PARAMS = -32700, -32600, -32601, -32602

_STRING: Final = {"type": "string"}
_INPUT: Final = {
    "text": _STRING | {"description": "what kafka-consumer-groups --describe or another tool printed, or group.json"},
    "path": _STRING | {"description": "a file or a folder (dump, tables) below the server's root"},
    "group": _STRING | {"description": "which group; without text and path: of the live cluster"},
}
_ASSIGNOR: Final = {"assignor": _STRING | {"description": "the strategy, e.g. cooperative-sticky or lag-aware"}}
_STEP: Final = "one step: join=N, leave=MEMBER, grow=TOPIC:PARTITIONS, lag=TOPIC:PARTITION=N or lose-rack=RACK"
TOOLS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "describe": ("Who owns what in a consumer group, how far it is behind, and what is odd about it.", {}),
    "compare": (
        "One group under every assignment strategy: loads, moves, heaviest lag, proofs, and advice.",
        {"assignors": {"type": "array", "items": _STRING, "description": "only these strategies"}},
    ),
    "what_if": (
        "What happens if members join or leave, topics grow or lag rises: each step planned, in order.",
        {**_ASSIGNOR, "steps": {"type": "array", "items": _STRING | {"description": _STEP}}},
    ),
    "size": (
        "How many members the group needs, and why.",
        {"capacity": _STRING | {"description": "what one member takes in a second, or 'learned'"},
         "by": _STRING | {"description": "lag, rate or weight"}},
    ),
    "switch": ("Should the group move to Kafka's new protocol (KIP-848), and what happens when it does?", {}),
    "replay": ("A group's recorded history under another strategy; path must be a dump or tables.", _ASSIGNOR),
}  # fmt: skip
"""A tool's name, what it answers, and what it takes besides its input."""


def add_arguments(parser: Parser) -> None:
    """Which inputs may be read, and where it listens."""
    parser.add_argument("--root", metavar="FOLDER", help="files below it may be read; without it none")
    parser.add_argument("--port", metavar="PORT", type=whole(0, 65535), help="HTTP on this port; 0 is any free one")
    parser.add_argument("--host", metavar="HOST", default="127.0.0.1", help="default: 127.0.0.1")
    source.add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Answer until the client goes away."""
    if args.root is not None and not os.path.isdir(args.root):
        raise Unavailable(f"{args.root!r} is no folder.")
    tools = Tools(args)
    if args.port is None:
        _over_pipes(tools, sys.stdin.buffer, sys.stdout.buffer)
    else:
        _over_http(tools, args.host, args.port)
    return 0


class Tools:
    """Answers requests; the inputs that they may reach are fixed when the server starts."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.root = None if args.root is None else os.path.realpath(args.root)
        named = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in source.CONNECTION]
        self.connection = [f"{option}={value}" for option, value in named if value is not None]

    def answer(self, request: Any) -> dict[str, Any] | None:
        """The answer to one JSON-RPC request; None for a notification."""
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
            return _failure(None, _INVALID, "this is no request of JSON-RPC 2.0")
        if "id" not in request or "method" not in request:
            return None
        number, params = request["id"], request.get("params") or {}
        try:
            result = self._result(str(request["method"]), params if isinstance(params, dict) else {})
        except LookupError as unknown:
            return _failure(number, _NO_METHOD, f"no method is named {unknown.args[0]!r}")
        except BadInput as wrong:
            return _failure(number, _PARAMS, str(wrong))
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0], "capabilities": {"tools": {}},
                "serverInfo": {"name": "apportion", "version": __version__},
                "instructions": "Give describe what kafka-consumer-groups --describe prints; then compare, or size.",
            }  # fmt: skip
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [_declared(name) for name in TOOLS]}
        if method == "tools/call":
            arguments = params.get("arguments") or {}
            return self._call(str(params.get("name")), arguments if isinstance(arguments, dict) else {})
        raise LookupError(method)

    def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's result: the command's own words, and its JSON."""
        try:
            words, text = self._words(name, arguments)
        except BadInput as wrong:
            return {"content": [{"type": "text", "text": f"apportion: {wrong}"}], "isError": True}
        sentences, data = (_ended([*words, f"--output={form}"], text) for form in ("table", "json"))
        if sentences.returncode or data.returncode:
            return {"content": [{"type": "text", "text": sentences.stderr or data.stderr}], "isError": True}
        shown = f"{sentences.stderr}{sentences.stdout}"
        if len(shown) > MOST_ANSWER:
            shown = f"{shown[:MOST_ANSWER]}\nNot all is shown: this is {MOST_ANSWER:,} of {len(shown):,} letters.\n"
        result: dict[str, Any] = {"content": [{"type": "text", "text": shown}], "isError": False}
        if len(data.stdout) <= MOST_ANSWER:
            result["structuredContent"] = json.loads(data.stdout)
        return result

    def _words(self, name: str, arguments: Mapping[str, Any]) -> tuple[list[str], str]:
        """The command line of a call, and its standard input.

        Raises
            BadInput: no such tool or argument, or a path outside the root.
        """
        if name not in TOOLS:
            raise BadInput("tool", repr(name), f"one of {', '.join(TOOLS)}")
        takes = {**_INPUT, **TOOLS[name][1]}
        for key, value in arguments.items():
            lists = takes.get(key, {}).get("type") == "array"
            texts = value if lists and isinstance(value, list) else [value]
            if key not in takes or not all(isinstance(entry, str) and "\0" not in entry for entry in texts):
                raise BadInput(
                    key, repr(value)[:60], f"{'strings' if lists else 'a string'}; {name} takes {', '.join(takes)}"
                )
        words, text = [name.replace("_", "-")], str(arguments.get("text", ""))
        if "text" in arguments:
            words.append("-")
        elif "path" in arguments:
            words.append(self._below_root(arguments["path"]))
        elif self.connection and "group" in arguments:
            words += self.connection
        else:
            raise BadInput("arguments", "neither text nor path", "one; a group alone is read from the server's cluster")
        words += [f"--group={arguments['group']}"] if "group" in arguments else []
        words += [f"--{key}={arguments[key]}" for key in ("assignor", "capacity", "by") if key in arguments]
        words += [f"--assignor={assignor}" for assignor in arguments.get("assignors", ())]
        return [*words, *(_step(step) for step in arguments.get("steps", ()))], text

    def _below_root(self, path: str) -> str:
        if self.root is None:
            raise BadInput("path", repr(path[:60]), "text: this server was started without --root and reads no files")
        real = os.path.realpath(os.path.join(self.root, path))
        if os.path.commonpath([self.root, real]) != self.root:
            raise BadInput("path", repr(path[:60]), "a path below the server's root")
        return real


def _step(step: str) -> str:
    name, equals, value = step.partition("=")
    if name not in ("join", "leave", "grow", "lag", "lose-rack") or not equals:
        raise BadInput("steps", repr(step[:60]), _STEP)
    return f"--{name}={value}"


def _declared(name: str) -> dict[str, Any]:
    purpose, takes = TOOLS[name]
    required = {"what_if": ["steps"], "size": ["capacity"]}.get(name, [])
    schema = {"type": "object", "properties": {**_INPUT, **takes}, "required": required, "additionalProperties": False}
    return {"name": name, "description": purpose, "inputSchema": schema, "annotations": {"readOnlyHint": True}}


def _ended(words: list[str], text: str) -> subprocess.CompletedProcess[str]:
    """A command line of ours, run to its end; the environment's clusters are not this client's."""
    line = [sys.executable, "-m", "apportion", *words]
    try:
        return subprocess.run(
            line, input=text, capture_output=True, encoding="utf-8", errors="replace", timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(
            line, 1, "", f"apportion: no answer within {PATIENCE_S} s; give a smaller input"
        )


def _failure(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _replied(tools: Tools, line: bytes) -> bytes:
    """The reply to the bytes of one request; empty for a notification."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        reply: dict[str, Any] | None = _failure(None, _PARSE, "this is no JSON")
    else:
        reply = tools.answer(request)
    return b"" if reply is None else to_json(reply).encode("utf-8", "backslashreplace")


def _over_pipes(tools: Tools, requests: IO[bytes], replies: IO[bytes]) -> None:
    """A request a line, until the client closes its end."""
    while line := requests.readline(MOST_REQUEST + 1):
        if len(line) > MOST_REQUEST:
            raise BadInput("a request", f"more than {MOST_REQUEST:,} bytes", "a shorter one, or a file below --root")
        if line.strip() and (reply := _replied(tools, line)):
            replies.write(reply + b"\n")
            replies.flush()


def _over_http(tools: Tools, host: str, port: int) -> None:
    """``POST /mcp``, until it is interrupted."""
    token = os.environ.get(TOKEN, "")
    local = host in ("127.0.0.1", "::1", "localhost")
    if not local and not token:
        raise Usage(
            "apportion mcp", f"--host {host} lets others in: set {TOKEN}, which they then send as a bearer token"
        )
    try:
        server = ThreadingHTTPServer((host, port), type("Handler", (_Handler,), {"tools": tools, "token": token}))
    except OSError as error:
        raise Unavailable(f"cannot listen on {host}:{port}: {error.strerror or error}.") from None
    tell(f"http://{host}:{server.server_port}/mcp")
    with server:
        server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    """One request; a page of another origin, which a browser would let ask this machine, is refused."""

    tools: Tools
    token: str
    timeout = 30
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """There is no stream of events to listen to."""
        self._send(405, b"")

    def do_POST(self) -> None:
        """Answer in JSON."""
        length = self.headers.get("content-length", "")
        if self.path != "/mcp":
            self._send(404, b"")
        elif not self._may_ask():
            self._send(403 if not self.token else 401, b"")
        elif not length.isascii() or not length.isdecimal() or int(length) > MOST_REQUEST:
            self._send(413, b"")
        else:
            reply = _replied(self.tools, self.rfile.read(int(length)))
            self._send(200 if reply else 202, reply)

    def _may_ask(self) -> bool:
        if self.token:
            return hmac.compare_digest(self.headers.get("authorization", "").encode(), f"Bearer {self.token}".encode())
        names = [self.headers.get("host", ""), self.headers.get("origin", "").rpartition("/")[2] or "localhost"]
        return all(name.rsplit(":", 1)[0] in ("127.0.0.1", "[::1]", "localhost") for name in names)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.close_connection or status >= 400

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: standard error is for errors."""
