"""All outcomes of a record, and how pytest, JUnit, the screen, the report and exports show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pytest_gsw.results import attention
from pytest_gsw.results.attention import Attention
from pytest_gsw.stats import decision


@dataclass(frozen=True)
class OutcomeKind:
    """One outcome of a row."""

    #: As records have it.
    word: str
    #: The row's outcome in pytest.
    pytest: Literal["passed", "failed", "skipped", "xfailed", "error"]
    #: The element that JUnit has in the row's test case; empty for none.
    junit: Literal["", "failure", "skipped", "error"]
    #: How bad it is: of several the greatest counts.
    severity: int
    #: The reader's task for such a row.
    attention: Attention
    #: The label after a number of such rows on the screen; the word by default.
    counted: str = ""
    #: Its name in texts; the word by default.
    named: str = ""
    #: Its name on a row's line; the word by default.
    on_line: str = ""

    def of_rows(self, count: int) -> str:
        """So many rows of it: ``3 passed``, ``1 error``, ``2 errors``."""
        plural = "s" if self.word == ERROR.word and count != 1 else ""
        return f"{count} {self.counted or self.word}{plural}"

    @property
    def shown(self) -> str:
        """Its word on a row's line and in a cell: ``PASSED``."""
        return (self.on_line or self.text).upper()

    @property
    def text(self) -> str:
        """Its name in texts."""
        return self.named or self.word.replace("_", " ")

    @property
    def status(self) -> int:
        """The exit status of a session with such a row; one that pytest skips after its run is open."""
        return {"passed": GREEN, "xfailed": GREEN, "skipped": OPEN}.get(self.pytest, FAILED)


#: Exit statuses: all rows passed; one failed; none failed, and one is open: nothing shows that its newest job passes.
GREEN, FAILED, OPEN = 0, 1, 6


def exit_status(statuses: Iterable[int]) -> int:
    """The exit status of a session whose rows have these: the worst of them."""
    return max(statuses, key=(GREEN, OPEN, FAILED).index, default=GREEN)


PASSED = OutcomeKind(decision.Outcome.PASSED.value, "passed", "", 1, attention.PASSED)
IMPROVED = OutcomeKind(decision.Outcome.IMPROVED.value, "passed", "", 3, attention.IMPROVED)
REGRESSED = OutcomeKind(decision.Outcome.REGRESSED.value, "failed", "failure", 6, attention.REGRESSED)
INCONCLUSIVE = OutcomeKind(decision.Outcome.INCONCLUSIVE.value, "skipped", "skipped", 4, attention.INCONCLUSIVE)
UNEXPECTED_SUCCESS = OutcomeKind(
    "unexpected_success",
    "failed",
    "failure",
    5,
    attention.UNEXPECTED_SUCCESS,
    counted="ran although documented to fail",
    on_line="unexpected",
)
ERROR = OutcomeKind("error", "error", "error", 7, attention.ERROR)
EXPECTED_FAILURE = OutcomeKind(
    "expected_failure",
    "xfailed",
    "skipped",
    0,
    attention.NOT_JUDGED,
    counted="failed as documented",
    named="out of memory, as documented",
    on_line="as documented",
)
PROFILED = OutcomeKind("profiled", "skipped", "skipped", 2, attention.NOT_JUDGED)

#: All of them, in the order in which a run is counted.
OUTCOMES = (*(PASSED, IMPROVED, REGRESSED, INCONCLUSIVE), *(UNEXPECTED_SUCCESS, ERROR, EXPECTED_FAILURE, PROFILED))
BY_WORD = {outcome.word: outcome for outcome in OUTCOMES}

#: Words of those that a verdict has, see :class:`pytest_gsw.stats.decision.Outcome`.
JUDGED = frozenset(outcome.value for outcome in decision.Outcome)
#: Words of those of a measured row that is slower than it should be, or may be.
SLOW = frozenset(outcome.word for outcome in (REGRESSED, INCONCLUSIVE))


def of(word: str) -> OutcomeKind:
    """The entry of a record's outcome."""
    return BY_WORD[word]


def counts(words: Iterable[str], missing: int = 0) -> dict[OutcomeKind, int]:
    """Counts of rows by outcome, in the order of :data:`OUTCOMES`.

    Args:
        words: The outcomes of records.
        missing: How many more rows have no record: each is an error.
    """
    numbers = Counter(words)
    numbers[ERROR.word] += missing
    return {outcome: numbers[outcome.word] for outcome in OUTCOMES if numbers[outcome.word]}
