"""The built wheel and sdist work in empty environments: the core alone, and each extra alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from apportion.errors import Unavailable
from apportion.spark import session

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
GROUP = '{"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}'


def run(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), input=text, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def empty(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with nothing but the wheel and what it asks for."""
    return fresh(tmp_path_factory.mktemp("empty"), built)


def fresh(place: Path, built: Path, extras: str = "") -> Path:
    """A new environment with the wheel and some extras alone; the folder of its programs.

    The pip of these tests fills it, and leaves compiling to the imports: that takes half as long as one of its own.
    """
    assert run(sys.executable, "-m", "venv", "--without-pip", place).returncode == 0
    pinned = ["--no-compile", "--constraint", str(ROOT / "constraints.txt")]
    wheel = f"{next(built.glob('*.whl'))}{extras}"
    done = run(*PIP, "--python", place, "install", "--quiet", *pinned, wheel)
    assert done.returncode == 0, done.stderr
    return place / "bin"


def test_a_stranger_reaches_a_true_sentence_through_each_door(built: Path) -> None:
    """Within a minute on a quiet machine, as the command's exit code says; here others are at work."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.doors", str(next(built.glob("*.whl")))],
        capture_output=True, text=True, timeout=600, cwd=ROOT,
    )  # fmt: skip
    doors = [line.split("\t") for line in done.stdout.splitlines()]
    reached = {name: "1,000 messages wait" in sentence for name, _, sentence in doors}
    assert reached == {"wheel": True, "mcp": True}


def test_the_core_alone_plans_and_describes(empty: Path) -> None:
    listed = run(*PIP, "--python", empty.parent, "list", "--format=freeze").stdout.lower()
    assert "numpy" in listed
    assert not [name for name in ("pyspark", "kafka", "ortools", "pyarrow") if name in listed]
    assert run(empty / "apportion", "--version").returncode == 0
    shown = run(empty / "apportion", "demo", "--to", empty.parent / "demo")
    assert shown.returncode == 0, shown.stderr
    assert "The page: " in shown.stdout
    planned = run(empty / "apportion", "plan", "-", "--assignor", "sticky", "-o", "json", text=GROUP)
    assert planned.returncode == 0, planned.stderr
    assert '"balance": "optimal"' in planned.stdout
    for name in ("cooperative-sticky", "lag-aware", "range", "roundrobin", "sticky-stream-join", "failover", "streams"):
        assert run(empty / "apportion", "plan", "-", "--assignor", name, text=GROUP).returncode == 0, name


def test_what_the_core_lacks_is_a_sentence_with_the_command_that_brings_it(empty: Path) -> None:
    for words in (("demo", "--spark"), ("serve", "--bootstrap-server", "127.0.0.1:1")):
        done = run(empty / "apportion", *words)
        assert done.returncode == 2
        assert "pip install" in done.stderr
        assert "Traceback" not in done.stderr


EXTRAS = [
    ("flow", "from apportion.solvers.min_cost_flow import solver; assert solver() is not None"),
    ("kafka-python", "from apportion.clients.kafka_python import assignor; assignor('sticky')"),
    ("aiokafka", "from apportion.clients.aio_kafka import assignor; assignor('sticky')"),
    ("confluent", "from apportion.clients.confluent import GroupConsumer"),
    ("serve", "from apportion.serve import server, app; server.read_listen(':0')"),
    ("otlp", "from apportion.serve import otlp; from opentelemetry.sdk.metrics import MeterProvider"),
]


@pytest.mark.parametrize(("extra", "used"), EXTRAS, ids=[extra for extra, _ in EXTRAS])
def test_an_extra_alone_brings_its_room_to_life(built: Path, tmp_path: Path, extra: str, used: str) -> None:
    done = run(fresh(tmp_path / "env", built, f"[{extra}]") / "python", "-c", used)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough  # it fetches and unpacks all of Spark
@pytest.mark.timeout(900)
def test_the_spark_extra_alone_runs_the_whole_demo(built: Path, tmp_path: Path) -> None:
    try:
        session.java()
    except Unavailable as missing:
        pytest.skip(str(missing))
    programs = fresh(tmp_path / "env", built, "[spark]")
    shown = run(programs / "apportion", "demo", "--spark", "--to", tmp_path / "demo")
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "demo" / "report.html").exists()


def test_the_wheel_carries_the_dump_the_schemas_the_page_and_the_java_sources(built: Path) -> None:
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    for part in ("demo/dump/ends.parquet", "schemas/plan.schema.json", "report/assets/page.js", "py.typed", "pom.xml"):
        assert any(name.endswith(part) for name in names), part
    assert not [name for name in names if not name.startswith("apportion")]


def test_the_sdist_can_be_installed_and_passes_its_own_tests(built: Path, tmp_path: Path) -> None:
    """What is installed is built from it alone; so are the tests that are run, some hundreds."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    for part in ("tests/conftest.py", "docs/index.md", "Makefile", "constraints.txt", "LICENSE", "BENCHMARKS.md"):
        assert (root / part).exists(), part
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    installed = run(*pip, site, next(built.glob("*.tar.gz")))
    assert installed.returncode == 0, installed.stderr
    environment = {**os.environ, "PYTHONPATH": str(site)}
    tests = ("tests/model", "tests/test_cases.py", "tests/cli/test_formats.py", "tests/cli/test_schemas.py")
    where = "import apportion; print(apportion.__file__)"
    for program in (["-c", where], ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]):
        done = subprocess.run(
            [sys.executable, *program],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert program[0] != "-c" or done.stdout.startswith(str(site))


OUTSIDE = """
import apportion

plan = apportion.plan({"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}, "sticky")
held: dict[str, dict[str, list[int]]] = plan.assignment
known: list[str] = list(apportion.known())
wrong: int = plan.assignment
"""


def test_a_type_checker_from_outside_sees_the_types(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(OUTSIDE)
    done = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "user.py")
    assert done.stdout.count("error:") == 1, done.stdout
    assert "user.py:7" in done.stdout


def test_the_documentation_builds_as_a_site_without_a_warning(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ROOT / "mkdocs.yml", "-d", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "proofs" / "index.html").exists()
