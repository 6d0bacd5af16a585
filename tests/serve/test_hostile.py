"""Clients that mean no good cost bounded memory and never keep a scrape from being answered."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pytest

from apportion.cli import main
from apportion.errors import BadInput
from apportion.serve import access
from apportion.serve.access import Access, read_access

from .running import Serving, serving, until

NOBODY = "127.0.0.1:1"
"""No broker: what is asked here is about the server itself."""
TOKEN, LOGIN = "a-token-that-is-long", "ann:a-password-é"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving("--interval", "1", bootstrap=NOBODY) as running:
        yield running


def connect(server: Serving) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    one.settimeout(10)
    return one


def answer_to(server: Serving, request: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    with connect(server) as one:
        found = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was said
            one.sendall(request)
        with suppress(ConnectionResetError, TimeoutError):
            while piece := one.recv(65536):
                found += piece
        return found


@pytest.mark.parametrize("path", ["/metrics%0A", "/api/v1/groups%0A", "/api/v1/switch%0A", "/healthz%0A"])
def test_a_newline_at_a_paths_end_is_part_of_it(server: Serving, path: str) -> None:
    assert server.ask(path)[0] == 404


@pytest.mark.parametrize("name", ["orders%0A", "orders%0Amore", "%0Aorders"])
def test_a_newline_is_a_letter_of_the_group_that_is_asked_for(server: Serving, name: str) -> None:
    status, _, body = server.ask(f"/api/v1/groups/{name}")
    assert (status, json.loads(body)["error"]["found"]) == (404, repr(unquote(name)))


def test_the_page_may_send_no_form_and_change_no_base(server: Serving) -> None:
    page = answer_to(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    policy = next(line for line in page.splitlines() if line.lower().startswith(b"content-security-policy"))
    assert b"base-uri 'none'; form-action 'none'" in policy


def test_a_thousand_idle_connections_keep_nobody_out(server: Serving) -> None:
    before = server.memory_mb()
    idle = [connect(server) for _ in range(1000)]
    assert server.ask("/metrics")[0] == 200
    open_now = server.value("apportion_scrape_connections")
    assert open_now is not None
    assert open_now <= 257
    assert server.memory_mb() - before < 60
    for one in idle:
        one.close()


def test_a_head_without_end_is_refused(server: Serving) -> None:
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-More: " + b"a" * 20_000
    assert answer_to(server, request).startswith(b"HTTP/1.1 400 ")
    endless = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(100_000))
    assert answer_to(server, endless)[:13] in (b"HTTP/1.1 400 ", b"")
    assert server.ask("/healthz")[0] == 200


def test_a_gigantic_query_is_refused_and_a_long_one_does_no_harm(server: Serving) -> None:
    assert answer_to(server, b"GET /?" + b"q" * 10_000_000)[:13] in (b"HTTP/1.1 400 ", b"")
    assert answer_to(server, b"GET /?" + b"q" * 20_000).startswith(b"HTTP/1.1 400 ")
    assert server.ask("/healthz?" + "q=1&" * 3000)[0] == 200


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/api/v1/groups/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"]
)
def test_a_path_with_dots_leads_nowhere(server: Serving, path: str) -> None:
    status, _, body = server.ask(path)
    assert status == 404
    assert b"root:" not in body


def test_a_head_that_does_not_come_is_not_waited_for(server: Serving) -> None:
    with connect(server) as one:
        one.settimeout(20)
        one.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert one.recv(1) == b""


def test_a_body_that_is_no_http_ends_its_answer_and_fills_no_log(server: Serving) -> None:
    for path in ("/metrics", "/healthz", "/events"):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert answer_to(server, head.encode() + b"ZZ\r\n") == b""
    assert server.ask("/healthz")[0] == 200
    assert "Traceback" not in server.log()


def test_gzip_that_is_refused_is_not_sent(server: Serving) -> None:
    for offer, expected in (
        ("gzip;q=0.000", None),
        ("gzip; q=0", None),
        ("br, gzip;q=0.001", "gzip"),
        ("GZIP", "gzip"),
    ):
        assert server.ask("/metrics", Accept_Encoding=offer)[1].get("content-encoding") == expected, offer


def test_a_body_is_not_read_and_another_method_not_answered(server: Serving) -> None:
    endless = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5\r\nhello\r\n" * 1000
    assert answer_to(server, endless).startswith(b"HTTP/1.1 405 ")
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    assert b"connection: close" in answer_to(server, asked)


def test_a_page_of_elsewhere_that_calls_itself_this_machine_gets_nothing(server: Serving) -> None:
    assert server.ask("/api/v1/groups", Host="rebound.example:80")[0] == 421
    assert server.ask("/api/v1/groups", Host=f"localhost:{server.port}")[0] == 200
    assert server.ask("/api/v1/groups", Host=f"[::1]:{server.port}")[0] == 200


def test_every_answer_forbids_what_a_browser_might_do_with_it(server: Serving) -> None:
    _, headers, _ = server.ask("/")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "connect-src 'self'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]


def test_before_the_first_round_it_is_alive_and_not_ready(server: Serving) -> None:
    assert server.ask("/healthz")[0] == 200
    status, _, body = server.ask("/readyz")
    assert (status, body[:11]) == (503, b"not ready: ")
    assert server.value("apportion_up") == 0


@pytest.mark.slow
def test_a_login_is_asked_for_over_tls_and_its_secrets_are_told_to_nobody(tmp_path: Path) -> None:
    subject = ["-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", "key.pem", "-out", "crt.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "tokens").write_text(f"# for Prometheus\n{TOKEN}\n")
    (tmp_path / "logins").write_text(LOGIN + "\n", encoding="utf-8")
    files = {"--tls-cert": "crt.pem", "--tls-key": "key.pem", "--token-file": "tokens", "--basic-auth-file": "logins"}
    options = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    with serving("--listen", "0.0.0.0:0", *options, bootstrap=NOBODY, tls=True) as server:
        status, headers, body = server.ask("/metrics")
        assert (status, headers["www-authenticate"].partition(" ")[0]) == (401, "Bearer")
        assert TOKEN.encode() not in body
        basic = base64.b64encode(LOGIN.encode()).decode()
        wrong = base64.b64encode(b"ann:wrong").decode()
        for authorization, expected in (
            (f"Bearer {TOKEN}", 200), (f"bearer  {TOKEN}", 200), (f"Basic {basic}", 200), (f"Basic {wrong}", 401),
            (f"Bearer {TOKEN[:-1]}", 401), (f"Bearer {LOGIN.encode().decode('latin-1')}", 401), ("Basic ???", 401),
            ("", 401),
        ):  # fmt: skip
            assert server.ask("/metrics", Authorization=authorization)[0] == expected, authorization
        assert server.ask("/healthz")[0] == 200
        status, _, why = server.ask("/readyz")
        assert (status, why) == (503, b"not ready\n"), "why has the brokers' addresses in it"
        until(lambda: NOBODY.encode() in server.ask("/readyz", Authorization=f"Bearer {TOKEN}")[2])
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            silent.settimeout(20)
            assert silent.recv(1) == b"", "a greeting that does not come is not waited for"


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    subject = ["-subj", "/CN=127.0.0.1", "-keyout", "key.pem", "-out", "crt.pem", "-passout", "pass:s3cret"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    options = ["--tls-cert", str(tmp_path / "crt.pem"), "--tls-key", str(tmp_path / "key.pem")]
    assert main(["serve", "--bootstrap-server", NOBODY, "--listen", "127.0.0.1:0", *options]) == 2
    said = capfd.readouterr().err
    assert "--tls-key: found an encrypted key; needed a plain one: openssl pkey -in " in said
    assert "pass phrase" not in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--listen", "0.0.0.0:0"], "0.0.0.0 is reached from other machines, and this is missing: TLS"),
        (["--listen", "nowhere"], "--listen: found 'nowhere'; needed HOST:PORT"),
        (["--names", "kafka_exporer"], "Maybe you meant 'kafka_exporter'"),
        (["--token-file", "/no/such/file"], "cannot read '/no/such/file': No such file or directory"),
        (["--tls-cert", "crt.pem"], "TLS: found one of two files; needed both --tls-cert and --tls-key."),
        (["--tls-cert", "/no", "--tls-key", "/no"], "TLS: /no and /no cannot be used: "),
        (["--from", "/no/such"], "/no/such: found no such folder; needed a folder"),
        (["--otlp-endpoint", "localhost:4318"], "--otlp-endpoint: found no URL of HTTP; needed one such as http://"),
        (["--otlp-endpoint", "ftp://ann:secret@host/v1"], "--otlp-endpoint: found no URL of HTTP"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--bootstrap-server", NOBODY, *options]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told
    assert "secret" not in told


def test_a_port_that_is_taken_is_a_sentence(server: Serving) -> None:
    command = [sys.executable, "-m", "apportion", "serve", "--bootstrap-server", NOBODY, "--listen"]
    done = subprocess.run([*command, f"127.0.0.1:{server.port}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1:{server.port}: is it taken?" in done.stderr
    assert "Traceback" not in done.stderr


def test_whoever_asks_for_less_is_told_what_is_missing(tmp_path: Path) -> None:
    with serving("--listen", "0.0.0.0:0", "--insecure", bootstrap=NOBODY) as server:
        assert server.ask("/metrics")[0] == 200
        assert server.ask("/metrics", Host="any.example")[0] == 200


def test_secrets_that_can_be_guessed_are_refused_without_being_repeated(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    for text, token in (
        ("hunter2\n", True), ("ann:short\n", False), ("no-colon-at-all\n", False), ("\n# no\n", True),
        ("two words in a line\n", True), ("\u0437\u0430\u043a\u0430\u0437\u044b-and-more\n", True),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(Exception, match=str(file)) as refused:
            read_access(str(file) if token else None, None if token else str(file))
        assert text.strip() not in str(refused.value).replace(str(file), "") or not text.strip().strip("# no")
    file.write_text("a-token-that-is-long\n")
    file.chmod(0o644)
    access, notes = read_access(str(file), None)
    assert notes == [f"{file} may be read by others on this machine: chmod 600"]
    assert "token-that" not in repr(access)
    assert not Access().allows(None)


def test_a_file_of_secrets_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    """Else its last secret would be a shorter one, and those behind it none."""
    file = tmp_path / "secrets"
    secret = b"a-token-that-is-long\n"
    most = access.SECRETS_BYTES // len(secret)
    file.write_bytes(secret * most)
    assert len(read_access(str(file), None)[0].tokens) == most
    file.write_bytes(secret * (most + 1))
    with pytest.raises(BadInput, match="secrets: found more than 1,048,576 bytes"):
        read_access(str(file), None)


@pytest.mark.slow
def test_it_ends_at_once_when_it_is_told_to(server: Serving) -> None:
    with serving(bootstrap=NOBODY) as other:
        stream = socket.create_connection(("127.0.0.1", other.port))
        stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.recv(15) == b"HTTP/1.1 200 OK"
        other.process.terminate()
        assert until(lambda: [other.process.poll()] if other.process.poll() is not None else None, 25) == [0]
        stream.close()
