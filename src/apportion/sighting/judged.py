"""The one judge of a group: OK, WARN or ERR, the reasons, all oddities, and the blocker.

The list, one group in full, the page, JSON, the server and its metrics all ask here, so that they cannot differ. A
verdict keeps its reasons: whatever is graver than odd is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from apportion.sighting.diagnosing import Diagnosis, Evidence, diagnose, over_time
from apportion.sighting.oddities import BY_A_JOB, ERR, EXPIRED, NO_MEMBERS, OK, WARN, Finding, named
from apportion.sighting.sighting import Sighting

RANK: Final = {OK: 0, "": 1, WARN: 2, ERR: 3}
"""Which verdict is graver; "" is none."""
ONE_LOOK: Final = Evidence()


@dataclass(frozen=True)
class Judged:
    """A sighting with the facts known over time, and the conclusions from both.

    noted
        Sentences of whoever asks, each a warning: what of the group is not known, and why.
    gone
        Whether it was known once, and is not listed any more.
    """

    sighting: Sighting
    evidence: Evidence = ONE_LOOK
    noted: Sequence[str] = ()
    gone: bool = False

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The facts of one look, and then those of time, in the order of the report."""
        sighting, evidence = self.sighting, self.evidence
        known_better, more = set(), []
        if evidence.expired is not None:
            known_better.add(EXPIRED)
            if evidence.expired.any():
                lost = named(sighting.group, evidence.expired)
                more.append(Finding(f"Retention deleted messages unread: {lost}.", WARN))
        if evidence.whole is not None and evidence.whole.read and not sighting.group.M:
            known_better.add(NO_MEMBERS)
            more.append(Finding(BY_A_JOB))
        seen = [finding for finding in sighting.findings if finding.about not in known_better]
        notes = [Finding(text, WARN) for text in self.noted]
        return (*notes, *seen, *more, *over_time(sighting, evidence))

    @cached_property
    def verdict(self) -> str:
        """``OK``, ``WARN`` or ``ERR``: the gravest of all."""
        return max((finding.verdict for finding in self.findings), key=RANK.__getitem__, default=OK)

    @cached_property
    def reasons(self) -> list[str]:
        """Why it is not OK, the gravest first; empty for OK."""
        grave = [finding for finding in self.findings if finding.verdict != OK]
        return [finding.text for finding in sorted(grave, key=lambda finding: -RANK[finding.verdict])]

    @cached_property
    def odd(self) -> list[str]:
        """Everything odd, the reasons among it."""
        return [finding.text for finding in self.findings]

    @cached_property
    def why(self) -> list[str]:
        """The reasons, and then the other oddities."""
        return [*self.reasons, *(finding.text for finding in self.findings if finding.verdict == OK)]

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The blocker."""
        return diagnose(self.sighting, self.evidence)

    @property
    def in_words(self) -> list[str]:
        """The verdict with the group's blocker, and the next command, a line each."""
        command = self.diagnosis.next
        kind = self.diagnosis.kind.replace("_", " ")
        lines = [f"Verdict {self.verdict}; diagnosis {kind}: {self.diagnosis.sentence}"]
        return [*lines, f"Next: {command}"] if command else lines

    def to_dict(self) -> dict[str, Any]:
        """``verdict``, ``reasons`` and ``diagnosis``, as JSON has them."""
        return {"verdict": self.verdict, "reasons": self.reasons, "diagnosis": self.diagnosis.to_dict()}
