"""Properties files of Kafka's own tools (``--command-config``), for each of the clients that apportion uses.

Read once, handed on in the words of kafka-python or Java. Nothing here is ever printed: the ``repr`` shows
names alone, and errors quote a setting's name, never its value.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apportion.errors import BadInput, Unavailable

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_OWN_PEM: Final = "a PEM file with the certificate and its key"


@dataclass(frozen=True)
class Properties:
    """Settings of a Kafka client in Java's words; empty for a broker that asks for nothing."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    where: str = "properties"

    def __str__(self) -> str:
        return f"{self.where}: {', '.join(sorted(self.settings)) or 'no settings'}"

    @property
    def protocol(self) -> str:
        """``security.protocol``, PLAINTEXT if it is not set."""
        protocol = self.settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise BadInput(f"{self.where}: security.protocol", repr(protocol), "one of " + ", ".join(_PROTOCOLS))
        return protocol

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's (and aiokafka's) clients."""
        self._refuse_providers()
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if "SSL" in self.protocol:
            options["ssl_context"] = self.ssl_context()
        if "SASL" in self.protocol:
            mechanism, user, password = self.sasl()
            options |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
        return options

    def _refuse_providers(self) -> None:
        """Java resolves ``${file:...}``; sent unresolved, it would be taken for a wrong password."""
        if self.settings.get("config.providers"):
            fetched = "values that Java's classes fetch from elsewhere"
            raise BadInput(f"{self.where}: config.providers", fetched, "the values themselves, or PEM files")

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source: Java's own words behind ``kafka.``, but for what Spark sets itself."""
        own = {"bootstrap.servers", "group.id", "auto.offset.reset", "enable.auto.commit", "key.deserializer"}
        own |= {"value.deserializer", "interceptor.classes", "isolation.level"}
        return {f"kafka.{name}": value for name, value in self.settings.items() if name not in own}

    # -- SASL -------------------------------------------------------------------------------------------------------

    def sasl(self) -> tuple[str, str, str]:
        """Mechanism, user and password.

        Raises
            BadInput: a mechanism that needs more than a password, or a JAAS line without one.
        """
        mechanism = self.settings.get("sasl.mechanism", "GSSAPI").upper()
        if mechanism not in _MECHANISMS:
            raise BadInput(f"{self.where}: sasl.mechanism", repr(mechanism), "one of " + ", ".join(_MECHANISMS))
        jaas = self.settings.get("sasl.jaas.config", "")
        pairs = dict(re.findall(r"""(\w+)\s*=\s*["']?((?:\\.|[^"'\\;\s])*)["']?""", jaas))
        quoted = dict(re.findall(r'(\w+)\s*=\s*"((?:\\.|[^"\\])*)"', jaas))
        credentials = {
            name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in (pairs | quoted).items()
        }
        if "username" not in credentials or "password" not in credentials:
            needed = 'a login module with username="..." password="..."'
            raise BadInput(f"{self.where}: sasl.jaas.config", "no user and password in it", needed)
        return mechanism, credentials["username"], credentials["password"]

    # -- TLS --------------------------------------------------------------------------------------------------------

    def ssl_context(self) -> ssl.SSLContext:
        """Trust and certificate as Python wants them."""
        try:
            context = ssl.create_default_context(cadata=self.trusted())
        except ssl.SSLError as error:
            which = "certificates" if self.settings.get("ssl.truststore.certificates") else "location"
            raise BadInput(
                f"{self.where}: ssl.truststore.{which}", f"no usable certificate ({error.reason or error})", "PEM"
            ) from error
        if not self.settings.get("ssl.endpoint.identification.algorithm", "https").strip():
            context.check_hostname = False
        if own := self._own_file():
            try:
                context.load_cert_chain(own, password=self.settings.get("ssl.key.password", ""))
            except (OSError, ssl.SSLError) as error:
                if is_encrypted(Path(own)):
                    unopened = "a password that does not open the key"
                    raise BadInput(f"{self.where}: ssl.key.password", unopened, "the one it was made with") from error
                unusable = f"no usable key ({error})"
                raise BadInput(f"{self.where}: ssl.keystore.location", unusable, _OWN_PEM) from error
        return context

    def trusted(self) -> str | None:
        """The certificates that are trusted, as PEM; None for those of the system."""
        inline = self.settings.get("ssl.truststore.certificates")
        if inline:
            return inline
        truststore = self.settings.get("ssl.truststore.location")
        if not truststore:
            return None
        name = f"{self.where}: ssl.truststore.location"
        if not Path(truststore).is_file():
            raise BadInput(name, "no such file", "a PEM, PKCS12 or JKS file")
        if self.settings.get("ssl.truststore.type", "").upper() == "PEM" or _is_pem(Path(truststore)):
            text = Path(truststore).read_text(errors="replace")
        else:
            text = _keystore(Path(truststore), self.settings.get("ssl.truststore.password", ""), name)
        certificates = _PEM.findall(text)
        if not certificates:
            raise BadInput(name, "no certificate in it", "at least one")
        return "\n".join(certificates)

    def _own_file(self) -> str | None:
        keystore = self.settings.get("ssl.keystore.location")
        if not keystore:
            for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
                if self.settings.get(name):
                    needed = "ssl.keystore.location with a PEM file of the certificate and its key"
                    raise BadInput(f"{self.where}: {name}", "a value in the file itself", needed)
            return None
        name = f"{self.where}: ssl.keystore.location"
        if not Path(keystore).is_file():
            raise BadInput(name, "no such file", _OWN_PEM)
        if not _is_pem(Path(keystore)):
            needed = f"a PEM file; make one with: openssl pkcs12 -in {Path(keystore).name} -out client.pem"
            raise BadInput(name, "a keystore of Java's", needed)
        if is_encrypted(Path(keystore)) and not self.settings.get("ssl.key.password"):
            # OpenSSL would ask at the terminal, and a service wait there for ever.
            raise BadInput(name, "an encrypted key", "ssl.key.password")
        return keystore


