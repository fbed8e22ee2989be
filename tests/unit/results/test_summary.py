"""The run on one screen, to the letter: its plan, its progress, its rows, its errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import RunError, SubmissionError
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import summary
from pytest_gsw.results.plan_text import plan_text
from pytest_gsw.results.record import JobFacts, Jobs, Record
from pytest_gsw.results.suggested_commands import next_commands
from pytest_gsw.results.summary import Crowd, gpu_hours, run_table, worst_crowd
from tests.messages import wording
from tests.unit.results.records import JOB, PASSED_BY_ACCEPTED, SLOW, varied


def row(outcome: str, gpus: int, seconds: float | None = 4.556, suffix: str = "", **changes: Any) -> Record:
    measured = {} if seconds is None else {"step_time_s": seconds}
    name = f"llama2_70b_fp8[H100x{gpus}{suffix}]"
    return varied(
        SLOW,
        **{"outcome": outcome, "gpus": gpus, "row": name, "node_id": f"t::{name}", "measured": measured, **changes},
    )


RUN = [
    row("passed", 64, 4.57),
    row("regressed", 128, 5.11),
    row("improved", 256, 4.0),
    row("inconclusive", 512, 5.0),
    row("error", 1024, None, fact="job 481220 failed with exit code 1: ECC error"),
    row("passed", 64, 4.5, dtype="bf16"),
]


def test_the_counts() -> None:
    assert summary.counts_line(
        [*RUN, row("expected_failure", 8), row("unexpected_success", 8), row("profiled", 8)]
    ) == (
        "2 passed, 1 improved, 1 regressed, 1 inconclusive, 1 ran although documented to fail, 1 error, "
        "1 failed as documented, 1 profiled"
    )
    drifts = varied(row("passed", 8), drift="it drifts")
    assert summary.counts_line([drifts, row("passed", 16), row("error", 8, None)], 2) == (
        "2 passed, 3 errors, 1 of them drifts"
    )
    assert summary.counts_line([drifts, drifts]) == "2 passed, 2 of them drift"
    assert summary.counts_line([]) == ""


def test_rows_that_passed_by_an_accepted_figure_alone_are_counted() -> None:
    assert summary.counts_line([PASSED_BY_ACCEPTED, row("passed", 16)]) == "2 passed (1 by an accepted figure)"
    # By the document it would have passed, too.
    assert summary.counts_line([varied(PASSED_BY_ACCEPTED, measured={"step_time_s": 4.6})]) == "1 passed"


def test_rows_that_passed_by_a_wide_tolerance_are_counted_apart() -> None:
    wide = varied(row("passed", 8, 5.9), tolerance=0.4)
    assert summary.counts_line([wide, row("passed", 16), row("regressed", 32, 9.0)]) == (
        wording("beyond the limit", passed=2, few=1, limit="5 %, 1 regressed")
    )
    # The usual tolerance would have passed it; one that has regressed is counted as that.
    at_the_limit = varied(row("passed", 8, 4.556 / 0.95), tolerance=0.4)
    assert summary.counts_line([at_the_limit, varied(row("regressed", 16, 9.0), tolerance=0.4)]) == (
        "1 passed, 1 regressed"
    )


def test_a_latency_that_its_usual_tolerance_allows_is_not_counted_apart() -> None:
    def latency(measured: float, tolerance: float) -> Record:
        label = {"key": "ttft_ms_median", "unit": "ms", "direction": "lower is better", "label": "time to first token"}
        figures = {"documented": {"value": 33.5}, "measured": {"value": measured}, "accepted": {}}
        return varied(row("passed", 8), metric="ttft_ms_median", label=label, tolerance=tolerance, **figures)

    assert summary.counts_line([latency(36.0, 0.1), row("passed", 16)]) == "2 passed"
    assert summary.counts_line([latency(38.0, 0.2), row("passed", 16)]) == wording(
        "beyond the limit", passed=2, few=1, limit="5 %"
    )


def failed(job_id: str, nodes: str, why: str = "NCCL time-out") -> Record:
    fact = f"job {job_id} failed with exit code 1: {why}"
    return varied(row("error", int(job_id), None), fact=fact, job=replace(JOB, id=job_id, nodes=nodes))


def test_errors_by_cause_and_node() -> None:
    run = [
        failed("1", "n[1-2]"),
        failed("2", "n[2-3]"),
        failed("3", "n2"),
        failed("4", "n2"),
        failed("5", "n9", "CUDA out of memory"),
        varied(row("error", 7, None), fact="sbatch refused the job: Invalid account", job=None),
        RUN[0],
    ]
    assert summary.error_lines(run) == [
        (
            "job failed with exit code 1: NCCL time-out: 4 rows (llama2_70b_fp8[H100x1], llama2_70b_fp8[H100x2], "
            "llama2_70b_fp8[H100x3], llama2_70b_fp8[H100x4]) on n2 (4), n[1,3]"
        ),
        "job failed with exit code 1: CUDA out of memory: 1 row (llama2_70b_fp8[H100x5]) on n9",
        "sbatch refused the job: Invalid account: 1 row (llama2_70b_fp8[H100x7])",
    ]
    missing = {"t.yaml::a_BLANK[H100x8]": "dtype is blank", "t.yaml::b_BLANK[H100x8]": "dtype is blank"}
    assert summary.error_lines([failed("1", "n1")], missing) == [
        "dtype is blank: 2 rows (a_BLANK[H100x8], b_BLANK[H100x8])",
        "job failed with exit code 1: NCCL time-out: 1 row (llama2_70b_fp8[H100x1]) on n1",
    ]
    (line,) = summary.error_lines([failed("1", "n[01-20]")])
    assert line.endswith(" on n[01-20]")


@pytest.mark.parametrize(
    ("fact", "cause"),
    [
        ("job 481231 failed: NCCL", "job failed: NCCL"),
        ("job 12_7.batch failed", "job failed"),
        ("skipped after its job was submitted: why", "skipped after its job was submitted: why"),
    ],
)
def test_a_cause_is_a_fact_without_the_id_of_its_job(fact: str, cause: str) -> None:
    assert summary.cause_of(replace(failed("1", "n1"), fact=fact)) == cause


# -- run table -------------------------------------------------------------------------------------


def test_a_run_by_case_and_gpus() -> None:
    assert run_table(RUN, 120) == [
        "GPUs                 64                128               256                  512    1024",
        "llama2_70b bf16  +1.2 %",
        "llama2_70b fp8   -0.3 %  REGRESSED -10.8 %  IMPROVED +13.9 %  INCONCLUSIVE -8.9 %   ERROR",
    ]
    assert run_table([], 80) == []


def test_a_row_that_passed_by_an_accepted_figure_alone_is_marked() -> None:
    assert run_table([PASSED_BY_ACCEPTED, row("passed", 64)], 120) == [
        "GPUs                64              128",
        "llama2_70b fp8  +0.0 %  ACCEPTED -4.1 %",
    ]


def test_on_a_narrow_screen_the_table_is_cut_between_gpu_counts() -> None:
    assert run_table(RUN, 48) == [
        "GPUs                 64                128",
        "llama2_70b bf16  +1.2 %",
        "llama2_70b fp8   -0.3 %  REGRESSED -10.8 %",
        "",
        "GPUs                         256",
        "llama2_70b fp8  IMPROVED +13.9 %",
        "",
        "GPUs                            512    1024",
        "llama2_70b fp8  INCONCLUSIVE -8.9 %   ERROR",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_row_is_lost_on_any_screen(width: int) -> None:
    text = "\n".join(run_table(RUN, width))
    words = ("REGRESSED", "IMPROVED", "INCONCLUSIVE", "ERROR", "+1.2 %", "-0.3 %")
    assert [text.count(word) for word in words] == [1] * 6


def test_several_accelerators_have_lines_of_their_own() -> None:
    lines = run_table([RUN[0], varied(RUN[0], accelerator="B200")], 80)
    assert [line.split("  ")[0] for line in lines] == ["GPUs", "llama2_70b fp8 B200", "llama2_70b fp8 H100"]


def test_rows_that_share_a_place_are_counted_with_the_worst_and_the_best() -> None:
    shared = [row("passed", 64, 4.5 + number / 100, f"-mbs{number}") for number in range(20)]
    shared += [row("regressed", 64, 8.1, "-tp4"), row("regressed", 64, 5.11, "-tp8"), row("error", 32, None, "-tp2")]
    assert run_table([*shared, row("passed", 8, 4.5, dtype="bf16")], 80) == [
        "GPUs                  8",
        "llama2_70b bf16  +1.2 %",
        "",
        "llama2_70b fp8 on 32 GPUs  1 error",
        "llama2_70b fp8 on 64 GPUs  20 passed, 2 regressed, worst -43.8 %, best +1.2 %",
    ]


def test_a_strategy_that_scales_has_a_line() -> None:
    rows = [row("passed", gpus, 4.5, suffix) for gpus in (8, 16) for suffix in ("", "-tp4")]
    assert run_table([*rows, row("passed", 8, 4.556, "-odd")], 80) == [
        "GPUs                     8      16",
        "llama2_70b fp8      +1.2 %  +1.2 %",
        "llama2_70b fp8 tp4  +1.2 %  +1.2 %",
        "",
        "llama2_70b fp8 on 8 GPUs  1 passed, +0.0 %",
    ]


# -- sharing ---------------------------------------------------------------------------------------


def ran(gpus: int, nodes: str, start_s: float | None, end_s: float | None) -> Record:
    job = replace(JOB, nodes=nodes, start_s=start_s, end_s=end_s)
    return replace(SLOW, row=replace(SLOW.row, gpus=gpus), jobs=replace(SLOW.jobs, last=job, attempts=(), repeats=()))


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([ran(16, "n[1-2]", 0, 10), ran(8, "n2", 5, 15)], (Crowd("n2", 2, 16), 1)),
        ([ran(32, "n[1-4]", 0, 10), ran(16, "n[1-2]", 0, 10), ran(8, "n1", 9, 20)], (Crowd("n1", 3, 24), 2)),
        # One after the other, side by side, and small rows that fill a node together.
        ([ran(16, "n[1-2]", 0, 10), ran(16, "n[1-2]", 10, 20)], None),
        ([ran(16, "n[1-2]", 0, 10), ran(16, "n[3-4]", 0, 10)], None),
        ([ran(4, "n1", 0, 10), ran(4, "n1", 0, 10)], None),
        # Each overlaps the first, and they do not overlap each other.
        ([ran(4, "n1", 0, 30), ran(4, "n1", 0, 10), ran(4, "n1", 10, 20)], None),
        ([ran(8, "n1", 0, None), ran(8, "n1", None, 10), ran(8, "", 0, 10)], None),
        ([], None),
    ],
)
def test_a_node_has_more_at_once_than_it_has(records: list[Record], found: tuple[Crowd, int] | None) -> None:
    assert worst_crowd(records, 8) == found


def test_every_job_of_a_row_counts() -> None:
    first = ran(8, "n1", 0, 10)
    last = first.jobs.last
    assert last is not None
    twice = replace(first, jobs=replace(first.jobs, last=replace(last, start_s=10, end_s=20), attempts=(last,)))
    assert worst_crowd([twice, ran(8, "n1", 2, 8)], 8) == (Crowd("n1", 2, 16), 1)


# -- progress text ---------------------------------------------------------------------------------

PLANNED = {
    "node_id": SLOW.row.node_id,
    "gpus": 2304,
    "nodes": 288,
    "minutes": 15.28,
    "jobs": 1,
    "directory": "/recipes/maxtext",
    "command": "sbatch -N 288 launch.sh",
    "environment": {"DTYPE": "fp8", "HF_TOKEN": "***"},
    "log": "/stage/results/*/fp8/70b/128/log_{job_id}.out",
}
OF_ONE_GPU = {
    **PLANNED,
    "node_id": "t.yaml::tiny",
    "gpus": 1,
    "nodes": 1,
    "minutes": None,
    "jobs": 1,
    "environment": {},
}


def test_a_plan() -> None:
    skipped = [("b.yaml::b200", "the row is for B200, eos has H100")]
    assert "\n".join(plan_text([PLANNED, OF_ONE_GPU], skipped, cost="about 587 GPU-hours")) == (
        "2 rows, 2,305 GPUs on 289 nodes if all run at once, about 587 GPU-hours "
        "without the 1 row whose run time is not known\n"
        "\n"
        "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]\n"
        "  2,304 GPUs on 288 nodes, about 15 minutes\n"
        "  directory    /recipes/maxtext\n"
        "  command      sbatch -N 288 launch.sh\n"
        "  environment  DTYPE=fp8\n"
        "  environment  HF_TOKEN=***\n"
        "  log          /stage/results/*/fp8/70b/128/log_{job_id}.out\n"
        "\n"
        "t.yaml::tiny\n"
        "  1 GPU on 1 node, run time not known\n"
        "  directory    /recipes/maxtext\n"
        "  command      sbatch -N 288 launch.sh\n"
        "  log          /stage/results/*/fp8/70b/128/log_{job_id}.out\n"
        "\n"
        "b.yaml::b200\n"
        "  skipped: the row is for B200, eos has H100"
    )
    assert (
        plan_text([OF_ONE_GPU], [])[0]
        == wording("all at once", gpus="1 row, 1 GPU on 1 node") + ", run times not known"
    )


def test_a_plan_says_where_not_all_rows_can_run_at_once() -> None:
    for has_gpus, text in ((2304, ""), (1152, " (the cluster has 1,152)")):
        first = plan_text([PLANNED], [], has_gpus=has_gpus, cost="about 587 GPU-hours")[0]
        assert first == f"1 row, 2,304 GPUs on 288 nodes if all run at once{text}, about 587 GPU-hours"


def test_a_plan_of_nothing() -> None:
    assert plan_text([], [("b.yaml::b200", "marked as skipped")]) == [
        "nothing would be submitted",
        "",
        "b.yaml::b200",
        "  skipped: " + wording("no job wanted"),
    ]


def test_a_plan_of_many_rows_has_the_first_and_the_refused_ones_first() -> None:
    rows = [{**PLANNED, "node_id": f"t.yaml::row{n}"} for n in range(10_000)]
    errors: dict[str, RunError] = {"t.yaml::row9000": SubmissionError("no such partition")}
    lines = plan_text(rows, [], errors, most=20)
    assert lines[0].startswith("9,999 rows, ")
    assert lines[0].endswith("; 1 row cannot be submitted")
    assert lines[2] == "t.yaml::row9000"
    assert "  error        no such partition" in lines
    assert sum(line.startswith("t.yaml::") for line in lines) == 20
    assert lines[-1] == "and 9,980 more rows; -v shows each"
    assert sum(line.startswith("t.yaml::") for line in plan_text(rows, [], errors)) == 10_000


@pytest.mark.parametrize(
    ("used", "saved", "stopped", "text"),
    [
        (0.0, 0.0, 0, "gsw: 0.0 GPU-hours used"),
        (0.26, 0.0, 0, "gsw: 0.3 GPU-hours used"),
        (10.4, 0.0, 0, "gsw: 10 GPU-hours used"),
        (12345.6, 0.0, 0, "gsw: 12,346 GPU-hours used"),
        (100.0, 41.2, 1, "gsw: 100 GPU-hours used, about 41 saved by ending 1 job early"),
        (100.0, 0.0, 2, "gsw: 100 GPU-hours used, about 0.0 saved by ending 2 jobs early"),
    ],
)
def test_what_a_session_has_cost(used: float, saved: float, stopped: int, text: str) -> None:
    assert gpu_hours(used, saved, stopped) == text


def test_nodes_that_failed_jobs_at_once_are_those_whose_rows_worked_elsewhere() -> None:
    failed = replace(JOB, id="1", state=JobState.FAILED, nodes="n1", start_s=100.0, end_s=101.0, why_repeated="x")
    worked = replace(JOB, id="2", nodes="n2", start_s=120.0, end_s=900.0)

    def rows(*lasts: JobFacts) -> list[Record]:
        found = (row("passed", 8 * number) for number, _ in enumerate(lasts, 1))
        return [replace(one, jobs=Jobs(last, (failed,))) for one, last in zip(found, lasts, strict=True)]

    (hole,) = summary.black_holes_of(rows(worked, worked))
    assert (hole.node, hole.job_ids, len(hole.moved)) == ("n1", ("1", "1"), 2)
    (_, drain), *_ = next_commands(rows(worked, worked), Path(".gsw/runs/x"))
    assert drain.startswith(wording("drain", nodes="n1") + " reason=")
    assert not summary.black_holes_of(rows(worked))
    assert not summary.black_holes_of(rows(worked, replace(failed, nodes="n3")))
    assert not summary.black_holes_of(RUN)
