"""How a cluster is reached and logged into: config files, properties files and the environment, right and wrong.

Each case gives the connection and what each client is told, or the sentence that refuses it, held against what was
written down. ``APPORTION_WRITE=1`` writes ``settings_read.json`` anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.written_down import as_written

from apportion.errors import ApportionError
from apportion.inputs import config
from apportion.inputs.properties import Properties, parse, read_properties

HERE = Path(__file__).parent
LOCAL = '[contexts.local]\nbootstrap-server = "localhost:9092"\n'
PROD = (
    '[contexts.prod]\nbootstrap-server = "k1:9093, k2:9093"\ncommand-config = "prod.properties"\n'
    '[contexts.prod.properties]\n"client.dns.lookup" = "x"\n"security.protocol" = "PLAINTEXT"\n'
)
SERVER, CONTEXT, FILE = "APPORTION_BOOTSTRAP_SERVER", "APPORTION_CONTEXT", "APPORTION_COMMAND_CONFIG"
CONNECTIONS: dict[str, tuple[str | None, tuple[str | None, str | None, str | None], dict[str, str]]] = {
    "nothing": (None, (None, None, None), {}),
    "a server": (None, ("b:1", None, None), {}),
    "a server by the environment": (None, (None, None, None), {SERVER: "env:1"}),
    "a server over the environment": (None, ("b:1", None, None), {SERVER: "env:1"}),
    "a context": (LOCAL, (None, None, "local"), {}),
    "no such context": (LOCAL, (None, None, "loacl"), {}),
    "a context of no file": (None, (None, None, "local"), {}),
    "a context by the environment": (LOCAL, (None, None, None), {CONTEXT: "local"}),
    "a context by the file": ('context = "local"\n' + LOCAL, (None, None, None), {}),
    "the environment's context over the file's": (
        'context = "local"\n' + LOCAL + PROD,
        (None, None, None),
        {CONTEXT: "prod"},
    ),
    "the environment's server over the context's": (LOCAL, (None, None, "local"), {SERVER: "env:1"}),
    "an option over the context's": (LOCAL, ("b:1", None, "local"), {}),
    "settings of a context": (PROD, (None, None, "prod"), {}),
    "a context's settings over a file's": (PROD, (None, "more.properties", "prod"), {}),
    "a file": (None, ("b:1", "more.properties", None), {}),
    "a file by the environment": (None, ("b:1", None, None), {FILE: "more.properties"}),
    "an empty file's name": (None, ("b:1", " ", None), {}),
    "no such file": (None, ("b:1", "missing", None), {}),
    "a folder for a file": (None, ("b:1", ".", None), {}),
    "no text": (None, ("b:1", "zeros.properties", None), {}),
    "Latin-1": (None, ("b:1", "latin.properties", None), {}),
    "a context that is a text": ('[contexts]\nlocal = "x"\n', (None, None, "local"), {}),
    "contexts that are a text": ('contexts = "x"\n', (None, None, "local"), {}),
    "a context named by a number": ("context = 5\n" + LOCAL, (None, None, None), {}),
    "an unknown setting": (LOCAL + 'bootstrap-servers = "x:1"\n', (None, None, "local"), {}),
    "a server that is a number": ("[contexts.local]\nbootstrap-server = 9092\n", (None, None, "local"), {}),
    "an empty server": ('[contexts.local]\nbootstrap-server = ""\n', (None, None, "local"), {}),
    "properties that are a list": (LOCAL + "properties = [1]\n", (None, None, "local"), {}),
    "properties with a number": (LOCAL + "properties = { a = 1 }\n", (None, None, "local"), {}),
    "properties with dots": (
        LOCAL + "[contexts.local.properties]\nsecurity.protocol = 'x'\n",
        (None, None, "local"),
        {},
    ),
    "a context without a server": ('[contexts.local]\ncommand-config = "more.properties"\n', (None, None, "local"), {}),
    "no TOML": ("[contexts.local\n", (None, None, "local"), {}),
    "no UTF-8": ("\udcff", (None, None, "local"), {}),
    "a config that is not there": (None, ("b:1", None, None), {"APPORTION_CONFIG": "missing.toml"}),
    "a config that is a folder": (None, ("b:1", None, None), {"APPORTION_CONFIG": "."}),
    **{
        f"server {server!r}": (None, (server, None, None), {})
        for server in (
            "b",
            "b:",
            ":1",
            "b:0",
            "b:65535",
            "b:65536",
            "b:x",
            "b:٣",
            "a/b:1",
            "a:1,b",
            "a:1,b:2",
            " a:1 , b:2 ",
            "",
            "[::1]:9",
            "b:0065536",
        )
    },
}
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="open";'
TLS = {"security.protocol": "SSL"}
SETTINGS: dict[str, dict[str, str]] = {
    "nothing": {},
    "small letters": {"security.protocol": "plaintext"},
    "no protocol": {"security.protocol": "TLS"},
    "a provider": {"config.providers": "file"},
    "PLAIN": {**SASL, "sasl.jaas.config": JAAS},
    "SCRAM": {**SASL, "sasl.mechanism": "scram-sha-512", "sasl.jaas.config": JAAS},
    "SCRAM of 256": {**SASL, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS},
    "no mechanism": {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": JAAS},
    "another mechanism": {**SASL, "sasl.mechanism": "OAUTHBEARER"},
    "no JAAS": SASL,
    "a JAAS without a password": {**SASL, "sasl.jaas.config": 'x required username="al";'},
    "a JAAS without a user": {**SASL, "sasl.jaas.config": 'x required password="open";'},
    "a JAAS with escapes": {**SASL, "sasl.jaas.config": r'x required username="a\"l" password="o\\p e;n";'},
    "a JAAS with single quotes": {**SASL, "sasl.jaas.config": "x required username='al' password='open';"},
    "a JAAS without quotes": {**SASL, "sasl.jaas.config": "x required username=al password=open;"},
    "a JAAS with blanks": {**SASL, "sasl.jaas.config": 'x required username = "al"  password = "open" ;'},
    "an empty password": {**SASL, "sasl.jaas.config": 'x required username="al" password="";'},
    "TLS": TLS,
    "TLS and SASL": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS},
    "no check of hosts": {**TLS, "ssl.endpoint.identification.algorithm": ""},
    "a check of hosts": {**TLS, "ssl.endpoint.identification.algorithm": "https"},
    "a truststore that is not there": {**TLS, "ssl.truststore.location": "missing.pem"},
    "a truststore without a certificate": {**TLS, "ssl.truststore.location": "empty.pem", "ssl.truststore.type": "pem"},
    "a truststore of no certificate": {**TLS, "ssl.truststore.location": "bad.pem"},
    "certificates in the file": {
        **TLS,
        "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----",
    },
    "a keystore that is not there": {**TLS, "ssl.keystore.location": "missing.pem"},
    "a keystore of Java's": {**TLS, "ssl.keystore.location": "empty.pem"},
    "a keystore of no key": {**TLS, "ssl.keystore.location": "bad.pem"},
    "a locked key": {**TLS, "ssl.keystore.location": "locked.pem"},
    "an older locked key": {**TLS, "ssl.keystore.location": "older.pem"},
    "a locked key with a password": {**TLS, "ssl.keystore.location": "locked.pem", "ssl.key.password": "x"},
    "a key in the file": {**TLS, "ssl.keystore.key": "x"},
    "a chain in the file": {**TLS, "ssl.keystore.certificate.chain": "x"},
    "what Spark sets itself": dict.fromkeys(
        (
            "bootstrap.servers",
            "group.id",
            "auto.offset.reset",
            "enable.auto.commit",
            "key.deserializer",
            "value.deserializer",
            "interceptor.classes",
            "isolation.level",
            "client.id",
        ),
        "x",
    ),
}
FILES = {
    "more.properties": b"client.id=me\nclient.dns.lookup=y\n",
    "prod.properties": b"client.id = prod\nsecurity.protocol=SSL\n",
    "zeros.properties": b"a=\0",
    "latin.properties": b"client.id=\xe9",
    "empty.pem": b"nothing",
    "bad.pem": b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
    "locked.pem": b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nx\n",
    "older.pem": b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
}
TEXTS = (
    "a=1",
    "a = 1 ",
    "a: 1",
    "a 1",
    "a",
    "=1",
    "#a=1",
    "!a=1",
    "  a=1",
    "a=1\\\n  2",
    "a=1\\\\\nb=2",
    "a\\=b=1",
    "a\\ b=1",
    "a=\\u0041",
    "a=\\t\\n\\r\\f\\x",
    "a=1\r\nb=2\rc=3",
    "a==1",
    "a=b=c",
    "a:=1",
    "a\\:b:1",
    "# x\\\na=1",
    "a=1\\",
    "\n\n",
    "a=é",
    "a=1\na=2",
    "a\t=\t1",
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, octets in FILES.items():
        (tmp_path / name).write_bytes(octets)


def tried(do: Callable[[], Any], folder: Path) -> Any:
    try:
        return do()
    except ApportionError as wrong:
        sentence = f"{type(wrong).__name__}: {wrong}".replace(str(folder), "FOLDER")
        return re.sub(r"(no usable \w+ \().*(\);)", r"\1...\2", sentence)  # in OpenSSL's words


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_connection_is_what_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, (server, file, context), environment = CONNECTIONS[name]
    for variable in (SERVER, CONTEXT, FILE, "APPORTION_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    if text is not None:
        config.config_path().parent.mkdir(parents=True, exist_ok=True)
        config.config_path().write_bytes(text.encode("utf-8", "surrogateescape"))
        for one in FILES:
            (config.config_path().parent / one).write_bytes(FILES[one])

    def connected() -> Any:
        there = config.connection(server, file, context)
        shown = [repr(there), str(there.properties), repr(there.properties)]
        return [
            there.bootstrap,
            dict(there.properties.settings),
            [one.replace(str(tmp_path), "FOLDER") for one in shown],
        ]

    says = [tried(connected, tmp_path), tried(config.is_set, tmp_path)]
    as_written(HERE / "settings_read.json", f"connection: {name}", says)


@pytest.mark.parametrize("name", SETTINGS)
def test_clients_are_told_what_they_were(name: str, tmp_path: Path) -> None:
    properties = Properties(SETTINGS[name], "client.properties")

    def python() -> Any:
        options = properties.kafka_python()
        if context := options.pop("ssl_context", None):
            options["hosts are checked"] = context.check_hostname
        return options

    asked: tuple[Callable[[], Any], ...] = (python, properties.spark, properties.sasl, properties.trusted)
    ways = (lambda: properties.protocol, *asked, lambda: str(properties))
    as_written(HERE / "settings_read.json", f"clients: {name}", [tried(way, tmp_path) for way in ways])


def test_a_file_of_properties_is_read_as_java_reads_it(tmp_path: Path) -> None:
    as_written(HERE / "settings_read.json", "texts", {text: parse(text) for text in TEXTS})
    assert read_properties(None) == Properties()