def read_properties(file: Path | str | None) -> Properties:
    """A properties file; None for a broker that asks for nothing.

    Raises
        BadInput: no such file, or it is no text.
    """
    if file is None:
        return Properties()
    try:
        # Java reads these files as Latin-1 unless told; Kafka's tools are told nothing. UTF-8 is what people write.
        raw = Path(file).read_bytes()
    except OSError as error:
        raise BadInput(str(file), error.strerror or str(error), "a properties file of Kafka's tools") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if "\0" in text:
        raise BadInput(str(file), "bytes that are no text", "a properties file of Kafka's tools")
    return Properties(parse(text), str(file))


def parse(text: str) -> dict[str, str]:
    r"""Java's form: comments, ``=`` or ``:`` or a blank between, ``\`` at the end of a line, ``\uXXXX``.

    >>> parse("a=1\n! no\nb : two \\\n   three\nc\\=d = e\n")
    {'a': '1', 'b': 'two three', 'c=d': 'e'}
    """
    settings: dict[str, str] = {}
    for line in _whole_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        if match and match[1]:
            settings[_unescape(match[1])] = _unescape(match[2])
    return settings


def _whole_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for piece in re.split(r"\r\n|\r|\n", text):
        piece = piece.lstrip(" \t\f")
        if not pending and piece.startswith(("#", "!")):
            continue
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            pending += piece[:-1]
            continue
        lines.append(pending + piece)
        pending = ""
    return [*lines, pending]


def _unescape(text: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else letters.get(match[2], match[2])

    return re.sub(r"\\u([0-9a-fA-F]{4})|\\(.)", one, text, flags=re.DOTALL)


def _is_pem(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"-----BEGIN" in opened.read(65536)


def is_encrypted(pem: Path) -> bool:
    """Whether the file's private key needs a password, in PKCS #8's form or the older one."""
    text = pem.read_bytes()
    return b"BEGIN ENCRYPTED PRIVATE KEY" in text or b"Proc-Type: 4,ENCRYPTED" in text


def _keystore(file: Path, password: str, name: str) -> str:
    """The certificates of a JKS or PKCS12 file, through Java's keytool."""
    tool = shutil.which("keytool")
    if tool is None:
        raise Unavailable(f"{name}: reading it needs Java's keytool, which is not on the PATH; or give a PEM file")
    # The password goes through the environment: arguments can be seen by everybody on the machine.
    command = [tool, "-list", "-rfc", "-keystore", str(file)]
    if password:
        command += ["-storepass:env", "APPORTION_STORE_PASSWORD"]
    keytool = subprocess.run(
        command,
        input="\n",
        capture_output=True,
        text=True,
        env={**os.environ, "APPORTION_STORE_PASSWORD": password},
        check=False,
    )
    if keytool.returncode:
        raise BadInput(name, "a file that keytool cannot open", "a truststore and its ssl.truststore.password")
    return keytool.stdout
