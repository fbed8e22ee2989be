"""What a plan takes: GPU-hours and hours of each stage, by jobs side by side as far as nodes suffice."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.acceptance.plan import Criteria, Plan, Stage
from pytest_gsw.acceptance.plan_cost import RunTimes, StageCost, _side_by_side, plan_lines, run_times, stage_cost
from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Baseline, Figures, experiment_hash, on_tile
from tests.unit.results.records import JOB, SLOW, varied
from tests.unit.rows import LLAMA2_FP8_X128, with_facts

EOS = Cluster("eos", "slurm", gpus_per_node=8)
#: Of 8 GPUs and 50 steps of 6 s, with 300 s allowed for the start.
SMALL = replace(LLAMA2_FP8_X128, id="small[H100x8]", gpus=8, documented=Figures(step_time_s=6.0))
OTHER = with_facts(SMALL, id="other[H100x16]", gpus=16, global_batch_size=64)
#: Its document states no step time.
UNKNOWN = with_facts(SMALL, id="unknown[H100x8]", documented=Figures(), global_batch_size=32)
TIMES = RunTimes({SMALL.id: 3600.0, OTHER.id: 1800.0}, 0, "documents")

ALLOWED = "documented steps and 5m00s for each start"


def ran(row: Baseline, *seconds: float, state: JobState = JobState.COMPLETED) -> list[Record]:
    """Records of a row's jobs on the cluster."""
    jobs = [replace(JOB, start_s=1000.0, end_s=1000.0 + one, state=state) for one in seconds]
    return [varied(SLOW, row=row.id, experiment=experiment_hash(row), job=job) for job in jobs]


# -- run times


def test_documented_steps_and_the_allowance_for_the_start() -> None:
    assert run_times([SMALL, UNKNOWN], []) == RunTimes({SMALL.id: 600.0}, 0, ALLOWED)


def test_jobs_of_the_row_itself_count_before_its_document() -> None:
    rows = [on_tile(SMALL, "n1"), on_tile(SMALL, "n2"), UNKNOWN]
    records = [*ran(on_tile(SMALL, "n1"), 400.0, 420.0), *ran(SMALL, 500.0), *ran(UNKNOWN, 70.0)]
    assert run_times(rows, records).seconds == {SMALL.id: 420.0, UNKNOWN.id: 70.0}


def test_other_rows_get_the_start_that_these_jobs_took() -> None:
    found = run_times([SMALL, OTHER], ran(SMALL, 345.0))
    assert (found.seconds, found.measured) == ({SMALL.id: 345.0, OTHER.id: 345.0}, 1)
    assert found.source == "documented steps and 45s for each start"
    assert run_times([SMALL, OTHER], ran(SMALL, 200.0)).seconds[OTHER.id] == 300.0  # the steps alone


def test_a_job_that_did_not_complete_shows_no_time() -> None:
    assert run_times([SMALL], ran(SMALL, 20.0, state=JobState.FAILED)).seconds == {SMALL.id: 600.0}


def test_simulated_rows_take_what_the_simulation_takes() -> None:
    assert run_times([SMALL, UNKNOWN], ran(SMALL, 3.0), 1.0).seconds == {SMALL.id: 3.0, UNKNOWN.id: 1.0}


# -- stages


def test_tiles_run_side_by_side() -> None:
    cost = stage_cost(Stage("nodes", 1, tile="node"), [(SMALL, 256)], 256, TIMES, EOS)
    assert cost == StageCost(
        jobs=256, nodes=256, unknown=0, gpu_hours=2048.0, hours=1.0, search_jobs=0, search_gpu_hours=0
    )
    assert stage_cost(Stage("nodes", 1, tile="node"), [(SMALL, 256)], 100, TIMES, EOS).hours == 3.0


def test_rows_wait_for_nodes_the_largest_first() -> None:
    rows = [(SMALL, 1), (OTHER, 2)]
    assert [stage_cost(Stage("a", 1), rows, nodes, TIMES, EOS)[1::3] for nodes in (5, 4, 3, 2)] == [
        (5, 1.0),
        (3, 1.0),
        (3, 1.0),
        (2, 2.0),
    ]


def test_repeated_jobs_run_one_after_another() -> None:
    cost = stage_cost(Stage("a", 1, tile="node", find=True), [(SMALL, 4)], 64, TIMES, EOS, repeats=3)
    assert (cost.jobs, cost.gpu_hours, cost.hours, cost.nodes) == (12, 96.0, 3.0, 4)
    assert (cost.search_jobs, cost.search_gpu_hours) == (48, 384.0)


