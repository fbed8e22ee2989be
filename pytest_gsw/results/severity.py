"""What a row of a run can need attention for: every list of kinds in the report and in exports is made of this."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.Enum):
    """How urgent a row is; the values are GitHub's words."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True)
class Attention:
    """One thing that a row can need attention for."""

    #: Its name, as exports and the report's style sheet have it.
    kind: str
    #: How urgent it is; ``None`` where nothing has to be done.
    level: Level | None = None
    #: Its sign in the report, and the word beside it; without a sign the report has no such kind.
    sign: str = ""
    word: str = ""
    #: What stands above such rows on the report's first page; empty where they are in the list of all rows alone.
    heading: str = ""
    #: How such a run is drawn among a row's runs; empty for a dot.
    shape: str = ""
    #: What the report lists such a row as, where it has no kind of its own for it.
    listed_as: Attention | None = None

    @property
    def is_urgent(self) -> bool:
        """Whether somebody must look at such a row: those that are counted as needing attention."""
        return self.level in {Level.ERROR, Level.WARNING}

    @property
    def in_report(self) -> Attention:
        """What the report lists such a row as."""
        return self.listed_as or self


REGRESSED = Attention("regressed", Level.ERROR, "▼", "regressed", "Regressed", shape="triangle")
#: Of a cluster, and no row's.
INCIDENT = Attention("incident", Level.ERROR)
ERROR = Attention("error", Level.ERROR, "✖", "error", "Errors")
# Documented to run out of memory, and it did not: the document is wrong, or the run was another one.
UNEXPECTED_SUCCESS = Attention("unexpected success", Level.ERROR, listed_as=REGRESSED)
INCONCLUSIVE = Attention("inconclusive", Level.WARNING, "?", "inconclusive", "Inconclusive", shape="square")
DRIFT = Attention("drift", Level.WARNING, "↘", "drifts", "Passed, and drifting")
# Passed by what its cluster has accepted: by the document it would have failed.
ACCEPTED = Attention("accepted", Level.NOTICE, "✓", "accepted")
IMPROVED = Attention("improved", Level.NOTICE, "▲", "improved", "Improved", shape="diamond")
NOT_JUDGED = Attention("other", sign="○", word="not judged")
PASSED = Attention("passed", sign="✔", word="passed")

#: All of them, the worst first.
ATTENTIONS = (
    INCIDENT,
    *(REGRESSED, ERROR, UNEXPECTED_SUCCESS, INCONCLUSIVE, DRIFT, ACCEPTED, IMPROVED),
    *(NOT_JUDGED, PASSED),
)
#: What rows that are too slow need, or may be too slow.
SLOW = frozenset({REGRESSED, INCONCLUSIVE})
#: By kind.
BY_KIND = {one.kind: one for one in ATTENTIONS}
