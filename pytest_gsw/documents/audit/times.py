"""Which rows a step time of the text may be of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.findings import Explanation, Kind
from pytest_gsw.documents.audit.written import Written
from pytest_gsw.tables.metrics import STEP_TIME


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


def of_batch(rows: Sequence[Row], batch: Fraction | None) -> tuple[Sequence[Row], str]:
    """The rows with this batch, and which they are; all of them where it is not known, or no row has it."""
    same = [row for row in rows if batch is not None and row.value("global_batch_size") == batch]
    return (same, f"the rows with a batch of {batch}") if same else (rows, "the rows of the tables")


def times_of(rows: Sequence[Row]) -> str:
    """The step times of rows, in words; a few of them where there are many."""
    times = [step.text for row in rows if (step := row.numbers.get(STEP_TIME.key)) is not None]
    shown = ", ".join(dict.fromkeys(times[:6]))
    return f"{shown} s" if len(times) <= 6 else f"{shown} … s"