def test_a_stage_with_a_duration_takes_it() -> None:
    cost = stage_cost(Stage("endurance", 1, for_s=86400.0), [(OTHER, 1), (UNKNOWN, 1)], 8, TIMES, EOS)
    assert (cost.hours, cost.gpu_hours, cost.unknown) == (24.0, 24 * 24.0, 0)


def test_a_row_that_does_not_fill_its_nodes_is_an_error_of_its_own() -> None:
    odd = replace(SMALL, gpus=12)
    assert stage_cost(Stage("a", 1), [(odd, 1)], 8, TIMES, EOS).nodes == 2


def test_rows_with_an_unknown_time_are_counted() -> None:
    cost = stage_cost(Stage("a", 1), [(SMALL, 1), (UNKNOWN, 1)], 8, TIMES, EOS)
    assert (cost.unknown, cost.gpu_hours, cost.jobs) == (1, 8.0, 2)


JOBS = st.lists(st.tuples(st.floats(0, 1e5), st.integers(1, 40), st.integers(1, 300)), max_size=6)


@given(JOBS, st.integers(1, 60))
def test_a_schedule_is_between_what_nodes_and_the_longest_job_need_and_twice_that(
    jobs: list[tuple[float, int, int]], nodes: int
) -> None:
    wall_s, most = _side_by_side(jobs, nodes)
    longest = max((job_s for job_s, _, _ in jobs), default=0.0)
    area = sum(job_s * min(size, nodes) * count for job_s, size, count in jobs) / nodes
    assert max(longest, area) <= wall_s * (1 + 1e-9)
    assert wall_s <= sum(job_s * count for job_s, _, count in jobs) * (1 + 1e-9)
    assert most <= max([nodes, *(size for _, size, _ in jobs)])
    if all(size <= nodes for _, size, _ in jobs):
        assert most <= nodes
        assert wall_s <= 2 * area + longest + 1e-6  # as for any list schedule of jobs with sizes


@given(st.integers(1, 9), st.integers(1, 300), st.integers(9, 60))
def test_equal_jobs_run_in_waves(size: int, count: int, nodes: int) -> None:
    assert _side_by_side([(2.0, size, count)], nodes)[0] == 2 * math.ceil(count / (nodes // size))


# -- text


def test_the_text_of_a_plan() -> None:
    stages = (Stage("nodes", 3, tile="node", find=True), Stage("documented", 6), Stage("endurance", 8, for_s=86400.0))
    plan = Plan(Path("plan.yaml"), "eos, phase 1", ("n1", "n2", "n3"), stages, Criteria(within=0.05))
    times = run_times([SMALL, OTHER, UNKNOWN], ran(SMALL, 345.0))
    rows = {"nodes": [(SMALL, 3)], "documented": [(OTHER, 1), (UNKNOWN, 1)], "endurance": [(SMALL, 1)]}
    costs = {stage.name: stage_cost(stage, rows[stage.name], 3, times, EOS) for stage in stages}
    assert plan_lines(plan, costs, times) == [
        "eos, phase 1: 3 stages, 3 nodes",
        "stage         jobs    nodes    GPU-hours    time",
        "nodes            3        3          2.3   5m45s",
        "documented       2        3          1.5   5m45s",
        "endurance        1        1          192  24h00m",
        "all              6        3          196  24h11m",
        "without 1 row whose run time is not known",
        "the searches take at most 48 more jobs, 37 GPU-hours",
        "run times: 1 row by earlier jobs here, 1 row by documented steps and 45s for each start",
    ]


def test_a_plan_of_which_no_row_is_left() -> None:
    plan = Plan(Path("plan.yaml"), "a", ("n1",), (), Criteria())
    assert plan_lines(plan, {}, run_times([], []))[2].split() == ["all", "0", "0", "0.0", "0s"]


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (run_times([SMALL], []), f"1 row by {ALLOWED}"),
        (run_times([SMALL], ran(SMALL, 3.0)), "1 row by earlier jobs here"),
        (run_times([SMALL], [], 1.0), "1 row by the simulation"),
        (run_times([UNKNOWN], []), "not known"),
    ],
)
def test_where_run_times_come_from(times: RunTimes, text: str) -> None:
    stage = Stage("a", 1)
    plan = Plan(Path("plan.yaml"), "a", ("n1",), (stage,), Criteria(within=0.05))
    cost = stage_cost(stage, [(SMALL, 1)], 1, times, EOS)
    assert plan_lines(plan, {"a": cost}, times)[-1] == f"run times: {text}"
