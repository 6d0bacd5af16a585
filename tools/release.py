"""Hold a tag against the package before it is released: ``python -m tools.release v1.2.3``.

The tag, ``pyproject.toml``, ``apportion.__version__`` and the newest heading of CHANGELOG.md name one version, or the
exit code is 2 with a line for each that does not.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import apportion

ROOT = Path(__file__).parents[1]


def versions(root: Path = ROOT) -> dict[str, str]:
    """What each place calls the version; "" where none stands there."""

    def newest(file: str, pattern: str) -> str:
        match = re.search(pattern, (root / file).read_text(encoding="utf-8"), re.MULTILINE)
        return match[1] if match else ""

    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "apportion.__version__": apportion.__version__,
        "CHANGELOG.md": newest("CHANGELOG.md", r"^## (\S+)$"),
    }


def main(words: Sequence[str]) -> int:
    """Compare with the tag that is given; 0 where all agree."""
    if len(words) != 1 or not re.fullmatch(r"v\d+\.\d+\.\d+", words[0]):
        print(f"a tag such as v1.2.3 is needed, found {' '.join(words) or 'none'}", file=sys.stderr)
        return 2
    wrong = {place: version for place, version in versions().items() if f"v{version}" != words[0]}
    for place, version in wrong.items():
        print(f"{place} has version {version or '(none)'}, the tag is {words[0]}", file=sys.stderr)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
