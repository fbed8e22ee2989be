from __future__ import annotations

import math
import statistics
from dataclasses import replace
from datetime import datetime, timezone
from random import Random
from typing import TYPE_CHECKING

import pytest

from pytest_gsw.demo.simulation import DemoFault, SimulatedJob, SimulatedRun, simulate
from pytest_gsw.tables.model import Baseline, Figures, Recipe
from tests.unit.rows import with_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB = SimulatedJob("481220", nodes=8, gpus=64, gpus_per_node=8, size="70b", dtype="fp8", version="demo")


def run_of(baseline: Baseline, seed: int = 1, fault: DemoFault | None = None, job: SimulatedJob = JOB) -> SimulatedRun:
    noise = Random(seed)  # noqa: S311 - noise, not cryptography
    return simulate(baseline, job, fault, noise, datetime(2026, 1, 2, tzinfo=timezone.utc))


@pytest.mark.parametrize("seed", range(25))
def test_noise_has_its_limits(rows: Mapping[str, Baseline], seed: int) -> None:
    run = run_of(rows["maxtext"], seed)
    factors = [seconds / 4.324 for seconds in run.steps_s]
    assert 5.9 < factors[0] < 6.1
    assert 1.28 < factors[1] < 1.32
    assert all(0.99 < factor < 1.04 for factor in factors[2:])
    assert sum(factor > 1.02 for factor in factors[2:]) <= 2
    assert factors[-1] == pytest.approx(1, abs=0.0041)
    assert run.second_rank_s != run.steps_s
    assert run.second_rank_s == pytest.approx(run.steps_s, rel=0.001)


@pytest.mark.parametrize("seed", range(10))
def test_a_mean_over_the_whole_run_is_as_documented(rows: Mapping[str, Baseline], seed: int) -> None:
    assert statistics.fmean(run_of(rows["megatron"], seed).steps_s) == pytest.approx(137.0, rel=0.01)
    assert statistics.fmean(run_of(rows["huggingface"], seed).steps_s) == pytest.approx(139.0, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "steps", "interval", "logged"),
    [
        ({}, 12, 1, 12),
        ({"statistic": "mean[31:40]"}, 60, 10, 6),
        ({"statistic": "mean[91:100]"}, 100, 10, 10),
        ({"statistic": "mean[35:44]"}, 44, 1, 44),
        ({"statistic": "median[-10:]"}, 12, 1, 12),
        ({"recipe": Recipe("r", steps=80, logged_steps=4)}, 80, 20, 4),
        ({"recipe": Recipe("r", steps=30), "min_steps": 27}, 30, 1, 30),
        ({"min_steps": 20}, 20, 1, 20),
        ({"metric": "checkpoint_save_time"}, 4, 1, 4),
        ({"log_format": "paxml", "min_steps": 18, "recipe": Recipe("r", steps=100)}, 100, 1, 20),
    ],
)
def test_steps(
    rows: Mapping[str, Baseline], changes: dict[str, object], steps: int, interval: int, logged: int
) -> None:
    run = run_of(with_facts(rows["megatron"], **changes))
    assert (len(run.steps_s), run.log_interval, run.logged_steps) == (steps, interval, logged)


def test_an_nccl_trace_is_short(rows: Mapping[str, Baseline]) -> None:
    assert len(run_of(rows["nemo"], job=replace(JOB, nccl_trace=True)).steps_s) == 10


def test_faults_change_times_and_losses(rows: Mapping[str, Baseline]) -> None:
    healthy = run_of(rows["maxtext"])
    slow = run_of(rows["maxtext"], fault=DemoFault("*", "slow", 12))
    assert slow.steps_s == pytest.approx([1.12 * seconds for seconds in healthy.steps_s])
    assert all(map(math.isfinite, healthy.losses))
    assert healthy.losses[0] > healthy.losses[25] > healthy.losses[49] > 6
    assert run_of(rows["maxtext"], seed=2).losses == healthy.losses != run_of(rows["nemo"]).losses
    losses = run_of(rows["maxtext"], fault=DemoFault("*", "nan")).losses
    assert [math.isnan(loss) for loss in losses] == [False] * 25 + [True] * 25


def test_a_row_without_a_step_time(rows: Mapping[str, Baseline]) -> None:
    by_throughput = replace(rows["maxtext"], documented=Figures(tokens_per_s=4096 * 128 / 5.0))
    assert run_of(by_throughput).steps_s[-1] == pytest.approx(5.0, rel=0.01)
    assert run_of(replace(rows["maxtext"], documented=Figures())).steps_s[-1] > 0
