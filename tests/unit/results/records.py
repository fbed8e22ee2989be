"""Records and verdicts, to vary with :func:`dataclasses.replace`."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from pytest_gsw.common.text import command
from pytest_gsw.common.typed_json import plain
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.record import SCHEMA, JobFacts, Record, of_content
from pytest_gsw.results.row_text import accepted_text
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.goodput import INFRASTRUCTURE, PROGRAM, Endurance
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import MetricVerdict, Reason, Verdict, compare
from pytest_gsw.tables.metrics import STEP_TIME, Direction, MetricLabel
from pytest_gsw.tables.model import Accepted

JOB = JobFacts(
    id="481221",
    launcher="slurm",
    state=JobState.COMPLETED,
    exit_code=0,
    nodes="pool0-[0017-0032]",
    submit_s=1795212000.0,
    start_s=1795212030.0,
    end_s=1795212692.0,
)


#: What a verdict says that a record's own keys do not, and what it is where nothing is said.
_DECIDED: dict[str, Any] = {
    "reason": "",
    "limit": None,
    "max_gain": None,
    "sigma": None,
    "sigma_jobs": 0,
    "own_outcome": "",
    "metrics": (),
}


def recorded(**keys: Any) -> Record:
    """A record by the keys of its JSON, and by those of :data:`_DECIDED`; its verdict is what they tell."""
    told = {name: keys.pop(name, default) for name, default in _DECIDED.items()}
    content = json.loads(json.dumps({**keys, "verdict": None, "schema": SCHEMA}, default=plain))
    record = of_content({**content, "outcome": "profiled"})
    return replace(record, outcome=content["outcome"], verdict=_verdict(record, content["outcome"], told))


def _verdict(record: Record, outcome: str, told: dict[str, Any]) -> Verdict | None:
    judged = record.judged_metric.field
    measured_s, documented = record.figures.measured.get(judged), record.figures.documented.get(judged)
    if not measured_s or not documented:
        return None
    accepted = record.figures.accepted.get(judged) or None
    jobs_s = tuple(job.judged for job in record.jobs.measured(measured_s) if job.judged is not None)
    numbers = (measured_s, documented, record.row.tolerance, accepted or 1.0, *jobs_s)
    if not all(0 < number < math.inf for number in numbers):
        return None
    limit = told["limit"] if told["limit"] is not None and told["limit"] > record.row.tolerance else None
    allowed = limit or record.row.tolerance
    is_judged = outcome in outcomes.JUDGED
    return Verdict(
        Outcome(outcome)
        if is_judged
        else compare(measured_s, accepted or documented, allowed, record.judged_metric.direction),
        measured_s,
        documented,
        record.row.tolerance,
        accepted,
        limit=limit,
        noise=None if told["sigma"] is None else Noise(told["sigma"], told["sigma_jobs"]),
        jobs=jobs_s,
        steady_s=record.timing.median_s,
        given_reason=next((reason for reason in Reason if reason.value == told["reason"]), None),
        max_gain=told["max_gain"],
        metrics=told["metrics"],
        own_outcome=Outcome(told["own_outcome"]) if told["own_outcome"] in outcomes.JUDGED else None,
        metric=record.judged_metric,
    )


def varied(record: Record, **keys: Any) -> Record:
    """A record of which these keys of its JSON, or of :data:`_DECIDED`, are others."""
    verdict = record.verdict
    noise = None if verdict is None else verdict.noise
    told = {
        "reason": record.reason,
        "limit": record.limit,
        "max_gain": None if record.comparable is None else record.comparable.max_gain,
        "sigma": None if noise is None else noise.sigma,
        "sigma_jobs": 0 if noise is None else noise.jobs,
        "own_outcome": record.own_outcome,
        "metrics": record.metrics,
    }
    return recorded(**{**keys_of(record), **told, **keys})


def keys_of(record: Record) -> dict[str, Any]:
    """A record as JSON has it, without its verdict."""
    return {name: value for name, value in json.loads(record.text).items() if name not in {"verdict", "schema"}}


#: A day with two restarts.
ENDURED = Endurance(
    *(3, 8208, 60, 86400.0, 82080.0, 300.0, 120.0, 3600.0, 300.0),
    causes={INFRASTRUCTURE: 1, PROGRAM: 1},
    mtbf_s=43200.0,
    mtbf_low_s=13723.0,
    mtbf_high_s=243133.0,
)

SLOW = recorded(
    run_id="20261120-221000-7f3a",
    row="llama2_70b_fp8[H100x128]",
    node_id="baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]",
    baseline="baselines/maxtext/llama2_70b.yaml:41",
    document="readme.md",
    document_line=31,
    cluster="eos",
    simulated=False,
    outcome="regressed",
    fact="throughput 205,201 tokens/s is 10.8 % below the documented 230,153 (allowed 5 %)",
    tolerance=0.05,
    workload="llama2_70b",
    framework="maxtext",
    dtype="fp8",
    accelerator="H100",
    gpus=128,
    documented={
        "step_time_s": 4.556,
        "tokens_per_s": 230152.77,
        "mfu": 0.404,
        "days_to_train_1t_tokens": 50.29,
        "tflops_per_gpu": None,
        "checkpoint_save_time_s": None,
    },
    measured={
        "step_time_s": 5.11,
        "tokens_per_s": 205200.78,
        "mfu": 0.36025,
        "days_to_train_1t_tokens": 56.4043,
        "tflops_per_gpu": 712.94,
        "checkpoint_save_time_s": None,
    },
    statistic="last",
    steps=49,
    first_s=9.8,
    last_s=5.11,
    median_s=5.1,
    p90_s=5.14,
    series_s=(9.8, 5.1, 5.11),
    job=JOB,
    log="/stage/results/24.11/fp8/70b/128/log-maxtext_llama2_70b_128_481221.out",
)

REGRESSED = Verdict(Outcome.REGRESSED, measured=5.11, documented=4.556, tolerance=0.05)

AGAIN = command("pytest", "--gsw-cluster=eos", SLOW.row.node_id)

OFFLINE = command("pytest", "--gsw-cluster=eos", "--gsw-replay=.gsw/runs/r1", SLOW.row.node_id)

SAVE = varied(
    SLOW,
    documented={"checkpoint_save_time_s": 17.96068},
    measured={"checkpoint_save_time_s": 19.93},
    metric="checkpoint_save_time",
    steps=1,
    tolerance=0.4,
)

NOT_MEASURED = varied(SLOW, outcome="error", measured={}, steps=0)

ACCEPTED = Accepted(
    "eos",
    4.9,
    jobs=7,
    spread=0.0083,
    job_ids="481201, 481207",
    date="2026-11-20",
    definition="3f2a9c1d0e4b",
    image="nvidia+jax+maxtext-2024.12.09.sqsh",
)

BY_ACCEPTED = Verdict(Outcome.PASSED, measured=5.11, documented=4.556, tolerance=0.05, accepted=4.9)

PASSED_BY_ACCEPTED = varied(
    SLOW,
    outcome="passed",
    accepted={"step_time_s": 4.9, "tokens_per_s": 213995.1, "mfu": 0.37569, "days_to_train_1t_tokens": 54.0859},
    accepted_note=accepted_text(ACCEPTED, STEP_TIME),
)

SECOND = replace(JOB, id="481220", judged=5.2, nodes="pool0-[0033-0048]")

SEVERAL = varied(SLOW, repeats=(SECOND,), job=replace(JOB, judged=5.02))

NOISY = replace(
    REGRESSED, outcome=Outcome.INCONCLUSIVE, limit=0.117, noise=Noise(0.04, 24), given_reason=Reason.WITHIN_NOISE
)

WONDER = Verdict(
    Outcome.INCONCLUSIVE, 0.4556, 4.556, 0.05, jobs=(0.4556,), given_reason=Reason.TOO_GOOD, more=0, max_gain=0.25
)


MEMORY = MetricVerdict(
    MetricLabel("peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory"), Outcome.REGRESSED, 70.1, 61.2, 0.05
)


def facts(record: Record) -> list[tuple[str, str]]:
    return [*row_text.run_facts(record), ("again", AGAIN), *([("offline", OFFLINE)] if record.run.log else [])]
