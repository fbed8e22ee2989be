"""Reasons for which a row of a run needs attention: all lists of kinds in reports and exports are made of these."""

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
    """One reason for which a row needs attention."""

    #: Its name, as exports and the report's style sheet have it.
    kind: str
    #: How urgent it is; ``None`` if nothing has to be done.
    level: Level | None = None
    #: Its sign in the report, and the word next to it; a kind without a sign is not in the report.
    sign: str = ""
    word: str = ""
    #: The heading of such rows on the report's first page; empty if they are in the list of all rows alone.
    heading: str = ""
    #: The mark of such a run among a row's runs; empty for a dot.
    shape: str = ""
    #: The kind that the report lists such a row as, if it has none of its own.
    listed_as: Attention | None = None

    @property
    def is_urgent(self) -> bool:
        """True if such a row is counted as needing attention."""
        return self.level in {Level.ERROR, Level.WARNING}

    @property
    def in_report(self) -> Attention:
        """The kind that the report lists such a row as."""
        return self.listed_as or self


REGRESSED = Attention("regressed", Level.ERROR, "▼", "regressed", "Regressed", shape="down")
#: A cluster's, and no row's.
INCIDENT = Attention("incident", Level.ERROR, listed_as=REGRESSED)
# Of nodes by their tiles; the second one fails nothing.
SLOW_NODE = Attention("slow node", Level.ERROR, listed_as=REGRESSED)
SLOW_NODE_WARNING = Attention("slow node within tolerance", Level.WARNING, listed_as=REGRESSED)
ERROR = Attention("error", Level.ERROR, "✖", "error", "Errors")
# Documented to run out of memory, but it did not: the document is wrong, or the log is another run's.
UNEXPECTED_SUCCESS = Attention("unexpected success", Level.ERROR, listed_as=REGRESSED)
INCONCLUSIVE = Attention("inconclusive", Level.WARNING, "?", "inconclusive", "Inconclusive", shape="square")
DRIFT = Attention("drift", Level.WARNING, "↘", "drifts", "Passed, and drifting")
INCIDENT_WITHIN_TOLERANCE = Attention("incident within tolerance", Level.WARNING, listed_as=DRIFT)
# Passed by the accepted figure of its cluster: by the document it would have failed.
ACCEPTED = Attention("accepted", Level.NOTICE, "✓", "accepted")
IMPROVED = Attention("improved", Level.NOTICE, "▲", "improved", "Improved", shape="up")
NOT_JUDGED = Attention("other", sign="○", word="not judged")
PASSED = Attention("passed", sign="✔", word="passed")

#: All of them, the worst first.
ATTENTIONS = (
    *(INCIDENT, SLOW_NODE),
    *(REGRESSED, ERROR, UNEXPECTED_SUCCESS, INCONCLUSIVE, INCIDENT_WITHIN_TOLERANCE, SLOW_NODE_WARNING),
    *(DRIFT, ACCEPTED, IMPROVED),
    *(NOT_JUDGED, PASSED),
)
#: The kinds of rows that are, or may be, too slow.
SLOW = frozenset({REGRESSED, INCONCLUSIVE})
#: By kind.
BY_KIND = {need.kind: need for need in ATTENTIONS}
