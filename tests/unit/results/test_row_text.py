"""What people read of one row, to the letter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import LogError, SubmissionError
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import junit, row_text
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_line import WIDEST, RowLine, change_text, figures, fitted, informative_line, line_of
from pytest_gsw.results.row_text import accepted_line, hides_loss, ignored_text, unused_text
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import MetricVerdict, RankSpread, Reason, Verdict
from pytest_gsw.tables.metrics import STEP_TIME, Direction, MetricLabel
from tests.messages import wording
from tests.unit.results.records import (
    ACCEPTED,
    AGAIN,
    BY_ACCEPTED,
    ENDURED,
    JOB,
    MEMORY,
    NOISY,
    NOT_MEASURED,
    OFFLINE,
    PASSED_BY_ACCEPTED,
    REGRESSED,
    SAVE,
    SEVERAL,
    SLOW,
    WONDER,
    facts,
    varied,
)
from tests.unit.rows import LLAMA2_FP8_X128

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


def test_the_whole_text_of_a_regression() -> None:
    assert row_text.failure_text(SLOW, REGRESSED, facts(SLOW)) == WHOLE_SCREEN


def test_the_use_of_a_rows_time() -> None:
    text = (
        "goodput 95.0 % of 24h00m, 1h00m lost; 2 restarts (1 infrastructure, 1 program), "
        "time between failures 12h00m, 3h48m to 67h32m"
    )
    assert row_text.endurance_text(ENDURED) == text
    assert ("endurance", text) in row_text.run_facts(replace(SLOW, endurance=ENDURED))
    quiet = replace(ENDURED, attempts=1, causes={}, mtbf_s=None, mtbf_low_s=28800.0, mtbf_high_s=None, drift=0.031)
    assert row_text.endurance_text(quiet) == (
        "goodput 95.0 % of 24h00m, 1h00m lost; 0 restarts, time between failures 8h00m or more; "
        "steps of the last hour take +3.1 %"
    )


def test_the_table_of_a_checkpoint_row() -> None:
    verdict = Verdict(Outcome.PASSED, measured=19.93, documented=17.96068, tolerance=0.4)
    assert row_text.figures_table(SAVE, verdict) == (
        "metric                 measured    documented    change    allowed\n"
        "checkpoint save (s)      19.930        17.961   +11.0 %    +66.7 %  passed"
    )


def test_the_table_of_a_row_that_is_held_against_what_its_cluster_has_accepted() -> None:
    assert row_text.figures_table(PASSED_BY_ACCEPTED, BY_ACCEPTED) == (
        "metric                     measured    accepted    change    allowed             documented    change\n"
        "step time (s)                 5.110       4.900    +4.3 %     +5.3 %  passed          4.556   +12.2 %\n"
        "throughput (tokens/s)       205,201     213,995    -4.1 %     -5.0 %  passed        230,153   -10.8 %\n"
        "MFU                          36.0 %      37.6 %    -4.1 %             derived        40.4 %   -10.8 %\n"
        "days to train 1T tokens       56.40       54.09    +4.3 %             derived         50.29   +12.2 %"
    )


def test_a_site_s_metrics_stand_below_the_row_s_own_figures() -> None:
    label = MetricLabel("output", "tokens/s", Direction.HIGHER_IS_BETTER, "output")
    output = MetricVerdict(label, Outcome.PASSED, 1834.2, 1840.0, 0.02)
    table = row_text.figures_table(varied(PASSED_BY_ACCEPTED, metrics=(MEMORY, output)), BY_ACCEPTED).splitlines()
    assert [line.split() for line in table[-2:]] == [
        ["peak", "memory", "(GiB)", "70.1", "+5.0", "%", "regressed", "61.2", "+14.5", "%"],
        ["output", "(tokens/s)", "1,834", "-2.0", "%", "passed", "1,840", "-0.3", "%"],
    ]
    documented = row_text.figures_table(varied(SLOW, metrics=(MEMORY,)), NOISY).splitlines()[-1]
    assert documented.split() == ["peak", "memory", "(GiB)", "70.1", "61.2", "+14.5", "%", "+5.0", "%", "regressed"]


def test_a_failure_by_an_accepted_figure_names_both() -> None:
    slow = replace(BY_ACCEPTED, outcome=Outcome.REGRESSED, accepted=4.5)
    assert row_text.verdict_fact(SLOW.figures.documented, slow, 205200.78, "eos") == (
        "throughput 205,201 tokens/s is 11.9 % below the accepted 233,017 of eos (allowed 5 %), "
        "10.8 % below the documented 230,153"
    )
    save = Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05, accepted=18.5)
    assert row_text.verdict_fact(SAVE.figures.documented, save, None, "eos") == (
        "19.93 s is 7.2 % slower than the accepted 18.5 s of eos (allowed 5 %), 9.9 % slower than the documented 17.96 s"
    )


def test_a_tolerance_of_everything_allows_any_time() -> None:
    verdict = Verdict(Outcome.PASSED, measured=5.11, documented=4.556, tolerance=1.0)
    assert row_text.figures_table(varied(SLOW, measured={"step_time_s": 5.11}), verdict) == (
        "metric           measured    documented    change    allowed\n"
        "step time (s)       5.110         4.556   +12.2 %        any  passed"
    )


def test_a_slow_tile_within_what_its_row_allows_is_not_beyond_it_in_the_table() -> None:
    verdict = Verdict(Outcome.REGRESSED, 4.7, 4.556, 0.05, given_reason=Reason.SLOW_NODE)
    table = row_text.figures_table(varied(SLOW, measured={"step_time_s": 4.7}), verdict)
    assert table.endswith("+3.2 %     +5.3 %  slower than its peers")


@pytest.mark.parametrize(
    ("documented", "verdict", "tokens_per_s", "text"),
    [
        (
            SLOW.figures.documented,
            Verdict(Outcome.PASSED, 4.5, 4.556, 0.025),
            233017.0,
            "throughput 233,017 tokens/s is 1.2 % above the documented 230,153 (allowed 2.5 %)",
        ),
        (
            {"tflops_per_gpu": 52.8},
            Verdict(Outcome.REGRESSED, 258.0, 129.0, 0.4),
            4064.2,
            "throughput 4,064 tokens/s is 50.0 % below the documented 8,128 (allowed 40 %)",
        ),
        (
            SAVE.figures.documented,
            Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05),
            None,
            "19.93 s is 9.9 % slower than the documented 17.96 s (allowed 5 %)",
        ),
        (
            SAVE.figures.documented,
            Verdict(Outcome.PASSED, 17.5, 17.96068, 0.05),
            None,
            "17.5 s is 2.6 % faster than the documented 17.96 s (allowed 5 %)",
        ),
    ],
)
def test_the_fact_of_a_verdict(
    documented: dict[str, float | None], verdict: Verdict, tokens_per_s: float | None, text: str
) -> None:
    assert row_text.verdict_fact(documented, verdict, tokens_per_s) == text


def test_the_text_of_a_log_that_is_too_short() -> None:
    error = LogError(
        "the log holds 3 steps, 45 of 50 needed",
        evidence=(("log", "/stage/log.out:12"), ("steps", "3 read as maxtext")),
        tail=("completed step: 1, seconds: 4.3", "completed step: 2, seconds: 4.3"),
        advice="the run stopped early or its log was cut; look at the last lines",
    )
    assert row_text.error_text(error, facts(varied(SLOW, outcome="error"))) == (
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
    assert row_text.error_text(error, facts(varied(NOT_MEASURED, job=None, log=None))) == (
        "100 GPUs do not fill whole nodes of 8 on eos\n"
        "\n"
        "baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)\n"
        f"again      {AGAIN}"
    )


def test_what_is_not_known_of_a_job_is_left_out() -> None:
    job = replace(JOB, launcher="replay", state=JobState.REPLAYED, exit_code=None, nodes="", start_s=None)
    assert ("job", "replay 481221 REPLAYED") in facts(varied(SLOW, job=job))


LOST = replace(JOB, id="481220", state=JobState.NODE_FAIL, exit_code=1, nodes="pool0-0017", why_repeated="node failure")
PREEMPTED = replace(JOB, id="481219", state=JobState.PREEMPTED, nodes="", why_repeated="preemption")


def test_a_row_that_was_run_again_says_so() -> None:
    record = varied(SLOW, attempts=(PREEMPTED, LOST))
    assert facts(record)[:4] == [
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)"),
        ("attempt 1", "481219 PREEMPTED: preemption"),
        ("attempt 2", "481220 NODE_FAIL on pool0-0017: node failure"),
        ("job", "slurm 481221 COMPLETED 0:0 in 11m02s on pool0-[0017-0032]"),
    ]


def test_a_limit_that_is_not_the_tolerance_says_why() -> None:
    assert row_text.verdict_fact(SLOW.figures.documented, NOISY, 205200.78) == (
        "throughput 205,201 tokens/s is 10.8 % below the documented 230,153 "
        "(allowed 5 %; a regression beyond 11.7 %, because its jobs differ by 4 % (standard deviation of 24))"
    )
    fast = replace(NOISY, outcome=Outcome.IMPROVED, given_reason=Reason.FASTER)
    assert "(allowed 5 %; an improvement beyond 11.7 %, because" in row_text.verdict_fact(
        SLOW.figures.documented, fast, None
    )


@pytest.mark.parametrize(
    ("losses", "changes", "text"),
    [
        ([0.03], {}, ""),
        ([0.01], {"screen": 0.025}, ""),
        ([0.03], {"screen": 0.04}, "; not repeated within -4.0 %"),
        ([0.03, 0.01], {"screen": 0.025}, "; repeated, because its first job is beyond -2.5 %"),
        ([0.02, 0.01], {"screen": 0.025}, "; repeated, because its newest runs are slower"),
        ([0.06, 0.01], {"screen": 0.025}, ""),
        ([0.08], {"screen": 0.05, "more": 1}, "; not repeated: it is as slow as in the run before"),
        ([0.08], {"screen": 0.05, "more": 0}, "; not repeated: it is as slow as the other rows"),
    ],
)
def test_why_a_row_was_repeated_or_not(losses: list[float], changes: dict[str, Any], text: str) -> None:
    jobs = tuple(5.0 / (1 - loss) for loss in losses)
    verdict = Verdict(Outcome.PASSED, jobs[0], 5.0, 0.05, jobs=jobs, **changes)

    fact = row_text.verdict_fact({}, verdict, None)

    assert fact.partition(")")[2] == text


def test_a_figure_of_several_jobs_says_so() -> None:
    several = replace(REGRESSED, jobs=(5.1, 5.11, 5.2))
    assert row_text.verdict_fact(SLOW.figures.documented, several, 205200.78) == (
        wording("throughput of jobs", measured="205,201", jobs=3, change="10.8", side="% below")
        + " 230,153 (allowed 5 %)"
    )
    save = Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05, jobs=(19.9, 19.93, 20.0))
    assert row_text.verdict_fact(SAVE.figures.documented, save, None) == (
        wording("slower steps", measured="19.93", jobs=3, change="9.9 %", documented="17.96 s (allowed 5 %)")
    )


def test_a_statistic_that_is_not_what_the_run_was_like() -> None:
    spiked = replace(REGRESSED, steady_s=4.6)
    assert row_text.verdict_fact(SLOW.figures.documented, spiked, 205200.78).endswith(
        "(allowed 5 %); its 5.11 s are 11.1 % more than the median of the steady steps"
    )
    assert row_text.verdict_fact(SLOW.figures.documented, replace(REGRESSED, steady_s=5.05), 205200.78).endswith("5 %)")


def test_a_statistic_that_is_better_than_the_run() -> None:
    record = replace(SLOW, fact="throughput 230,153 tokens/s is 0.0 % above the documented 230,153 (allowed 5 %)")
    better = replace(
        REGRESSED, outcome=Outcome.INCONCLUSIVE, measured=4.556, steady_s=6.834, given_reason=Reason.STEPS_SLOWER
    )
    assert row_text.inconclusive_text(record, better) == (
        "inconclusive: throughput 230,153 tokens/s is 0.0 % above the documented 230,153 (allowed 5 %); a statistic is "
        "not a run (last 4.556 s, steady steps 6.834 s): look at its steps and nodes, and run it again"
    )


def test_the_facts_of_a_row_of_several_jobs() -> None:
    facts = dict(row_text.run_facts(SEVERAL))
    assert facts["job 1"] == "481220 5.2 s on pool0-[0033-0048]"
    assert facts["job 2"] == "481221 5.02 s on pool0-[0017-0032]"
    assert facts["median"] == "5.11 s"
    assert figures(SEVERAL)[-1] == "median of 2 jobs"
    facts = dict(row_text.run_facts(varied(SEVERAL, outcome="error", measured={})))
    assert (facts["job 1"], "job 2" in facts, "median" in facts) == ("481220 5.2 s on pool0-[0033-0048]", False, False)


def test_the_steps_of_a_run_with_warm_up_and_spikes() -> None:
    record = varied(SLOW, mean_s=5.2, spike_fraction=0.041, warm_up_steps=3)
    assert dict(row_text.run_facts(record))["steps"] == (
        "49 read, last used; median 5.1 s, mean 5.2 s, p90 5.14 s, 4.1 % spikes after 3 of warm-up"
    )


assert JOB.start_s is not None
RAN_30_S = replace(JOB, end_s=JOB.start_s + 30)


def test_steps_that_took_longer_than_their_job_ran_are_doubted() -> None:
    short = varied(SLOW, series_s=[4.0] * 50, job=RAN_30_S)
    assert dict(facts(short))["doubt"] == (
        "the log's steps took 3m20s, and the job ran for 30s: "
        "not all of them are this job's, or the clock in the log is wrong"
    )
    passed = dict(junit.properties(varied(short, outcome="passed")))
    assert passed["gsw_doubt"] == dict(facts(short))["doubt"]


@pytest.mark.parametrize(
    "changes",
    [
        {"job": replace(RAN_30_S, end_s=JOB.start_s + 200)},
        {"job": replace(RAN_30_S, end_s=JOB.start_s + 181)},  # within a tenth and the scheduler's whole seconds
        {"job": replace(RAN_30_S, end_s=None)},
        {"job": replace(RAN_30_S, launcher="local")},
        {"job": None},
        # What takes no time of its own.
        {"simulated": True},
        {"metric": "calibrated_step_time"},
        {"series_s": []},
    ],
)
def test_where_log_and_scheduler_may_agree_nothing_is_doubted(changes: dict[str, Any]) -> None:
    record = varied(SLOW, **{"series_s": [4.0] * 50, "job": RAN_30_S, **changes})
    assert "doubt" not in dict(facts(record))


# -- row line --------------------------------------------------------------------------------------

FAILED = varied(SLOW, outcome="error", fact="job 481221 failed with exit code 1: ECC error", measured={}, reason="")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (SLOW, "REGRESSED  throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221"),
        (varied(SLOW, outcome="passed"), "PASSED     throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221"),
        (
            varied(SLOW, outcome="inconclusive", reason="within noise", limit=0.11, sigma=0.04, sigma_jobs=20),
            "INCONCLUSIVE  throughput -10.8 %  within noise  5.11 s/step  MFU 36.0 %",
        ),
        (
            varied(SLOW, measured={"step_time_s": 435.0}, documented={}, outcome="passed"),
            "PASSED     435 s/step  job 481221",
        ),
        (SAVE, "REGRESSED  throughput -9.9 % (allowed 40 %)  19.93 s/save  job 481221"),
        (
            varied(SLOW, accepted={"step_time_s": 5.0}, outcome="passed"),
            "PASSED     throughput -2.2 % vs accepted, -10.8 % vs document  5.11 s/step",
        ),
        (
            varied(SLOW, attempts=(replace(JOB, id="1"),) * 2),
            "REGRESSED  throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221",
        ),
        (FAILED, "ERROR      ECC error, job 481221 on pool0-[0017-0032]"),
        (
            varied(FAILED, fact="the end of job 481221 is not known: no answer"),
            "ERROR      the end of job 481221 is not known: no answer",
        ),
        (
            varied(FAILED, fact="job 481221 ended TIMEOUT"),
            "ERROR      ended TIMEOUT, job 481221 on pool0-[0017-0032]",
        ),
        (varied(FAILED, fact="sbatch refused the job", job=None), "ERROR      sbatch refused the job"),
        (
            varied(FAILED, outcome="expected_failure", fact="ran out of memory, as documented"),
            "AS DOCUMENTED  ran out of memory, as documented  job 481221",
        ),
        (
            varied(FAILED, outcome="unexpected_success", fact="is documented to run out of memory, but it did not"),
            "UNEXPECTED  is documented to run out of memory, but it did not  job 481221",
        ),
    ],
)
def test_a_row_on_one_line(record: Record, text: str) -> None:
    assert line_of(record).text(WIDEST) == f"llama2_70b_fp8[H100x128]  {text}"


def test_what_a_log_said_last_stands_for_a_cause_that_is_not_known() -> None:
    record = varied(FAILED, fact="job 481221 failed with exit code 1")
    assert line_of(record, "RuntimeError: shape is invalid").parts == ("exit code 1: RuntimeError: shape is invalid",)
    assert line_of(record).parts == ("failed with exit code 1, job 481221 on pool0-[0017-0032]",)
    # A cause that is known says more.
    assert line_of(FAILED, "Error: x").parts == ("ECC error, job 481221 on pool0-[0017-0032]",)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], ""),
        (["", "  "], ""),
        (["step 3", "step 4 "], ""),
        (["Epoch 0: 100%|###| 50/50 [18:11<00:00]"], ""),
        (["Segmentation fault (core dumped)", "step 1 by default"], "Segmentation fault (core dumped)"),
        (["slurmstepd: Unable to create step", "bye"], "slurmstepd: Unable to create step"),
        (["step 1", "RuntimeError: first", "  ValueError: no such shape ", "cleaning up"], "ValueError: no such shape"),
        (["Error: first", "srun: error: second", ""], "srun: error: second"),
        (["Error: first", "-- batch log:", "srun: error: n1: task 0: Exited with exit code 3"], "Error: first"),
        (["srun: error: n1: task 0: Exited with exit code 3"], "srun: error: n1: task 0: Exited with exit code 3"),
    ],
)
def test_the_line_of_a_log_that_looks_most_like_a_cause(lines: list[str], found: str) -> None:
    assert informative_line(lines) == found


def test_a_simulation_and_a_replay_say_so_last_and_a_site_s_metrics_behind_the_throughput() -> None:
    assert figures(varied(SLOW, simulated=True))[-1] == "simulated"
    assert figures(varied(SLOW, job=replace(JOB, state=JobState.REPLAYED)))[-1] == "log only"
    assert figures(varied(SLOW, metrics=(MEMORY,)))[:2] == ("throughput -10.8 %", "peak memory 70.1 GiB (+14.5 %)")


@pytest.mark.parametrize(("seconds", "text"), [(4.5559, "throughput +0.0 %"), (4.0, "throughput +13.9 %")])
def test_a_change_is_of_throughput_and_plus_is_better(seconds: float, text: str) -> None:
    assert change_text(varied(SLOW, measured={"step_time_s": seconds})) == text


def test_the_least_important_parts_are_left_out_and_the_first_is_cut() -> None:
    parts = ("throughput -10.8 %", "5.11 s/step", "job 481221")
    assert fitted(parts, 50) == "  throughput -10.8 %  5.11 s/step  job 481221"
    assert fitted(parts, 40) == "  throughput -10.8 %  5.11 s/step"
    assert fitted(parts, 17) == "  throughput -..."
    assert fitted(parts, 8) == ""


def test_a_long_id_leaves_room_for_the_change_on_a_narrow_screen() -> None:
    row = RowLine("gpt2_52b_fp16[V100-32GBx64-ds3d-gas256-mbs4-gbs1024]", "REGRESSED", ("throughput -10.8 %", "job 7"))
    assert row.text(100) == f"{row.row}  REGRESSED  throughput -10.8 %  job 7"
    assert row.text(80) == "gpt2_52b_fp16[V100...s256-mbs4-gbs1024]  REGRESSED  throughput -10.8 %  job 7"
    assert row.text(60) == "gpt2_52b_fp1...s4-gbs1024]  REGRESSED  throughput -10.8 %"


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=200), max_size=6), st.integers(0, 200))
def test_no_line_is_longer_than_it_may_be(row: str, parts: list[str], ids: int) -> None:
    for word in ("PASSED", "INCONCLUSIVE", "AS DOCUMENTED"):
        assert len(RowLine(row, word, tuple(parts)).text(WIDEST, ids)) <= WIDEST


# -- accepted text ---------------------------------------------------------------------------------


def test_why_an_accepted_figure_does_not_count() -> None:
    start = "the accepted figure of eos (4.9 s, 2026-11-20) was measured "
    end = ": the documented one is used"
    other = "under another definition (3f2a9c1d0e4b, now 0123456789ab)"
    assert unused_text(LLAMA2_FP8_X128, ACCEPTED, "0123456789ab", ACCEPTED.image) == f"{start}{other}{end}"
    image = "with the image nvidia+jax+maxtext-2024.12.09.sqsh, this run used "
    assert unused_text(LLAMA2_FP8_X128, ACCEPTED, "0123456789ab", "x.sqsh") == f"{start}{image}the image x.sqsh{end}"
    assert (
        unused_text(LLAMA2_FP8_X128, ACCEPTED, "0123456789ab", None) == f"{start}{image}an image that is not known{end}"
    )
    assert ignored_text(ACCEPTED, STEP_TIME) == (
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
        (varied(PASSED_BY_ACCEPTED, measured={"step_time_s": 4.6}), ""),
        (varied(PASSED_BY_ACCEPTED, outcome="regressed"), ""),
        (varied(SLOW, accepted_note="was not used"), "was not used"),
        (SLOW, ""),
        (NOT_MEASURED, ""),
    ],
)
def test_what_a_summary_must_say_of_an_accepted_figure(record: Record, text: str) -> None:
    assert accepted_line(record) == text
    assert hides_loss(record) is text.startswith("passed by")


# -- inconclusive text -----------------------------------------------------------------------------

INCONCLUSIVE = varied(SLOW, outcome="inconclusive", reason="within noise", fact="throughput is 10.8 % below")


def test_why_a_noisy_row_is_inconclusive() -> None:
    noisy = replace(NOISY, noise=Noise(0.08, 30))
    assert row_text.inconclusive_text(INCONCLUSIVE, noisy) == (
        "inconclusive: throughput is 10.8 % below; jobs of this row differ by as much: "
        "72 jobs would distinguish a loss of 5 % from noise (--gsw-repeat)"
    )
    assert row_text.inconclusive_line(INCONCLUSIVE) == "within noise: throughput is 10.8 % below"
    assert row_text.inconclusive_line(varied(INCONCLUSIVE, reason="")) == "throughput is 10.8 % below"
    assert row_text.inconclusive_line(SLOW) == ""


def test_what_is_too_good_to_be_true() -> None:
    fact = row_text.verdict_fact(SLOW.figures.documented, WONDER, 2_301_530.0)
    assert fact == (
        "throughput 2,301,530 tokens/s is 900.0 % above the documented 230,153 "
        "(allowed 5 %, and no more than 25 % is believed)"
    )
    record = varied(SLOW, outcome="inconclusive", fact="throughput is 900.0 % above", log="/stage/a.log")
    assert row_text.inconclusive_text(record, WONDER) == (
        "inconclusive: throughput is 900.0 % above; that is too good to be true; look at the 4.556 s in "
        f"{record.row.baseline} (decimal point, unit, statistic last), and at what /stage/a.log says of batch, sequence "
        "length and steps; if it is true, max_gain: 901% in the table or in clusters.yaml accepts it"
    )
    several = replace(WONDER, measured=4.6, jobs=(4.6, 4.7, 0.4))
    assert "; that is too good to be true: one of its jobs took 0.4 s; look at" in (
        row_text.inconclusive_text(varied(record, log=None), several)
    )
    assert "what its log says" in row_text.inconclusive_text(varied(record, log=None), several)


def test_which_ranks_differ() -> None:
    ranks = RankSpread((("3", 3.0), ("node1:7", 2.0)), 0.9)
    verdict = replace(WONDER, measured=4.5, given_reason=Reason.RANKS_DIFFER, ranks=ranks)
    assert row_text.verdict_fact(SLOW.figures.documented, verdict, None).endswith(
        "(allowed 5 %); of its ranks, rank 3 took 3 s, node1:7 took 2 s, and their median is 0.9 s"
    )
    many = RankSpread(tuple((str(rank), 9.0) for rank in range(900)), 0.9)
    assert row_text.verdict_fact(SLOW.figures.documented, replace(verdict, ranks=many), None).endswith(
        "rank 3 took 9 s and 896 more differ, and their median is 0.9 s"
    )
    record = varied(SLOW, outcome="inconclusive", fact="4.5 s")
    assert row_text.inconclusive_text(record, verdict) == (
        "inconclusive: 4.5 s; ranks of one job wait for each other in every step, so that all take the same time: "
        "look at the nodes of these ranks, and whether its log is that of one run"
    )


def test_why_a_row_is_inconclusive_beside_a_slow_canary() -> None:
    verdict = replace(REGRESSED, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.CANARY)
    assert row_text.inconclusive_text(INCONCLUSIVE, verdict, ["all_reduce_bf16[H100x64]"]) == (
        "inconclusive: throughput is 10.8 % below; the canary all_reduce_bf16[H100x64] was too slow as well: "
        "the cluster is not in its usual state"
    )
    assert row_text.inconclusive_text(INCONCLUSIVE, verdict) == (
        "inconclusive: throughput is 10.8 % below; the canary row was too slow as well: "
        "the cluster is not in its usual state"
    )
    assert row_text.inconclusive_text(varied(INCONCLUSIVE, canary=True), verdict) == (
        "inconclusive: throughput is 10.8 % below; it is a canary: the cluster is not in its usual state, "
        "and rows that are too slow say nothing"
    )


def test_a_tile_that_is_not_decided_says_so_once() -> None:
    fact = "not decided n005: -10.3 % (-12.2 % to -8.3 %), 1 job"
    record = varied(SLOW, outcome="inconclusive", reason="not decided", fact=fact)
    assert row_text.inconclusive_line(record) == fact
