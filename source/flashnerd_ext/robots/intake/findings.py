"""What is wrong with a robot's file, how bad it is, and how to mend it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass

SEVERITIES = ("error", "warning", "note")
"""``error`` stops the command, ``warning`` is probably not what is meant, ``note`` says what was done or assumed."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        severity: One of :data:`SEVERITIES`.
        where: Link, joint or part of the file.
        what: What was found, with its value.
        mend: What to do about it; empty where nothing needs to be done.
    """

    severity: str
    where: str
    what: str
    mend: str = ""

    def to_dict(self) -> dict[str, str]:
        """JSON-able form."""
        return asdict(self)


def error(where: str, what: str, mend: str) -> Finding:
    """A finding that stops the command."""
    return Finding("error", where, what, mend)


def warning(where: str, what: str, mend: str = "") -> Finding:
    """A finding that is probably not what is meant."""
    return Finding("warning", where, what, mend)


def note(where: str, what: str, mend: str = "") -> Finding:
    """A finding that says what was done or assumed."""
    return Finding("note", where, what, mend)


def sorted_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Worst first, else in the order in which they were found."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def grouped(findings: Sequence[Finding]) -> list[Finding]:
    """Worst first; the same thing found at several places is one line that lists them."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for finding in sorted_findings(findings):
        places.setdefault((finding.severity, finding.what, finding.mend), []).append(finding.where)
    return [Finding(severity, ", ".join(where), what, mend) for (severity, what, mend), where in places.items()]


def table(findings: Sequence[Finding], width: int = 118) -> str:
    """The findings as a table for a terminal, worst first."""
    if not findings:
        return "nothing to say about the file."
    first, second = 9, 26
    lines = [f"{'severity':<{first}}{'where':<{second}}what and how to mend it", "-" * width]
    for finding in grouped(findings):
        text = f"{finding.what}: {finding.mend}" if finding.mend else finding.what
        right = textwrap.wrap(text + ".", width - first - second)
        middle = textwrap.wrap(finding.where, second - 2)
        for row in range(max(len(right), len(middle))):
            head = finding.severity if row == 0 else ""
            where = middle[row] if row < len(middle) else ""
            lines.append(f"{head:<{first}}{where:<{second}}{right[row] if row < len(right) else ''}".rstrip())
    return "\n".join(lines)


def counted(findings: Sequence[Finding]) -> str:
    """``2 errors, 1 warning, 3 notes``."""
    counts = {name: sum(finding.severity == name for finding in findings) for name in SEVERITIES}
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items())
