"""What findings of a text have in common, and which rows a step time of the text may be of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.model import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.documents.audit.written import Written
from pytest_gsw.tables.metrics import STEP_TIME

_OF_TABLES = "the tables' figures"


@dataclass(frozen=True)
class Place:
    """The document and what its findings have in common."""

    file: str

    def finding(
        self,
        line: int,
        column: int,
        documented: str,
        computed: str,
        formula: str,
        *explanations: Explanation,
        severity: Severity = Severity.CONTRADICTION,
    ) -> Finding:
        """A finding at a line of the text."""
        return Finding(
            identity=f"line_{line}",
            severity=severity,
            row=None,
            file=self.file,
            line=line,
            column=column,
            documented=documented,
            computed=computed,
            formula=formula,
            explanations=explanations,
            uses=Uses.NEITHER,
            verdict=_OF_TABLES,
        )


def same_time(one: Written, other: Written) -> bool:
    """Whether two step times may be one, written with more and with fewer digits."""
    coarse, fine = (one, other) if one.unit >= other.unit else (other, one)
    return coarse.states(fine.value)


def with_time(rows: Iterable[Row], time: Written) -> list[Row]:
    """The rows that have this step time."""
    return [row for row in rows if (step := row.numbers.get(STEP_TIME.key)) is not None and same_time(step, time)]


def whose(rows: Sequence[Row], time: Written) -> Explanation:
    """Whose step time it is, if it is any row's. Nobody copies more digits than there are."""
    for owner in with_time(rows, time):
        step = owner.numbers[STEP_TIME.key]
        if step.value == time.value or step.unit < time.unit:
            return Explanation(Kind.STALE_COPY, f"{time.text} s is the step time of {owner.id}")
    return Explanation(Kind.ANOTHER_RUN, f"no row has a step time of {time.text} s: it is of another run")


def of_batch(rows: Sequence[Row], batch: Fraction | None) -> list[Row]:
    """The rows with this batch; all of them where it is not known, or no row has it."""
    same = [row for row in rows if batch is not None and row.value("global_batch_size") == batch]
    return same or list(rows)


def rows_words(rows: Sequence[Row], batch: Fraction | None) -> str:
    """Which rows :func:`of_batch` gives, in words."""
    known = batch is not None and any(row.value("global_batch_size") == batch for row in rows)
    return f"the rows with a batch of {batch}" if known else "the rows of the tables"


def times_of(rows: Sequence[Row]) -> str:
    """The step times of rows, in words; a few of them where there are many."""
    times = [step.text for row in rows if (step := row.numbers.get(STEP_TIME.key)) is not None]
    shown = ", ".join(dict.fromkeys(times[:6]))
    return f"{shown} s" if len(times) <= 6 else f"{shown} … s"
