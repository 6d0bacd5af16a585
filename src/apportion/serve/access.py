"""Authentication: a token or a name and password from a file, compared in constant time; and where a server may listen.

Only this machine is served without either. Beyond it a server wants TLS and a login; whoever asks for less is told.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

from apportion.errors import ApportionError, BadInput, Unavailable

LEAST_SECRET: Final = 12
"""Letters of a token or password: less can be guessed over the network."""
_TOKEN: Final = re.compile(rb"[!-~]+")
SECRETS_BYTES: Final = 1 << 20
"""That a file of secrets may have."""
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""They tell nothing but up or down, and those who probe them keep no secrets."""

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


@dataclass(frozen=True)
class Access:
    """Secrets as digests; nothing of them is ever printed.

    tokens
        SHA-256 of each bearer token.
    logins
        SHA-256 of each ``name:password``.
    """

    tokens: tuple[bytes, ...] = field(default=(), repr=False)
    logins: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def asked(self) -> bool:
        """Whether a login is asked for."""
        return bool(self.tokens or self.logins)

    def allows(self, header: str | None) -> bool:
        """Whether an ``Authorization`` header opens the door; every secret is compared, in the same time each."""
        scheme, _, rest = (header or "").partition(" ")
        if scheme.lower() == "bearer":
            return _among(_digest(rest.strip().encode("utf-8", "replace")), self.tokens)
        if scheme.lower() == "basic":
            try:
                login = base64.b64decode(rest.strip(), validate=True)
            except (binascii.Error, ValueError):
                login = b""
            return _among(_digest(login), self.logins)
        return False


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _among(header: bytes, known: Iterable[bytes]) -> bool:
    among = False
    for digest in known:
        among |= hmac.compare_digest(header, digest)
    return among


def read_access(token_file: str | None, login_file: str | None) -> tuple[Access, list[str]]:
    """The secrets of two files, and the files' oddities.

    token_file
        A token a line.
    login_file
        A ``name:password`` a line.
    Raises
        Unavailable: a file that cannot be read. BadInput: a line that is no secret; it is not repeated.
    """
    notes: list[str] = []
    tokens = [] if token_file is None else _secrets(token_file, notes)
    logins = [] if login_file is None else _secrets(login_file, notes)
    for line in tokens:
        if len(line) < LEAST_SECRET:
            raise BadInput(str(token_file), "a token that is too short", f"at least {LEAST_SECRET} letters")
        if not _TOKEN.fullmatch(line):
            raise BadInput(str(token_file), "a token that no header can carry", "ASCII letters, digits and signs")
    for line in logins:
        name, colon, password = line.partition(b":")
        if not (name and colon and len(password) >= LEAST_SECRET):
            raise BadInput(
                str(login_file), "a line that is no login", f"name:password, a password of at least {LEAST_SECRET}"
            )
    return Access(tuple(map(_digest, tokens)), tuple(map(_digest, logins))), notes


def _secrets(path: str, notes: list[str]) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            content = file.read(SECRETS_BYTES + 1)
            mode = os.fstat(file.fileno()).st_mode
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > SECRETS_BYTES:
        raise BadInput(
            path, f"more than {SECRETS_BYTES:,} bytes", "a smaller file: what is behind them would not count"
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        notes.append(f"{path} may be read by others on this machine: chmod 600")
    lines = [line.strip() for line in content.splitlines()]
    secrets = [line for line in lines if line and not line.startswith(b"#")]
    if not secrets:
        raise BadInput(path, "no secret", "one a line")
    return secrets


def check_exposure(host: str, tls: bool, access: Access, insecure: bool) -> list[str]:
    """The missing settings for the address on which the server listens; empty on this machine alone.

    Raises
        ApportionError: something is missing and nobody said that this is meant.
    """
    if is_loopback(host):
        return []
    missing = [] if tls else ["TLS (--tls-cert and --tls-key): names and offsets go over the network in the clear"]
    if not access.asked:
        missing.append("a login (--token-file or --basic-auth-file): everybody who reaches the port reads everything")
    if missing and not insecure:
        raise ApportionError(
            f"{host} is reached from other machines, and this is missing: {'; and '.join(missing)}. "
            "Give it, listen on 127.0.0.1, or say --insecure where something else guards the port."
        )
    return missing


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "kafka.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """An ASGI layer: asks for the login, and answers only to this machine's names if there is none.

    A page of the internet can make a browser ask 127.0.0.1 under its own name (DNS rebinding); such a request has that
    name in ``Host`` and gets nothing.
    """

    def __init__(self, app: App, access: Access, local: bool, on_answer: Callable[[str, int], None]) -> None:
        self.app, self.access, self.local, self.on_answer = app, access, local, on_answer

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Let through, or refuse."""
        if scope["type"] != "http":
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope["path"], headers)
        # What a client sends beside its question is not read: it may have no end.
        close = headers.get(b"content-length", "0") != "0" or b"transfer-encoding" in headers
        if scope["method"] not in ("GET", "HEAD"):
            refused, close = (405, "only GET and HEAD are answered"), True

        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [*SAFE_HEADERS, *([(b"connection", b"close")] if close else [])]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
                self.on_answer(scope["path"], message["status"])
            await send(message)

        if refused is None:
            await self.app(scope, receive, tell)
            return
        status, why = refused
        body = f"{why}\n".encode()
        headers_back = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        if status == 401:
            headers_back += [(b"www-authenticate", b'Basic realm="apportion"'), (b"www-authenticate", b"Bearer")]
        if status == 405:
            headers_back.append((b"allow", b"GET, HEAD"))
        await tell({"type": "http.response.start", "status": status, "headers": headers_back})
        await tell({"type": "http.response.body", "body": body})

    def _refused(self, path: str, headers: MutableMapping[bytes, str]) -> tuple[int, str] | None:
        if path in OPEN_PATHS:
            return None
        if self.access.asked:
            if self.access.allows(headers.get(b"authorization")):
                return None
            return 401, "a token or a name and password is needed"
        host = headers.get(b"host", "")
        name = host[: host.rindex("]") + 1] if "]" in host else host.partition(":")[0]
        if self.local and host and not is_loopback(name):
            return 421, "this server answers to this machine's own names alone"
        return None


SAFE_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
