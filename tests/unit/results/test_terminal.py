"""What people read, to the letter."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest

from pytest_gsw.common.words import percent
from pytest_gsw.errors import JobError, LogError, SubmissionError
from pytest_gsw.history.drifting import Drifting
from pytest_gsw.history.model import Point
from pytest_gsw.history.texts import drift_text
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.performance.doubts import RanksApart
from pytest_gsw.performance.drift import Drift
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import Outcome, Reason, Verdict
from pytest_gsw.results import terminal
from pytest_gsw.results.record import MetricFacts, Record
from pytest_gsw.results.terminal import RowProgress
from pytest_gsw.tables.model import Accepted
from tests.unit.results.records import JOB, SLOW

REGRESSED = Verdict(Outcome.REGRESSED, measured_s=5.11, documented_s=4.556, tolerance=0.05)
IMPROVED = Verdict(Outcome.IMPROVED, measured_s=4.0, documented_s=4.556, tolerance=0.05)
AGAIN = terminal.command("pytest", "--gsw-cluster=eos", SLOW.node_id)
OFFLINE = terminal.command("pytest", "--gsw-cluster=eos", "--gsw-replay=.gsw/runs/r1", SLOW.node_id)
SAVE = replace(
    SLOW,
    documented={"checkpoint_save_time_s": 17.96068},
    measured={"checkpoint_save_time_s": 19.93},
    steps=1,
    tolerance=0.4,
)
NOT_MEASURED = replace(SLOW, outcome="error", measured={}, steps=0)

WHOLE_SCREEN = """\
throughput 205,201 tokens/s is 10.8 % below the documented 230,153 (allowed 5 %)

metric                     measured    documented    change    allowed
step time (s)                 5.110         4.556   +12.2 %     +5.3 %  regressed
throughput (tokens/s)       205,201       230,153   -10.8 %     -5.0 %  regressed
MFU                          36.0 %        40.4 %   -10.8 %             derived
days to train 1T tokens       56.40         50.29   +12.2 %             derived

baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)
job        slurm 481221 COMPLETED 0:0 in 11m02s on pool0-[0017-0032]
steps      49 read, last used; median 5.1 s, p90 5.14 s
log        /stage/results/24.11/fp8/70b/128/log-maxtext_llama2_70b_128_481221.out
again      pytest --gsw-cluster=eos 'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]'
offline    pytest --gsw-cluster=eos --gsw-replay=.gsw/runs/r1 \
'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]'"""


def facts(record: Record) -> list[tuple[str, str]]:
    return terminal.run_facts(record, AGAIN, OFFLINE)


def test_the_whole_text_of_a_regression() -> None:
    assert terminal.failure_text(SLOW, REGRESSED, facts(SLOW)) == WHOLE_SCREEN


def test_the_first_line_says_the_same_as_the_table() -> None:
    assert terminal.verdict_fact(SLOW.documented, REGRESSED, 205200.78) == WHOLE_SCREEN.partition("\n")[0]


def test_the_limits_of_an_improvement_are_those_that_it_went_beyond() -> None:
    measured = {"step_time_s": 4.0, "tokens_per_s": 262144.0, "mfu": 0.46}
    assert terminal.figures_table(replace(SLOW, measured=measured), IMPROVED) == (
        "metric                   measured    documented    change    allowed\n"
        "step time (s)               4.000         4.556   -12.2 %     -4.8 %  improved\n"
        "throughput (tokens/s)     262,144       230,153   +13.9 %     +5.0 %  improved\n"
        "MFU                        46.0 %        40.4 %   +13.9 %             derived"
    )


def test_the_table_of_a_checkpoint_row() -> None:
    verdict = Verdict(Outcome.PASSED, measured_s=19.93, documented_s=17.96068, tolerance=0.4)
    assert terminal.figures_table(SAVE, verdict) == (
        "metric                 measured    documented    change    allowed\n"
        "checkpoint save (s)      19.930        17.961   +11.0 %    +66.7 %  passed"
    )


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
BY_ACCEPTED = Verdict(Outcome.PASSED, measured_s=5.11, documented_s=4.556, tolerance=0.05, accepted_s=4.9)
PASSED_BY_ACCEPTED = replace(
    SLOW,
    outcome="passed",
    reference="accepted",
    accepted={"step_time_s": 4.9, "tokens_per_s": 213995.1, "mfu": 0.37569, "days_to_train_1t_tokens": 54.0859},
    accepted_note=terminal.accepted_text(ACCEPTED),
)


def test_the_table_of_a_row_that_is_held_against_what_its_cluster_has_accepted() -> None:
    assert terminal.figures_table(PASSED_BY_ACCEPTED, BY_ACCEPTED) == (
        "metric                     measured    accepted    change    allowed             documented    change\n"
        "step time (s)                 5.110       4.900    +4.3 %     +5.3 %  passed          4.556   +12.2 %\n"
        "throughput (tokens/s)       205,201     213,995    -4.1 %     -5.0 %  passed        230,153   -10.8 %\n"
        "MFU                          36.0 %      37.6 %    -4.1 %             derived        40.4 %   -10.8 %\n"
        "days to train 1T tokens       56.40       54.09    +4.3 %             derived         50.29   +12.2 %"
    )


def test_a_site_s_metrics_stand_below_the_row_s_own_figures() -> None:
    memory = MetricFacts("peak_memory_gib", "peak memory", "GiB", "lower is better", 70.1, 61.2, 0.05, "regressed")
    output = MetricFacts("output", "output", "tokens/s", "higher is better", 1834.2, 1840.0, 0.02, "passed")
    table = terminal.figures_table(replace(PASSED_BY_ACCEPTED, metrics=(memory, output)), BY_ACCEPTED).splitlines()
    assert [line.split() for line in table[-2:]] == [
        ["peak", "memory", "(GiB)", "70.1", "+5.0", "%", "regressed", "61.2", "+14.5", "%"],
        ["output", "(tokens/s)", "1,834", "-2.0", "%", "passed", "1,840", "-0.3", "%"],
    ]
    documented = terminal.figures_table(replace(SLOW, metrics=(memory,)), NOISY).splitlines()[-1]
    assert documented.split() == ["peak", "memory", "(GiB)", "70.1", "61.2", "+14.5", "%", "+5.0", "%", "regressed"]
    assert "peak memory 70.1 GiB  +14.5 %" in terminal.headline(replace(SLOW, metrics=(memory,)))


def test_a_failure_by_an_accepted_figure_names_both() -> None:
    slow = replace(BY_ACCEPTED, outcome=Outcome.REGRESSED, accepted_s=4.5)
    assert terminal.verdict_fact(SLOW.documented, slow, 205200.78, "eos") == (
        "throughput 205,201 tokens/s is 11.9 % below the accepted 233,017 of eos (allowed 5 %), "
        "10.8 % below the documented 230,153"
    )
    save = Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05, accepted_s=18.5)
    assert terminal.verdict_fact(SAVE.documented, save, None, "eos") == (
        "19.93 s is 7.2 % slower than the accepted 18.5 s of eos (allowed 5 %), 9.9 % slower than the documented 17.96 s"
    )


def test_the_facts_of_a_row_name_the_accepted_figure() -> None:
    found = dict(facts(PASSED_BY_ACCEPTED))
    assert found["accepted"] == "on eos 2026-11-20: 4.9 s, median of 7 jobs, spread 0.83 % (481201, 481207)"
    assert "accepted" not in dict(facts(SLOW))


def test_why_an_accepted_figure_does_not_count() -> None:
    start = "the accepted figure of eos (4.9 s, 2026-11-20) was measured "
    end = ": the documented one is used"
    other = "under another definition (3f2a9c1d0e4b, now 0123456789ab)"
    assert terminal.unused_text(ACCEPTED, "0123456789ab", ACCEPTED.image) == f"{start}{other}{end}"
    image = "with the image nvidia+jax+maxtext-2024.12.09.sqsh, this run used "
    assert terminal.unused_text(ACCEPTED, "0123456789ab", "x.sqsh") == f"{start}{image}the image x.sqsh{end}"
    assert terminal.unused_text(ACCEPTED, "0123456789ab", None) == f"{start}{image}an image that is not known{end}"
    assert terminal.ignored_text(ACCEPTED) == (
        "the accepted figure of eos (4.9 s, 2026-11-20) was left aside by this session's pytest_gsw_judge"
        ": the documented one is used"
    )


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            PASSED_BY_ACCEPTED,
            "passed by what eos has accepted; it is 10.8 % below the documented throughput, and would have failed by it",
        ),
        (replace(PASSED_BY_ACCEPTED, measured={"step_time_s": 4.6}), ""),
        (replace(PASSED_BY_ACCEPTED, outcome="regressed"), ""),
        (replace(SLOW, accepted_note="was not used"), "was not used"),
        (SLOW, ""),
        (NOT_MEASURED, ""),
    ],
)
def test_what_a_summary_must_say_of_an_accepted_figure(record: Record, text: str) -> None:
    assert terminal.accepted_line(record) == text


def test_a_tolerance_of_everything_allows_any_time() -> None:
    verdict = Verdict(Outcome.PASSED, measured_s=5.11, documented_s=4.556, tolerance=1.0)
    assert terminal.figures_table(replace(SLOW, measured={"step_time_s": 5.11}), verdict) == (
        "metric           measured    documented    change    allowed\n"
        "step time (s)       5.110         4.556   +12.2 %        any  passed"
    )


@pytest.mark.parametrize(
    ("documented", "verdict", "tokens_per_s", "text"),
    [
        (
            SLOW.documented,
            Verdict(Outcome.PASSED, 4.5, 4.556, 0.05),
            233017.0,
            "throughput 233,017 tokens/s is 1.2 % above the documented 230,153 (allowed 5 %)",
        ),
        (
            SLOW.documented,
            Verdict(Outcome.PASSED, 4.556, 4.556, 0.025),
            230152.77,
            "throughput 230,153 tokens/s is 0.0 % above the documented 230,153 (allowed 2.5 %)",
        ),
        (
            {"tflops_per_gpu": 52.8},
            Verdict(Outcome.REGRESSED, 258.0, 129.0, 0.4),
            4064.2,
            "throughput 4,064 tokens/s is 50.0 % below the documented 8,128 (allowed 40 %)",
        ),
        (
            SAVE.documented,
            Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05),
            None,
            "19.93 s is 9.9 % slower than the documented 17.96 s (allowed 5 %)",
        ),
        (
            SAVE.documented,
            Verdict(Outcome.PASSED, 17.5, 17.96068, 0.05),
            None,
            "17.5 s is 2.6 % faster than the documented 17.96 s (allowed 5 %)",
        ),
    ],
)
def test_the_fact_of_a_verdict(
    documented: dict[str, float | None], verdict: Verdict, tokens_per_s: float | None, text: str
) -> None:
    assert terminal.verdict_fact(documented, verdict, tokens_per_s) == text


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (SLOW, "5.11 s/step  +12.2 %  MFU 36.0 %  job 481221"),
        (replace(SLOW, outcome="improved"), "5.11 s/step  +12.2 %  MFU 36.0 %  job 481221  improved"),
        (replace(SLOW, simulated=True), "5.11 s/step  +12.2 %  MFU 36.0 %  job 481221  simulated"),
        (replace(SLOW, measured={"step_time_s": 435.0}, documented={}), "435 s/step  job 481221"),
        (replace(SLOW, measured={"step_time_s": 4.5559}), "4.556 s/step  +0.0 %  job 481221"),
        (SAVE, "19.93 s/save  +11.0 %  job 481221"),
        (
            replace(SLOW, accepted={"step_time_s": 5.0}, reference="accepted"),
            "5.11 s/step  +2.2 % to accepted, +12.2 % to documented  MFU 36.0 %  job 481221",
        ),
        (NOT_MEASURED, "job 481221"),
        (replace(NOT_MEASURED, job=None), ""),
    ],
)
def test_what_stands_behind_the_outcome(record: Record, text: str) -> None:
    assert terminal.headline(record) == text


def test_the_text_of_a_job_that_failed() -> None:
    error = JobError(
        "job 481221 failed with exit code 1: NCCL error",
        evidence=(
            ("job", "481221 FAILED 1:0 after 3m20s on pool0-[0017-0032]"),
            ("log", "/stage/log.out"),
            ("cause", "NCCL WARN Call to connect failed"),
            ("said at", "/stage/log.out:812"),
        ),
        advice="look at the fabric of these nodes",
    )
    assert terminal.error_text(error, facts(NOT_MEASURED)) == (
        "job 481221 failed with exit code 1: NCCL error\n"
        "\n"
        "job        481221 FAILED 1:0 after 3m20s on pool0-[0017-0032]\n"
        "log        /stage/log.out\n"
        "cause      NCCL WARN Call to connect failed\n"
        "said at    /stage/log.out:812\n"
        "baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)\n"
        "next       look at the fabric of these nodes\n"
        f"again      {AGAIN}\n"
        f"offline    {OFFLINE}"
    )


def test_the_text_of_a_log_that_is_too_short() -> None:
    error = LogError(
        "the log holds 3 steps, 45 of 50 needed",
        evidence=(("log", "/stage/log.out:12"), ("steps", "3 read as maxtext")),
        tail=("completed step: 1, seconds: 4.3", "completed step: 2, seconds: 4.3"),
        advice="the run stopped early or its log was cut; look at the last lines",
    )
    assert terminal.error_text(error, facts(replace(SLOW, outcome="error"))) == (
        "the log holds 3 steps, 45 of 50 needed\n"
        "\n"
        "log        /stage/log.out:12\n"
        "steps      3 read as maxtext\n"
        "last       completed step: 1, seconds: 4.3\n"
        "           completed step: 2, seconds: 4.3\n"
        "baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)\n"
        "job        slurm 481221 COMPLETED 0:0 in 11m02s on pool0-[0017-0032]\n"
        "next       the run stopped early or its log was cut; look at the last lines\n"
        f"again      {AGAIN}\n"
        f"offline    {OFFLINE}"
    )


def test_the_text_of_a_row_that_was_never_submitted_offers_no_replay() -> None:
    error = SubmissionError("100 GPUs do not fill whole nodes of 8 on eos")
    assert terminal.error_text(error, facts(replace(NOT_MEASURED, job=None, log=None))) == (
        "100 GPUs do not fill whole nodes of 8 on eos\n"
        "\n"
        "baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)\n"
        f"again      {AGAIN}"
    )


def test_what_is_not_known_of_a_job_is_left_out() -> None:
    job = replace(JOB, launcher="replay", state="REPLAYED", exit_code=None, nodes="", run_s=None)
    assert ("job", "replay 481221 REPLAYED") in facts(replace(SLOW, job=job))


def test_a_simulation_says_so() -> None:
    assert ("note", "this is a simulation: no GPU was used, the figures are made up") in facts(
        replace(SLOW, simulated=True)
    )


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.12156, "+12.2 %"),
        (-0.108, "-10.8 %"),
        (0.0, "+0.0 %"),
        (-0.0004, "+0.0 %"),
        (-0.0006, "-0.1 %"),
        (1, "+100.0 %"),
    ],
)
def test_changes_have_a_sign_and_nought_has_none_of_its_own(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_a_command_can_be_pasted() -> None:
    assert terminal.command("pytest", "-k", "a and b", "x.yaml::y[1]") == "pytest -k 'a and b' 'x.yaml::y[1]'"


PLANNED = {
    "node_id": SLOW.node_id,
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
    assert "\n".join(terminal.plan_text([PLANNED, OF_ONE_GPU], skipped)) == (
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
        "  skipped: the row is for B200, eos has H100\n"
        "\n"
        "2 rows, 2,305 GPUs on 289 nodes if all run at once, about 587 GPU-hours "
        "without the 1 row whose run time is not known"
    )


def test_a_plan_of_one_row() -> None:
    assert terminal.plan_text([PLANNED], [])[-1] == (
        "1 row, 2,304 GPUs on 288 nodes if all run at once, about 587 GPU-hours"
    )


def test_a_plan_of_nothing() -> None:
    assert terminal.plan_text([], [("b.yaml::b200", "marked as skipped")]) == [
        "b.yaml::b200",
        "  skipped: marked as skipped",
        "",
        "nothing would be submitted",
    ]


def standing(*rows: RowProgress, gpus: float = math.inf) -> str:
    return terminal.standing(rows, gpus)


def progress(name: str, state: JobState | None = None, reason: str = "", **facts: Any) -> RowProgress:
    return RowProgress(name, facts.pop("gpus", 8), None if state is None else JobStatus(state, reason=reason), **facts)


def test_where_a_waiting_session_stands() -> None:
    assert standing(
        progress("a", JobState.COMPLETED, over=True),
        progress("b", JobState.RUNNING, gpus=64, steps=23, of=50, step_time_s=4.334, expected_s=500.0),
        progress("c", JobState.RUNNING, gpus=128, steps=40, of=50, step_time_s=4.5, expected_s=500.0),
        progress("d", JobState.PENDING, "Resources", expected_s=500.0),
        progress("e", JobState.PENDING, "Priority", expected_s=527.0),
        progress("f", expected_s=500.0),
        progress("g", expected_s=500.0),
    ) == (
        "gsw: 1 of 7 done, 2 running on 192 GPUs, 2 pending (Priority, Resources), 2 not submitted yet, "
        "at least 8m47s left, b at step 23 of 50, 4.33 s"
    )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "gsw: 0 of 0 done"),
        ([progress("a", JobState.RUNNING, gpus=1)], "gsw: 0 of 1 done, 1 running on 1 GPU"),
        ([progress("a", JobState.RUNNING, gpus=2048)], "gsw: 0 of 1 done, 1 running on 2,048 GPUs"),
        ([progress("a", JobState.PENDING)], "gsw: 0 of 1 done, 1 pending"),
        ([progress("a", JobState.PENDING, "None")], "gsw: 0 of 1 done, 1 pending"),
        (
            [progress(name, JobState.PENDING, reason) for name, reason in zip("abc", ["Z", "A", "Z"], strict=True)],
            "gsw: 0 of 3 done, 3 pending (A, Z)",
        ),
        ([progress("a")], "gsw: 0 of 1 done, 1 not submitted yet"),
        # One that could not be submitted is done, and has no job.
        ([progress("a", over=True)], "gsw: 1 of 1 done"),
        ([progress("a", JobState.COMPLETED, over=True)], "gsw: 1 of 1 done"),
        # One that has ended and whose log is awaited.
        ([progress("a", JobState.COMPLETED)], "gsw: 0 of 1 done"),
        ([progress("a", JobState.UNKNOWN)], "gsw: 0 of 1 done"),
    ],
)
def test_what_there_is_none_of_is_not_told(rows: list[RowProgress], text: str) -> None:
    assert standing(*rows) == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"steps": 0, "of": 50}, ""),
        ({"steps": 1, "of": 50, "step_time_s": 9.5}, ", a at step 1 of 50, 9.5 s"),
        ({"steps": 7, "step_time_s": 0.01234}, ", a at step 7, 0.0123 s"),
        ({"steps": 7}, ", a at step 7"),
    ],
)
def test_how_far_a_row_is(facts: dict[str, Any], text: str) -> None:
    assert standing(progress("a", JobState.RUNNING, **facts)) == f"gsw: 0 of 1 done, 1 running on 8 GPUs{text}"


def test_the_row_that_is_the_furthest_from_its_end_is_told_of() -> None:
    rows = [
        progress("short", JobState.RUNNING, steps=5, of=50, expected_s=500.0),
        progress("long", JobState.RUNNING, steps=45, of=50, expected_s=9000.0),
        progress("unknown", JobState.RUNNING, steps=5),
        progress("silent", JobState.RUNNING, steps=0, of=50, expected_s=99000.0),
        progress("pending", JobState.PENDING, steps=5, of=50, expected_s=99000.0),
    ]
    assert standing(*rows).endswith(" left, long at step 45 of 50")
    assert standing(*rows[::-1]).endswith(" left, long at step 45 of 50")


@pytest.mark.parametrize(
    ("rows", "gpus", "left"),
    [
        # The longest job, where all can run at once.
        ([(64, 600.0, 0), (64, 300.0, 0)], math.inf, "10m00s"),
        ([(64, 600.0, 0), (64, 300.0, 0)], 128, "10m00s"),
        # All of them, where they cannot.
        ([(64, 600.0, 0), (64, 300.0, 0)], 64, "15m00s"),
        ([(64, 600.0, 0), (64, 3000.0, 0)], 64, "1h00m"),
        # What is done of a running job does not count again.
        ([(64, 600.0, 25)], math.inf, "5m00s"),
        ([(64, 600.0, 25), (64, 300.0, 45)], 64, "5m30s"),
        ([(64, 600.0, 50), (64, 300.0, 60)], 64, None),
        ([(64, None, 0)], 64, None),
        ([(64, None, 0), (64, 30.0, 0)], 64, "30s"),
    ],
)
def test_how_long_a_session_still_takes_at_least(
    rows: list[tuple[int, float | None, int]], gpus: float, left: str | None
) -> None:
    told = [
        progress(str(number), JobState.PENDING, gpus=taken, expected_s=expected_s, steps=steps, of=50)
        for number, (taken, expected_s, steps) in enumerate(rows)
    ]
    over = progress("over", JobState.COMPLETED, gpus=4096, expected_s=99000.0, over=True)
    text = f"gsw: 1 of {len(rows) + 1} done, {len(rows)} pending" + (f", at least {left} left" if left else "")
    assert standing(*told, over, gpus=gpus) == text


def test_a_row_of_whose_steps_nobody_knows_the_number_takes_what_is_documented() -> None:
    assert progress("a", JobState.RUNNING, steps=30, expected_s=500.0).left_s == 500.0
    assert progress("a", JobState.RUNNING, steps=30, of=50).left_s is None


@pytest.mark.parametrize(
    ("used", "saved", "stopped", "text"),
    [
        (0.0, 0.0, 0, "gsw: 0.0 GPU-hours used"),
        (0.26, 0.0, 0, "gsw: 0.3 GPU-hours used"),
        (9.94, 0.0, 0, "gsw: 9.9 GPU-hours used"),
        (10.4, 0.0, 0, "gsw: 10 GPU-hours used"),
        (12345.6, 0.0, 0, "gsw: 12,346 GPU-hours used"),
        (100.0, 41.2, 1, "gsw: 100 GPU-hours used, about 41 saved by ending 1 job early"),
        (100.0, 0.0, 2, "gsw: 100 GPU-hours used, about 0.0 saved by ending 2 jobs early"),
    ],
)
def test_what_a_session_has_cost(used: float, saved: float, stopped: int, text: str) -> None:
    assert terminal.gpu_hours(used, saved, stopped) == text


LOST = replace(JOB, id="481220", state="NODE_FAIL", exit_code=1, nodes="pool0-0017", why_repeated="node failure")
PREEMPTED = replace(JOB, id="481219", state="PREEMPTED", nodes="", why_repeated="preemption")


def test_a_row_that_was_run_again_says_so() -> None:
    record = replace(SLOW, attempts=(PREEMPTED, LOST))
    assert terminal.headline(record) == "5.11 s/step  +12.2 %  MFU 36.0 %  job 481221  attempt 3"
    assert facts(record)[:4] == [
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)"),
        ("attempt 1", "481219 PREEMPTED: preemption"),
        ("attempt 2", "481220 NODE_FAIL on pool0-0017: node failure"),
        ("job", "slurm 481221 COMPLETED 0:0 in 11m02s on pool0-[0017-0032]"),
    ]


# -- noise, several jobs, drift -------------------------------------------------------------------


NOISY = replace(
    REGRESSED, outcome=Outcome.INCONCLUSIVE, limit=0.117, noise=Noise(0.04, 24), given_reason=Reason.WITHIN_NOISE
)


def test_a_limit_that_is_not_the_tolerance_says_why() -> None:
    assert terminal.verdict_fact(SLOW.documented, NOISY, 205200.78) == (
        "throughput 205,201 tokens/s is 10.8 % below the documented 230,153 "
        "(allowed 5 %; a regression beyond 11.7 %, because its jobs differ by 4 % (standard deviation of 24))"
    )
    fast = replace(NOISY, outcome=Outcome.IMPROVED, given_reason=Reason.FASTER)
    assert "(allowed 5 %; an improvement beyond 11.7 %, because" in terminal.verdict_fact(SLOW.documented, fast, None)


def test_noise_that_is_only_assumed_says_so() -> None:
    assert terminal.noise_text(Noise(0.0165, 0)) == (
        "its jobs are taken to differ by 1.7 % until enough of them are known"
    )


def test_the_table_shows_the_limit_in_force() -> None:
    assert "step time (s)                 5.110         4.556   +12.2 %    +13.3 %  inconclusive" in (
        terminal.figures_table(SLOW, NOISY)
    )


def test_a_figure_of_several_jobs_says_so() -> None:
    several = replace(REGRESSED, jobs_s=(5.1, 5.11, 5.2))
    assert terminal.verdict_fact(SLOW.documented, several, 205200.78) == (
        "throughput 205,201 tokens/s, the median of 3 jobs, is 10.8 % below the documented 230,153 (allowed 5 %)"
    )
    save = Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05, jobs_s=(19.9, 19.93, 20.0))
    assert terminal.verdict_fact(SAVE.documented, save, None) == (
        "19.93 s, the median of 3 jobs, is 9.9 % slower than the documented 17.96 s (allowed 5 %)"
    )


def test_a_statistic_that_is_not_what_the_run_was_like() -> None:
    spiked = replace(REGRESSED, steady_s=4.6)
    assert terminal.verdict_fact(SLOW.documented, spiked, 205200.78).endswith(
        "(allowed 5 %); its 5.11 s are 11.1 % more than the median of the steady steps"
    )
    assert terminal.verdict_fact(SLOW.documented, replace(REGRESSED, steady_s=5.05), 205200.78).endswith("5 %)")


SECOND = replace(JOB, id="481220", judged_s=5.2, nodes="pool0-[0033-0048]")
SEVERAL = replace(SLOW, repeats=(SECOND,), job=replace(JOB, judged_s=5.02))


def test_the_facts_of_a_row_of_several_jobs() -> None:
    facts = dict(terminal.run_facts(SEVERAL, "again", "offline"))
    assert facts["job 1"] == "481220 5.2 s on pool0-[0033-0048]"
    assert facts["job 2"] == "481221 5.02 s on pool0-[0017-0032]"
    assert facts["median"] == "5.02 to 5.2 s with 50 % confidence"
    assert terminal.headline(SEVERAL).endswith("median of 2 jobs")


def test_the_facts_of_a_row_whose_last_job_was_not_measured() -> None:
    facts = dict(terminal.run_facts(replace(SEVERAL, outcome="error", measured={}), "again", "offline"))
    assert (facts["job 1"], "job 2" in facts, "median" in facts) == ("481220 5.2 s on pool0-[0033-0048]", False, False)


def test_the_steps_of_a_run_with_warm_up_and_spikes() -> None:
    record = replace(SLOW, mean_s=5.2, spike_fraction=0.041, warm_up_steps=3)
    assert dict(terminal.run_facts(record, "again", "offline"))["steps"] == (
        "49 read, last used; median 5.1 s, mean 5.2 s, p90 5.14 s, 4.1 % spikes after 3 of warm-up"
    )


INCONCLUSIVE = replace(SLOW, outcome="inconclusive", reason="within noise", fact="throughput is 10.8 % below")


def test_why_a_noisy_row_is_inconclusive() -> None:
    noisy = replace(NOISY, noise=Noise(0.08, 30))
    assert terminal.inconclusive_text(INCONCLUSIVE, noisy) == (
        "inconclusive: throughput is 10.8 % below; jobs of this row differ by as much: "
        "72 jobs would tell a loss of 5 % from noise (--gsw-repeat), or pytest-gsw compare-ab"
    )
    assert terminal.inconclusive_line(INCONCLUSIVE) == "within noise: throughput is 10.8 % below"
    assert terminal.inconclusive_line(replace(INCONCLUSIVE, reason="")) == "throughput is 10.8 % below"
    assert terminal.inconclusive_line(SLOW) == ""


WONDER = Verdict(
    Outcome.INCONCLUSIVE, 0.4556, 4.556, 0.05, jobs_s=(0.4556,), given_reason=Reason.TOO_GOOD, more=0, max_gain=0.25
)


def test_what_is_too_good_to_be_true() -> None:
    fact = terminal.verdict_fact(SLOW.documented, WONDER, 2_301_530.0)
    assert fact == (
        "throughput 2,301,530 tokens/s is 900.0 % above the documented 230,153 "
        "(allowed 5 %, and no more than 25 % is believed)"
    )
    record = replace(SLOW, outcome="inconclusive", fact="throughput is 900.0 % above", log="/stage/a.log")
    assert terminal.inconclusive_text(record, WONDER) == (
        "inconclusive: throughput is 900.0 % above; that is too good to be true; look at the 4.556 s in "
        f"{record.baseline} (decimal point, unit, statistic last), and at what /stage/a.log says of batch, sequence "
        "length and steps; if it is true, --gsw-max-gain=901% or max_gain in the table accepts it"
    )
    several = replace(WONDER, measured_s=4.6, jobs_s=(4.6, 4.7, 0.4))
    assert "; that is too good to be true: one of its jobs took 0.4 s; look at" in (
        terminal.inconclusive_text(replace(record, log=None), several)
    )
    assert "what its log says" in terminal.inconclusive_text(replace(record, log=None), several)


def test_a_verdict_that_is_too_good_is_the_same_from_its_record() -> None:
    record = replace(
        SLOW, outcome="inconclusive", reason="too good to be true", max_gain=0.25, measured={"step_time_s": 0.4556}
    )
    found = terminal.verdict_of(record)
    assert found is not None
    assert (found.reason, found.max_gain, found.is_too_fast) == (Reason.TOO_GOOD, 0.25, True)
    assert found.greatest_gain == pytest.approx(9.0)
    assert "  inconclusive  too good to be true" in terminal.headline(record)


def test_which_ranks_differ() -> None:
    ranks = RanksApart((("3", 3.0), ("node1:7", 2.0)), 0.9)
    verdict = replace(WONDER, measured_s=4.5, given_reason=Reason.RANKS_DIFFER, ranks=ranks)
    assert terminal.verdict_fact(SLOW.documented, verdict, None).endswith(
        "(allowed 5 %); of its ranks, rank 3 took 3 s, node1:7 took 2 s, and their median is 0.9 s"
    )
    many = RanksApart(tuple((str(rank), 9.0) for rank in range(900)), 0.9)
    assert terminal.verdict_fact(SLOW.documented, replace(verdict, ranks=many), None).endswith(
        "rank 3 took 9 s and 896 more differ, and their median is 0.9 s"
    )
    record = replace(SLOW, outcome="inconclusive", fact="4.5 s")
    assert terminal.inconclusive_text(record, verdict) == (
        "inconclusive: 4.5 s; ranks of one job wait for each other in every step, so that all take the same time: "
        "look at the nodes of these ranks, and whether its log is that of one run"
    )


def test_why_a_row_is_inconclusive_beside_a_slow_canary() -> None:
    verdict = replace(REGRESSED, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.CANARY)
    assert terminal.inconclusive_text(INCONCLUSIVE, verdict, ["all_reduce_bf16[H100x64]"]) == (
        "inconclusive: throughput is 10.8 % below; the canary all_reduce_bf16[H100x64] was too slow as well: "
        "the cluster is not in its usual state"
    )
    assert terminal.inconclusive_text(INCONCLUSIVE, verdict) == (
        "inconclusive: throughput is 10.8 % below; the canary row was too slow as well: "
        "the cluster is not in its usual state"
    )
    assert terminal.inconclusive_text(replace(INCONCLUSIVE, canary=True), verdict) == (
        "inconclusive: throughput is 10.8 % below; it is a canary: the cluster is not in its usual state, "
        "and rows that are too slow say nothing"
    )


def test_a_verdict_is_the_same_from_its_record() -> None:
    record = replace(SEVERAL, reason="slower than allowed", limit=0.08, sigma=0.03, sigma_jobs=12)
    found = terminal.verdict_of(record)
    assert found is not None
    assert (found.outcome, found.limit, found.noise, found.jobs_s) == (
        Outcome.REGRESSED,
        0.08,
        Noise(0.03, 12),
        (5.2, 5.02),
    )
    assert terminal.verdict_of(replace(record, outcome="error")) is None


def test_a_drift_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    since = Point("20261019-221000-7f3a", "480120", 1792454400.0, 1.03, "passed")
    found = Drifting(
        Drift(4.2, 0.04, 0.01, 42, 0.1, 10), since, {"nccl": ("2.21.5", "2.23.4"), "driver": ("", "560.28")}
    )
    assert drift_text(found) == (
        "throughput of the newest nights is -3.8 % against the first ones, -1.0 % a week, since about 2026-10-20 "
        "(job 480120 of run 20261019-221000-7f3a); what changed then: nccl 2.21.5 -> 2.23.4, driver unknown -> 560.28"
    )
    assert drift_text(replace(found, changes={}, drift=replace(found.drift, slope_per_week=None))) == (
        "throughput of the newest nights is -3.8 % against the first ones, since about 2026-10-20 "
        "(job 480120 of run 20261019-221000-7f3a)"
    )


@pytest.mark.parametrize("flops", [0.0, -9.5e10])
def test_a_record_whose_calibration_is_none_can_be_shown(flops: float) -> None:
    assert "peak" not in dict(facts(replace(SLOW, calibration_flops=flops)))
    assert dict(facts(replace(SLOW, calibration_flops=9.5e10)))["peak"].startswith(
        "95 GFLOP/s, measured in the same job"
    )
