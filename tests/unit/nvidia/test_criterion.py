"""The certification's criterion over a suite."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.jobs.model import JobState
from pytest_gsw.nvidia.suite import CaseResult as Case
from pytest_gsw.nvidia.suite import CaseRun, Conclusion
from pytest_gsw.nvidia.suite import conclusions_of as conclude
from pytest_gsw.nvidia.suite import table as lines
from pytest_gsw.results.record import Record
from pytest_gsw.stats.verdict import Outcome, Reason, Verdict
from tests.unit.results.records import JOB, SLOW

RELEASES = ("26.06", "26.08")


def record(*jobs_s: float, outcome: Outcome = Outcome.PASSED, said: str = "26.08", **facts: object) -> Record:
    """A record of jobs that took so long, where 100 s are documented."""
    measured_s = sorted(jobs_s)[len(jobs_s) // 2]
    verdict = Verdict(outcome, measured_s, 100.0, 0.05, jobs_s=jobs_s)
    jobs = [replace(JOB, id=str(number), judged_s=job_s) for number, job_s in enumerate(jobs_s)]
    return replace(
        SLOW,
        outcome=outcome.value,
        verdict=replace(verdict, **facts),  # type: ignore[arg-type]
        jobs=replace(SLOW.jobs, last=jobs[-1], repeats=tuple(jobs[:-1]), attempts=()),
        figures=replace(SLOW.figures, measured={"step_time_s": measured_s}),
        run=replace(SLOW.run, compared={"release": said} if said else {}),
    )


def case(*records: Record | None, name: str = "llama3.1_70b fp8", releases: tuple[str, ...] = RELEASES) -> Case:
    runs = tuple(CaseRun(100.0, releases, one) for one in records)
    return Case("H100", name, "a row" if runs else "none", "" if runs else "no figure", runs)


def concluded(*cases: Case) -> Conclusion:
    (conclusion,) = conclude(cases)
    return conclusion


def test_it_is_met_by_more_than_95_percent_in_every_case() -> None:
    conclusion = concluded(case(record(105.2)), case(record(99.0), name="qwen3_235b bf16"))
    assert conclusion.is_met
    assert conclusion.text == "H100: met by 2 of 2 cases, release 26.08"


@pytest.mark.parametrize("step_s", [100 / 0.95, 100 / 0.95 - 1e-13, 105.3, 112.0])
def test_95_percent_is_not_more(step_s: float) -> None:
    conclusion = concluded(case(record(step_s)), case(record(99.0), name="qwen3_235b bf16"))
    assert not conclusion.is_met
    assert conclusion.is_missed
    assert conclusion.text == "H100: not met: 1 of 2 cases reached it; 1 not reached"


def test_an_accepted_figure_and_a_tolerance_change_nothing() -> None:
    """A slow cluster may accept 112 s for itself, and a row of 12 % less may pass by its tolerance."""
    assert case(record(112.0, accepted_s=112.0, tolerance=0.2)).why_not == "not reached"
    # A fast one may accept 90 s: 97 s are a regression for it, and 103 % of the figure.
    assert case(record(97.0, outcome=Outcome.REGRESSED, accepted_s=90.0)).why_not == ""


def test_a_rule_of_a_site_changes_no_figure() -> None:
    """It may hold a row against a figure of its own, and call what it likes the measured time."""
    assert case(record(112.0, documented_s=300.0)).why_not == "not reached"
    assert case(record(112.0, measured_s=98.0)).why_not == "not reached"


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (None, "not run"),
        (record(50.0, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.TOO_GOOD), "too good to be true"),
        (record(98.0, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.RANKS_DIFFER), "ranks differ"),
        (replace(record(98.0), outcome="error", verdict=None), "not measured: error"),
        (replace(record(98.0), outcome="profiled"), "not measured: profiled"),
        (replace(record(98.0), not_comparable="mbridge_args"), "not comparable"),
    ],
)
def test_what_is_not_known_has_not_reached_it(one: Record | None, why: str) -> None:
    found = case(one)
    assert found.why_not == why
    assert not concluded(found).is_met
    assert not concluded(found).is_missed


def test_a_case_without_a_row_has_not_reached_it() -> None:
    assert concluded(case(), case(record(98.0))).text == "H100: not met: 1 of 2 cases reached it; 1 no figure"


def test_of_several_rows_the_worst_counts() -> None:
    assert case(record(98.0), record(110.0), record(99.0)).why_not == "not reached"
    assert case(record(98.0), None).why_not == "not run"


def test_the_median_of_all_jobs_counts_and_the_best_is_named() -> None:
    conclusion = concluded(case(record(110.0, 101.0, 108.0, outcome=Outcome.REGRESSED)))
    assert lines([conclusion]) == [
        "case                   figure      throughput    first job    best job    jobs  criterion",
        "H100 llama3.1_70b fp8  a row           92.6 %       90.9 %      99.0 %       3  not reached",
        "",
        "criterion: > 95 % of the figure for each workload of the suite, one release for all",
        "H100: not met: 0 of 1 case reached it; 1 not reached",
        "reached by its best job alone, which is a passing run, and not counted: H100 llama3.1_70b fp8 (99.0 %)",
    ]


def test_jobs_that_failed_are_counted() -> None:
    of = record(98.0)
    cancelled = replace(JOB, id="6", state=JobState.CANCELLED, why_repeated="its session ended early")
    failed = (cancelled, replace(JOB, id="7", why_repeated="node failure"))
    (_, row, *_) = lines([concluded(case(replace(of, jobs=replace(of.jobs, attempts=failed))))])
    assert row.endswith("3 (1 failed)  reached")


@pytest.mark.parametrize(
    ("other", "releases", "why"),
    [
        ("26.06", RELEASES, "the runs are not of the same release"),
        ("26.07", RELEASES, "1 run is of no known release, by log and table"),
        ("", RELEASES, "1 run is of no known release, by log and table"),
        ("26.08", (), "1 run is of no known release, by log and table"),
    ],
)
def test_runs_must_be_known_to_be_of_one_release(other: str, releases: tuple[str, ...], why: str) -> None:
    conclusion = concluded(case(record(98.0)), case(record(98.0, said=other), name="other", releases=releases))
    assert not conclusion.is_met
    assert conclusion.text == f"H100: not met: 2 of 2 cases reached it; {why}"


def test_a_container_is_a_release_of_its_figures() -> None:
    of = record(98.0, said="")
    in_container = replace(of, run=replace(of.run, compared={"container": "nemo:26.04.01"}))
    assert concluded(case(in_container, releases=("nemo:26.04.01",))).text.endswith("release nemo:26.04.01")
    assert not concluded(case(in_container, releases=("nemo:26.06",))).is_met


def test_each_accelerator_has_its_own() -> None:
    found = conclude([case(record(98.0)), replace(case(None), accelerator="B200")])
    assert [one.is_met for one in found] == [True, False]
