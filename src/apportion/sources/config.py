"""Where a live cluster is and how to log in: options, then the environment, then the config file's context.

The config file is ``~/.config/apportion/config.toml``, or what APPORTION_CONFIG names:

    context = "local"                              # where neither --context nor APPORTION_CONTEXT says

    [contexts.local]
    bootstrap-server = "localhost:9092"

    [contexts.prod]
    bootstrap-server = "kafka-1:9093,kafka-2:9093"
    command-config = "prod.properties"             # beside this file, or an absolute path

    [contexts.prod.properties]                     # Kafka's own names; they win over the file's
    "security.protocol" = "SASL_SSL"

Nothing that is read here is ever printed but names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apportion.errors import ApportionError, BadInput, UnknownName
from apportion.sources.properties import Properties, read_properties


@dataclass(frozen=True)
class Connection:
    """A cluster's address and the client properties that open it; the latter stay out of the repr."""

    bootstrap: str
    properties: Properties = field(repr=False)


def connection(bootstrap: str | None, command_config: str | None, context: str | None) -> Connection:
    """The meaning of the options, completed from the environment and the config file.

    Raises
        BadInput where the config file is wrong; ApportionError where nothing names a server.
    """
    chosen = _context(context)
    server = os.environ.get("APPORTION_BOOTSTRAP_SERVER") or chosen.get("bootstrap-server")
    if bootstrap is not None:
        server = bootstrap
    if server is None:
        raise ApportionError(
            "which cluster? give --bootstrap-server HOST:PORT, set APPORTION_BOOTSTRAP_SERVER, "
            f"or add a context to {config_path()}."
        )
    _check_server(server)
    file = os.environ.get("APPORTION_COMMAND_CONFIG") or None
    if command_config is not None:
        file = command_config
        if not file.strip():
            raise BadInput("command config", repr(file), "a properties file of Kafka's tools")
    if file is None and chosen.get("command-config"):
        file = str(config_path().parent / Path(chosen["command-config"]).expanduser())
    read = read_properties(file)
    own = chosen.get("properties", {})
    return Connection(server, Properties({**read.settings, **own}, read.where if file else str(config_path())))


def is_set() -> bool:
    """Whether the environment or the config file name a server."""
    return bool(os.environ.get("APPORTION_BOOTSTRAP_SERVER") or _context(None).get("bootstrap-server"))


def config_path() -> Path:
    """The config file, there or not."""
    named = os.environ.get("APPORTION_CONFIG")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "apportion" / "config.toml"


def _context(name: str | None) -> dict[str, Any]:
    """The context that is meant, checked; empty if none is."""
    path = config_path()
    raw = _read(path)
    if name is None:
        name = os.environ.get("APPORTION_CONTEXT") or raw.get("context")
    if name is None:
        return {}
    contexts = raw.get("contexts", {})
    if not isinstance(contexts, dict) or not isinstance(name, str) or name not in contexts:
        known = contexts if isinstance(contexts, dict) else {}
        raise UnknownName(f"context in {path}", str(name), known)
    return _checked(contexts[name], f"{path}: contexts.{name}")


def _checked(chosen: Any, where: str) -> dict[str, Any]:
    fields = ("bootstrap-server", "command-config", "properties")
    if not isinstance(chosen, dict):
        raise BadInput(where, _kind(chosen), "a table with " + ", ".join(fields))
    for key, value in chosen.items():
        if key not in fields:
            raise UnknownName(f"setting of {where}", str(key), fields)
        if key == "properties":
            if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
                raise BadInput(f"{where}.properties", "values that are not texts", '"name" = "value", name in quotes')
        elif not isinstance(value, str) or not value:
            raise BadInput(f"{where}.{key}", "an empty text" if value == "" else _kind(value), "a text")
    return chosen


def _kind(value: Any) -> str:
    """A value without its text, which may be a secret."""
    return f"a value of type {type(value).__name__}"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists() or path.is_dir():
        if os.environ.get("APPORTION_CONFIG"):
            raise BadInput("APPORTION_CONFIG", f"{str(path)!r}, which is no file", "a file of contexts")
        return {}
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The parser's sentence names line and column alone; the line itself may hold a password.
        raise BadInput(str(path), f"no TOML ({_where(error)})", "contexts as in the documentation") from None


def _where(error: Exception) -> str:
    text = str(error)
    return text[text.rfind("(") + 1 :].rstrip(")") if "(at " in text else "not UTF-8"


def _check_server(servers: str) -> None:
    """Each of ``host:port,host:port``; a host alone is a frequent slip that a client would wait long for."""
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        whole = port.isascii() and port.isdecimal() and len(port) < 6
        if not (colon and host and "/" not in host and whole and 0 < int(port) < 65536):
            raise BadInput("bootstrap server", repr(server[:80]), "HOST:PORT, as in localhost:9092")
