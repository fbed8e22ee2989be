"""The plan of a row that runs for a time: with more steps if its recipe takes their number, else its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.session.row_plan import RowPlan, plan_for
from pytest_gsw.tables.model import Baseline
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128, with_facts

#: 50 steps of 4.56 s.
ROW = with_facts(LLAMA2_FP8_X128, steps=50, step_time_s=4.0)
DAY_S = 86400.0
PLACE = Path("/r")

Make = Callable[[Baseline], RowPlan]


def plan_of(row: Baseline, **changes: object) -> RowPlan:
    spec = JobSpec(row.id, "gsw-a", PLACE / "launch.sh", PLACE, PLACE, 16, 128, {"DTYPE": "fp8"}, definition="d0")
    return RowPlan(row, row.id, replace(spec, **changes), FORMATS.get(row.workload.log_format))  # type: ignore[arg-type]


def by_variable(row: Baseline) -> RowPlan:
    """The recipe takes MAX_STEPS."""
    variables = {"DTYPE": "fp8", "MAX_STEPS": str(row.recipe.steps)}
    return plan_of(row, environment=variables, time_limit_s=3.0 * DAY_S, definition="d1")


def by_argument(row: Baseline) -> RowPlan:
    """The recipe takes an argument."""
    return plan_of(row, arguments=("--max_steps", str(row.recipe.steps)), time_limit_s=7200.0)


@pytest.mark.parametrize("make", [by_variable, by_argument])
@pytest.mark.parametrize(
    ("statistic", "judged_by"),
    [("last", "median"), ("median[-10:]", "median"), ("mean[35:44]", "mean"), ("mean", "mean")],
)
def test_more_steps_than_last_so_long(make: Make, statistic: str, judged_by: str) -> None:
    row = replace(ROW, criterion=replace(ROW.criterion, statistic=statistic))
    plan = plan_for(DAY_S, replace(make(row), for_s=None), make, None)
    spec = plan.spec
    assert isinstance(spec, JobSpec)
    assert plan.baseline.recipe.steps == 1.25 * DAY_S / 4  # it may be as much faster as is believed
    assert plan.baseline.criterion.statistic == judged_by
    assert plan.baseline.criterion.min_steps == row.criterion.min_steps
    assert (plan.for_s, spec.left_s) == (DAY_S, DAY_S)
    # A limit of the cluster's own stays: a job that it ends is followed by another.
    assert spec.time_limit_s == (DAY_S + 300 if make is by_variable else 7200.0)


def test_the_row_is_the_same_one() -> None:
    plan = plan_for(DAY_S, plan_of(ROW), by_variable, None)
    assert isinstance(plan.spec, JobSpec)
    assert plan.spec.definition == "d0"


def refused(row: Baseline) -> RowPlan:
    return replace(plan_of(row), spec=SubmissionError("no"))


@pytest.mark.parametrize(
    ("row", "make"),
    [
        (ROW, plan_of),  # nothing takes the number
        (ROW, refused),
        (with_facts(ROW, steps=None), by_variable),
        (with_facts(ROW, step_time_s=None), by_variable),
        (with_facts(ROW, steps=30000), by_variable),
    ],
)
def test_else_the_recipe_s_own_steps(row: Baseline, make: Make) -> None:
    plan = plan_for(DAY_S, plan_of(row), make, None)
    assert plan == replace(plan_of(row), for_s=DAY_S)
    assert isinstance(plan.spec, JobSpec)
    assert plan.spec.left_s is None


def test_a_simulated_job_takes_another_time() -> None:
    assert plan_for(600.0, plan_of(ROW), by_variable, 2.0).baseline.recipe.steps == 1.25 * 600 / 0.04
    assert plan_for(600.0, plan_of(ROW), by_variable, 0.0).baseline is ROW


@pytest.mark.parametrize(
    "row",
    [
        with_facts(ROW, log_format="paxml"),
        with_facts(ROW, log_format="huggingface"),
        with_facts(ROW, log_format="of-a-site"),
        replace(ROW, recipe=replace(ROW.recipe, logged_steps=20)),
        replace(ROW, criterion=replace(ROW.criterion, metric="checkpoint_save_time")),
    ],
)
def test_a_log_without_all_steps_is_an_error(row: Baseline) -> None:
    error = plan_for(DAY_S, plan_of(row), by_variable, None).spec
    assert isinstance(error, SubmissionError)
    assert error.fact == wording("no goodput", format=row.workload.log_format)


def test_an_error_stays() -> None:
    plan = refused(ROW)
    assert plan_for(DAY_S, plan, by_variable, None) is plan
