"""From a case to how it came out: by way of the job's state, the reader, the checks, the measurement, the verdict."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.errors import RunError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.stats.figures import peak_flops
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.measure import measure
from pytest_gsw.validation.run import Run
from tests.truth.model import Case

#: Each case, and in words what came out of it where that is wrong.
Results: TypeAlias = Sequence[tuple[Case, str | None]]


def examine(cases: Iterable[Case]) -> Results:
    """Write the log of each case, one after the other, and examine it."""
    with tempfile.TemporaryDirectory(prefix="pytest-gsw-truth-") as folder:
        return [(case, examine_case(case, Path(folder))) for case in cases]


def examine_case(case: Case, folder: Path) -> str | None:
    """What came out of a case, in words, where it is wrong; ``None`` where it is right."""
    path = folder / f"{case.name}.log"
    if case.log is not None:
        path.write_bytes(case.log)
    baseline, expected = case.baseline, case.expected
    run = Run(case.job_id, case.status, path)
    try:
        check_job(run)
        log_format = FORMATS[baseline.workload.log_format]
        measurement = measure(
            baseline,
            run,
            read_steps(baseline, run, log_format)[0],
            peak_flops=peak_flops(baseline.accelerator, baseline.workload.dtype),
            steps=baseline.recipe.steps,
            first_index=log_format.first_index,
        )
        outcome = verdict_of(baseline, measurement, case.tolerance, noise=case.noise).outcome.value
    except RunError as error:
        right = isinstance(error, expected.error) and any(_matches(fact, error.fact) for fact in expected.facts)
        return None if right else f"not measured, {type(error).__name__}: {error.fact}"
    except Exception as error:  # a fault of the program is a finding here, not the end of the cases
        return f"{type(error).__name__}: {error}"
    finally:
        path.unlink(missing_ok=True)
    off = abs(measurement.judged / expected.judged - 1)  # NaN, and so never right, where no time was expected
    right = outcome == expected.outcome and measurement.steps == expected.steps and off <= expected.accuracy
    return None if right else f"{outcome}, {measurement.judged:.6g} s over {measurement.steps} steps"


def _matches(pattern: str, fact: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), fact) is not None
