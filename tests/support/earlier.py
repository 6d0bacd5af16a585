"""One version back: a wheel of an earlier commit, unpacked beside the files of that commit, and processes that run it.

The commit is named here alone. Whoever releases names the commit of the release before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMIT = "7c55850f43919790953ec9548a6f3caae5470535"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Version:
    """A version of ours that processes can run.

    root
        Its tree, whose tests know its interfaces; the folder where its processes run.
    package
        The folder to import ``apportion`` from.
    """

    root: Path
    package: Path

    @property
    def process(self) -> dict[str, Any]:
        """Where and with what environment its processes run, as ``subprocess`` takes it."""
        path = os.pathsep.join([str(self.package), str(self.root)])
        jars = os.environ.get("APPORTION_JARS", str(ROOT / ".jars"))
        return {"cwd": self.root, "env": {**os.environ, "PYTHONPATH": path, "APPORTION_JARS": jars}}

    def run(self, *words: str, patience_s: float = 500) -> str:
        """What a Python command prints, on both streams; it must end well."""
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=patience_s, check=False, **self.process
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


TODAY = Version(ROOT, ROOT / "src")


def earlier(folder: Path) -> Version:
    """The earlier commit's tree and its wheel, unpacked; skips without the repository's history."""
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{COMMIT}^{{commit}}"], check=False, capture_output=True
    )
    if known.returncode:
        pytest.skip("the commit of one version back is not in this clone: git fetch --unshallow")
    tree, dist, package = folder / "tree", folder / "dist", folder / "package"
    tree.mkdir()
    archive = folder / "tree.tar"
    subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), COMMIT], check=True)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(tree)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(package)
    return Version(tree, package)
