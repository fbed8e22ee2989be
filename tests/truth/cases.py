"""All cases of one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_gsw.tables.model import Baseline
from tests.truth.cuts import cut, of_two_runs
from tests.truth.ends import not_ended_well
from tests.truth.model import Case
from tests.truth.numbers import impossible_times, loss_to_fall, not_finite, untrained_runs
from tests.truth.others import of_others
from tests.truth.rows import rows_of
from tests.truth.speeds import not_believed, speeds
from tests.truth.trial import Trial

#: What is made of each row, in the order in which it draws from the row's random numbers.
_KINDS = (
    speeds,
    not_believed,
    not_finite,
    cut,
    of_others,
    of_two_runs,
    impossible_times,
    untrained_runs,
    loss_to_fall,
    not_ended_well,
)


def cases(seed: int, rows: Iterable[Baseline] | None = None) -> Iterator[Case]:
    """All cases of one seed, of these rows alone where some are given."""
    for number, baseline in enumerate(rows or rows_of(str(seed)), 1):
        trial = Trial(baseline, seed, f"{baseline.workload.log_format}-{number}", f"{seed} {number}")
        for kind in _KINDS:
            yield from kind(trial)
