"""Why a run may not be judged, as a value: whoever raises it adds the job and the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A fact that forbids to judge a run, what shows it, and what to do."""

    fact: str
    advice: str
    evidence: tuple[tuple[str, str], ...] = ()
