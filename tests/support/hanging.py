"""A command that ends with its parent, though it does not read its standard input."""

from __future__ import annotations

from typing import Final

# The program has no input; who reads ours sees it end with our parent, whatever killed that, and ends us all.
_UNTIL_THE_END_OF_INPUT: Final = """
exec 3<&0
"$@" </dev/null & child=$!
(cat <&3 >/dev/null; kill -9 0) & watch=$!
exec 3<&-
wait $child; status=$?
kill $watch
exit $status
"""
HANGING: Final = ("sh", "-c", _UNTIL_THE_END_OF_INPUT, "sh")
"""Before a command that ``start`` is given: it ends with its parent, though it does not read its standard input."""
