"""All cases of one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_gsw.tables.model import Baseline
from tests.truth.cuts import cut, of_two_runs
from tests.truth.model import Case
from tests.truth.rows import rows_of
from tests.truth.speeds import not_believed, speeds
from tests.truth.trial import Trial

#: What is made of each row, in the order in which it draws from the row's random numbers.
_KINDS = (
    speeds,
    not_believed,
    cut,
    of_two_runs,
)


def cases(seed: int, rows: Iterable[Baseline] | None = None) -> Iterator[Case]:
    """All cases of one seed, of these rows alone where some are given."""
    for number, baseline in enumerate(rows or rows_of(str(seed)), 1):
        trial = Trial(baseline, seed, f"{baseline.log_format}-{number}", f"{seed} {number}")
        for kind in _KINDS:
            yield from kind(trial)
