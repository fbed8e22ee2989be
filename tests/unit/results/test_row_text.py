"""What people read of one row, to the letter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_gsw.errors import LogError, SubmissionError
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import Outcome, Reason, Verdict
from pytest_gsw.results import row_text
from pytest_gsw.results.record import MetricFacts
from pytest_gsw.results.row_line import figures
from tests.unit.results.records import (
    AGAIN,
    BY_ACCEPTED,
    IMPROVED,
    JOB,
    NOISY,
    NOT_MEASURED,
    OFFLINE,
    PASSED_BY_ACCEPTED,
    REGRESSED,
    SAVE,
    SEVERAL,
    SLOW,
    facts,
    varied,
)

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


def test_where_the_figures_come_from_in_words() -> None:
    named = varied(SLOW, source='"Llama 2 70b", release 25.01, section "Performance"')
    lines = row_text.failure_text(named, REGRESSED, facts(named)).splitlines()
    assert "baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)" in lines
    assert 'source     "Llama 2 70b", release 25.01, section "Performance"' in lines


def test_the_limits_of_an_improvement_are_those_that_it_went_beyond() -> None:
    measured = {"step_time_s": 4.0, "tokens_per_s": 262144.0, "mfu": 0.46}
    assert row_text.figures_table(varied(SLOW, measured=measured), IMPROVED) == (
        "metric                   measured    documented    change    allowed\n"
        "step time (s)               4.000         4.556   -12.2 %     -4.8 %  improved\n"
        "throughput (tokens/s)     262,144       230,153   +13.9 %     +5.0 %  improved\n"
        "MFU                        46.0 %        40.4 %   +13.9 %             derived"
    )


def test_the_table_of_a_checkpoint_row() -> None:
    verdict = Verdict(Outcome.PASSED, measured_s=19.93, documented_s=17.96068, tolerance=0.4)
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
    memory = MetricFacts("peak_memory_gib", "peak memory", "GiB", "lower is better", 70.1, 61.2, 0.05, "regressed")
    output = MetricFacts("output", "output", "tokens/s", "higher is better", 1834.2, 1840.0, 0.02, "passed")
    table = row_text.figures_table(varied(PASSED_BY_ACCEPTED, metrics=(memory, output)), BY_ACCEPTED).splitlines()
    assert [line.split() for line in table[-2:]] == [
        ["peak", "memory", "(GiB)", "70.1", "+5.0", "%", "regressed", "61.2", "+14.5", "%"],
        ["output", "(tokens/s)", "1,834", "-2.0", "%", "passed", "1,840", "-0.3", "%"],
    ]
    documented = row_text.figures_table(varied(SLOW, metrics=(memory,)), NOISY).splitlines()[-1]
    assert documented.split() == ["peak", "memory", "(GiB)", "70.1", "61.2", "+14.5", "%", "+5.0", "%", "regressed"]


def test_a_failure_by_an_accepted_figure_names_both() -> None:
    slow = replace(BY_ACCEPTED, outcome=Outcome.REGRESSED, accepted_s=4.5)
    assert row_text.verdict_fact(SLOW.figures.documented, slow, 205200.78, "eos") == (
        "throughput 205,201 tokens/s is 11.9 % below the accepted 233,017 of eos (allowed 5 %), "
        "10.8 % below the documented 230,153"
    )
    save = Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05, accepted_s=18.5)
    assert row_text.verdict_fact(SAVE.figures.documented, save, None, "eos") == (
        "19.93 s is 7.2 % slower than the accepted 18.5 s of eos (allowed 5 %), 9.9 % slower than the documented 17.96 s"
    )


def test_the_facts_of_a_row_name_the_accepted_figure() -> None:
    found = dict(facts(PASSED_BY_ACCEPTED))
    assert found["accepted"] == "on eos 2026-11-20: 4.9 s, median of 7 jobs, spread 0.83 % (481201, 481207)"
    assert "accepted" not in dict(facts(SLOW))


def test_a_tolerance_of_everything_allows_any_time() -> None:
    verdict = Verdict(Outcome.PASSED, measured_s=5.11, documented_s=4.556, tolerance=1.0)
    assert row_text.figures_table(varied(SLOW, measured={"step_time_s": 5.11}), verdict) == (
        "metric           measured    documented    change    allowed\n"
        "step time (s)       5.110         4.556   +12.2 %        any  passed"
    )


@pytest.mark.parametrize(
    ("documented", "verdict", "tokens_per_s", "text"),
    [
        (
            SLOW.figures.documented,
            Verdict(Outcome.PASSED, 4.5, 4.556, 0.05),
            233017.0,
            "throughput 233,017 tokens/s is 1.2 % above the documented 230,153 (allowed 5 %)",
        ),
        (
            SLOW.figures.documented,
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
    job = replace(JOB, launcher="replay", state="REPLAYED", exit_code=None, nodes="", run_s=None)
    assert ("job", "replay 481221 REPLAYED") in facts(varied(SLOW, job=job))


def test_a_simulation_says_so() -> None:
    assert ("note", "this is a simulation: no GPU was used, the figures are made up") in facts(
        varied(SLOW, simulated=True)
    )


LOST = replace(JOB, id="481220", state="NODE_FAIL", exit_code=1, nodes="pool0-0017", why_repeated="node failure")
PREEMPTED = replace(JOB, id="481219", state="PREEMPTED", nodes="", why_repeated="preemption")


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


def test_noise_that_is_only_assumed_says_so() -> None:
    assert row_text.noise_text(Noise(0.0165, 0)) == (
        "its jobs are taken to differ by 1.7 % until enough of them are known"
    )


def test_the_table_shows_the_limit_in_force() -> None:
    assert "step time (s)                 5.110         4.556   +12.2 %    +13.3 %  inconclusive" in (
        row_text.figures_table(SLOW, NOISY)
    )


def test_a_figure_of_several_jobs_says_so() -> None:
    several = replace(REGRESSED, jobs_s=(5.1, 5.11, 5.2))
    assert row_text.verdict_fact(SLOW.figures.documented, several, 205200.78) == (
        "throughput 205,201 tokens/s, the median of 3 jobs, is 10.8 % below the documented 230,153 (allowed 5 %)"
    )
    save = Verdict(Outcome.REGRESSED, 19.93, 17.96068, 0.05, jobs_s=(19.9, 19.93, 20.0))
    assert row_text.verdict_fact(SAVE.figures.documented, save, None) == (
        "19.93 s, the median of 3 jobs, is 9.9 % slower than the documented 17.96 s (allowed 5 %)"
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
        REGRESSED, outcome=Outcome.INCONCLUSIVE, measured_s=4.556, steady_s=6.834, given_reason=Reason.STEPS_SLOWER
    )
    assert row_text.inconclusive_text(record, better) == (
        "inconclusive: throughput 230,153 tokens/s is 0.0 % above the documented 230,153 (allowed 5 %); a statistic is "
        "not a run (last 4.556 s, steady steps 6.834 s): look at its steps and nodes, and run it again"
    )


def test_the_facts_of_a_row_of_several_jobs() -> None:
    facts = dict(row_text.run_facts(SEVERAL, "again", "offline"))
    assert facts["job 1"] == "481220 5.2 s on pool0-[0033-0048]"
    assert facts["job 2"] == "481221 5.02 s on pool0-[0017-0032]"
    assert facts["median"] == "5.11 s; 5.02 to 5.2 s with 50 % confidence"
    assert figures(SEVERAL)[-1] == "median of 2 jobs"


def test_the_facts_of_a_row_whose_last_job_was_not_measured() -> None:
    facts = dict(row_text.run_facts(varied(SEVERAL, outcome="error", measured={}), "again", "offline"))
    assert (facts["job 1"], "job 2" in facts, "median" in facts) == ("481220 5.2 s on pool0-[0033-0048]", False, False)


def test_the_steps_of_a_run_with_warm_up_and_spikes() -> None:
    record = varied(SLOW, mean_s=5.2, spike_fraction=0.041, warm_up_steps=3)
    assert dict(row_text.run_facts(record, "again", "offline"))["steps"] == (
        "49 read, last used; median 5.1 s, mean 5.2 s, p90 5.14 s, 4.1 % spikes after 3 of warm-up"
    )


def test_steps_that_took_longer_than_their_job_ran_are_doubted() -> None:
    short = varied(SLOW, series_s=[4.0] * 50, job=replace(JOB, end_s=JOB.start_s + 30, run_s=30.0))
    assert dict(facts(short))["doubt"] == (
        "the log's steps took 3m20s, and the job ran for 30s: "
        "not all of them are this job's, or the clock in the log is wrong"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"run_s": 200.0},
        {"run_s": 181.0},  # within a tenth and the scheduler's whole seconds
        {"run_s": None},
        {"launcher": "local"},
    ],
)
def test_where_log_and_scheduler_may_agree_nothing_is_doubted(changes: dict[str, Any]) -> None:
    record = varied(SLOW, series_s=[4.0] * 50, job=replace(JOB, **{"run_s": 30.0, **changes}))
    assert "doubt" not in dict(facts(record))


def test_what_takes_no_time_of_its_own_is_not_doubted() -> None:
    short = varied(SLOW, series_s=[4.0] * 50, job=replace(JOB, run_s=30.0))
    for record in (
        varied(short, simulated=True),
        varied(short, metric="calibrated_step_time"),
        varied(short, series_s=[]),
        varied(short, job=None),
    ):
        assert "doubt" not in dict(facts(record))
