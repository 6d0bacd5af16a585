"""The one judge of a group: OK, WARN or ERR, the reasons, all that is odd, and what holds it up.

The list, one group in full, the page, JSON, the server and its metrics all ask here, so that they cannot differ. A
verdict keeps its reasons: whatever is graver than odd is one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from apportion.report.describing import ShownGroup
from apportion.report.diagnosing import Diagnosis, Evidence, diagnose, over_time
from apportion.report.oddities import BY_A_JOB, ERR, EXPIRED, NO_MEMBERS, OK, WARN, Finding, named

GRAVER: Final = {OK: 0, WARN: 1, ERR: 2}
ONE_LOOK: Final = Evidence()


@dataclass(frozen=True)
class Verdict:
    """A judged group.

    findings
        What one look shows, and then what time adds, in the order in which it is told.
    """

    shown: ShownGroup
    evidence: Evidence
    findings: tuple[Finding, ...]

    @cached_property
    def word(self) -> str:
        """``OK``, ``WARN`` or ``ERR``: the gravest of all."""
        return max((finding.verdict for finding in self.findings), key=GRAVER.__getitem__, default=OK)

    @cached_property
    def reasons(self) -> list[str]:
        """Why it is not OK, the gravest first; empty for OK."""
        grave = [finding for finding in self.findings if finding.verdict != OK]
        return [finding.text for finding in sorted(grave, key=lambda finding: -GRAVER[finding.verdict])]

    @cached_property
    def odd(self) -> list[str]:
        """Everything odd, the reasons among it."""
        return [finding.text for finding in self.findings]

    @cached_property
    def why(self) -> list[str]:
        """The reasons, and then what is odd besides."""
        return [*self.reasons, *(finding.text for finding in self.findings if finding.verdict == OK)]

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What holds it up."""
        return diagnose(self.shown, self.evidence)

    @property
    def in_words(self) -> list[str]:
        """The verdict with what holds the group up, and the next command, a line each."""
        command = self.diagnosis.next
        kind = self.diagnosis.kind.replace("_", " ")
        lines = [f"Verdict {self.word}; diagnosis {kind}: {self.diagnosis.sentence}"]
        return [*lines, f"Next: {command}"] if command else lines

    def to_dict(self) -> dict[str, Any]:
        """``verdict``, ``reasons`` and ``diagnosis``, as JSON has them."""
        return {"verdict": self.word, "reasons": self.reasons, "diagnosis": self.diagnosis.to_dict()}


def judge(shown: ShownGroup, evidence: Evidence = ONE_LOOK, noted: tuple[str, ...] = ()) -> Verdict:
    """Judge a group by what one look shows and by what is known over time.

    noted
        Sentences of whoever asks, each a warning: what of the group is not known, and why.
    """
    known_better = set()
    more: list[Finding] = []
    if evidence.expired is not None:
        known_better.add(EXPIRED)
        if evidence.expired.any():
            more.append(Finding(f"Retention deleted messages unread: {named(shown.group, evidence.expired)}.", WARN))
    if evidence.whole is not None and evidence.whole.read and not shown.group.M:
        known_better.add(NO_MEMBERS)
        more.append(Finding(BY_A_JOB))
    seen = [finding for finding in shown.findings if finding.about not in known_better]
    notes = (Finding(text, WARN) for text in noted)
    return Verdict(shown, evidence, (*notes, *seen, *more, *over_time(shown, evidence)))
