"""Kafka's own properties files are understood for every client, and never shown."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from apportion.errors import BadInput
from apportion.sources.properties import Properties, parse, read_properties

SCRAM = """
# as people write it
security.protocol = SASL_SSL
sasl.mechanism:SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="ann" \\
    password="s3 \\\\"cret=;'";
ssl.endpoint.identification.algorithm=
group.id=mine
"""


def test_javas_form_is_read() -> None:
    r"""Comments, three separators, continued lines, escapes; as java.util.Properties does."""
    text = "a=1\n#b=2\n!c=3\nd : x y \ne f\ng\\ h=\\u00e9\\t.\nlong=one,\\\n    two\nempty=\nalone\n"
    assert parse(text) == {
        "a": "1", "d": "x y ", "e": "f", "g h": "é\t.", "long": "one,two", "empty": "", "alone": "",
    }  # fmt: skip


def test_a_login_is_handed_to_each_client_in_its_own_words(tmp_path: Path) -> None:
    """kafka-python, librdkafka and Spark; what Spark sets itself is left out."""
    file = tmp_path / "client.properties"
    file.write_text(SCRAM)
    said = read_properties(file)
    assert said.sasl() == ("SCRAM-SHA-256", "ann", "s3 \"cret=;'")
    python = said.kafka_python()
    assert python["sasl_plain_password"] == "s3 \"cret=;'"  # noqa: S105
    assert python["ssl_context"].check_hostname is False
    spark = said.spark()
    assert spark["kafka.sasl.mechanism"] == "SCRAM-SHA-256"
    assert "kafka.group.id" not in spark


def test_nothing_of_it_is_ever_shown(tmp_path: Path) -> None:
    """Not by repr, not by str, not in an error."""
    file = tmp_path / "client.properties"
    file.write_text(SCRAM.replace("SCRAM-SHA-256", "GSSAPI"))
    said = read_properties(file)
    assert "s3" not in repr(said) + str(said)
    with pytest.raises(BadInput, match=r"sasl\.mechanism: found 'GSSAPI'") as raised:
        said.kafka_python()
    assert "s3" not in str(raised.value)
    with pytest.raises(BadInput, match="no user and password") as raised:
        Properties({"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'x required user="s3cret";'}).sasl()
    assert "s3" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("keytool") or not shutil.which("openssl"),
    reason="keytool or openssl is not installed: apt-get install openjdk-17-jre-headless openssl",
)
@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "PEM"])
def test_truststores_of_java_are_read(tmp_path: Path, kind: str) -> None:
    """By keytool, with the password out of sight; PEM as it is. A wrong password is said without it."""
    pem, store = tmp_path / "ca.pem", tmp_path / "trust"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out ca.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    settings = {"security.protocol": "SSL", "ssl.truststore.location": str(store)}
    if kind == "PEM":
        shutil.copy(pem, store)
    else:
        command = (
            f"keytool -importcert -noprompt -alias ca -file ca.pem -keystore trust -storetype {kind} -storepass s3cret"
        )
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
        settings["ssl.truststore.password"] = "s3cret"
        with pytest.raises(BadInput, match="cannot open") as raised:
            Properties({**settings, "ssl.truststore.password": "wr0ng!"}).trusted()
        assert "wr0ng" not in str(raised.value)
    body = "".join(pem.read_text().splitlines()[1:-1])
    trusted = Properties(settings).trusted()
    assert trusted is not None
    assert body in "".join(trusted.split())
    assert len(Properties(settings).kafka_python()["ssl_context"].get_ca_certs()) == 1


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed: apt-get install openssl")
@pytest.mark.parametrize("form", [["pkcs8", "-topk8"], ["rsa", "-aes256", "-traditional"]])
def test_an_encrypted_key_needs_its_password_and_nobody_is_asked_for_it(
    tmp_path: Path, form: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """OpenSSL would ask at the terminal, where a service would wait for ever."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ann -keyout key.pem -out crt.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    lock = ["openssl", *form, "-in", "key.pem", "-out", "locked.pem", "-passout", "pass:s3cret"]
    subprocess.run(lock, cwd=tmp_path, check=True, capture_output=True)
    own = tmp_path / "own.pem"
    own.write_text((tmp_path / "locked.pem").read_text() + (tmp_path / "crt.pem").read_text())
    settings = {"security.protocol": "SSL", "ssl.keystore.location": str(own)}
    assert Properties({**settings, "ssl.key.password": "s3cret"}).kafka_python()["ssl_context"]
    with pytest.raises(BadInput, match=r"location: found an encrypted key; needed ssl\.key\.password"):
        Properties(settings).kafka_python()
    with pytest.raises(BadInput, match=r"ssl\.key\.password: found a password that does not open the key") as raised:
        Properties({**settings, "ssl.key.password": "wr0ng!"}).kafka_python()
    assert "wr0ng" not in str(raised.value)
    assert "pass phrase" not in capfd.readouterr().err


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    """Missing, or bytes."""
    with pytest.raises(BadInput, match="No such file"):
        read_properties(tmp_path / "none")
    (tmp_path / "raw").write_bytes(b"\0\1\2")
    with pytest.raises(BadInput, match="no text"):
        read_properties(tmp_path / "raw")
    with pytest.raises(BadInput, match=r"security\.protocol"):
        Properties({"security.protocol": "TLS"}).kafka_python()
    with pytest.raises(BadInput, match="no such file"):
        Properties({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}).trusted()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ssl.truststore.certificates", "hello", "ssl.truststore.certificates: found no usable certificate"),
        ("ssl.keystore.key", "-----BEGIN PRIVATE KEY-----", "ssl.keystore.key: found a value in the file itself"),
        ("config.providers", "file", "config.providers: found values that Java's classes fetch from elsewhere"),
    ],
)
def test_what_cannot_be_used_is_named_before_a_broker_refuses_it(name: str, value: str, why: str) -> None:
    """Passed over or sent as it stands, it ended as a refused login or as a broker that cannot be reached."""
    with pytest.raises(BadInput, match=why):
        Properties({"security.protocol": "SSL", name: value}).kafka_python()
