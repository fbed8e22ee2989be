"""The comparator on logs whose truth is known: right where it is, and wrong wherever it is made wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.demo.writers import WRITERS
from pytest_gsw.logs import reader
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import Identity, LogFormat, StepLog
from pytest_gsw.logs.reader import read_log
from pytest_gsw.logs.scan import LogFile
from pytest_gsw.logs.steps import OnePrinter
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import Outcome, Verdict, judge
from pytest_gsw.runs import checks
from pytest_gsw.runs.measure import measure
from pytest_gsw.runs.run import Run
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from tests.truth import cases, examine, rows
from tests.truth.model import Case, Expected, Report
from tests.unit.rows import LLAMA2_FP8_X128

Patch = Callable[[pytest.MonkeyPatch], None]


@cache
def _bundled() -> tuple[Baseline, ...]:
    return tuple(load_tables([bundled_baselines()]))


@pytest.fixture
def one_row_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of each format, and one whose steps the table states where the documents do not."""
    monkeypatch.setattr(rows, "load_tables", _bundled)

    def few(seed: str) -> Iterator[Baseline]:
        seen = set()
        for row in rows.rows_of(seed):
            kind = row.log_format, row.metric, row.recipe.steps is None
            if kind not in seen:
                seen.add(kind)
                yield row

    monkeypatch.setattr(cases, "rows_of", few)


def kinds(report: Report) -> set[str]:
    """What was done in the cases that came out wrong: ``nan`` of ``maxtext-12-nan``."""
    return {wrong.case.name.split("-", 2)[2] for wrong in report.wrong}


def test_everything_comes_out_right() -> None:
    report = examine.examine(1)
    assert report.wrong == ()
    assert report.right == report.cases > 2000
    for log_format in WRITERS:
        of_format = [tally for tally in report.tallies if tally.log_format == log_format]
        assert sum(tally.rows for tally in of_format) >= 2
        assert sum(tally.cases for tally in of_format) >= 140
    assert not [one for one in report.unchecked if one.what in {"all of it", "a log that ends early"}]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [2, 3, 20261120])
def test_every_seed_comes_out_right(seed: int, one_row_of_each: None) -> None:
    report = examine.examine(seed, rounds=1)
    assert report.wrong == ()
    assert report.cases == report.right > 250


def test_a_seed_is_a_set_of_logs(one_row_of_each: None) -> None:
    def logs(seed: int) -> list[Any]:
        return [(case.name, case.log) for case in cases.cases(seed, rounds=1) if isinstance(case, Case)]

    first = logs(1)
    assert first == logs(1)
    assert first != logs(2)
    assert len({name for name, _ in first}) == len(first)


def test_every_demo_fault_of_a_log_and_every_format_has_a_case(one_row_of_each: None) -> None:
    found = [case for case in cases.cases(1, rounds=1) if isinstance(case, Case)]
    names = {case.name.split("-", 2)[2] for case in found}
    assert {"untouched", "less-within", "less-beyond", "less-far", "more-within", "more-beyond", "more-far"} <= names
    assert {"more-unbelieved", "decimal", "less-in-noise", "last-alone"} <= names
    assert {"skipped", "no-loss", "diverged-then", "loss-falls", "loss-stays"} <= names
    assert {"nan", "short", "truncated", "other-model-size", "empty", "no-log", "no-steps", "other-format"} <= names
    assert {"other-sequence-length", "other-layers", "other-precision", "other-parallelism"} <= names
    assert {
        "then-cut",
        "resumed",
        "step-inf",
        "zero",
        "mfu",
        "few",
        "cut",
        "fail",
        "oom",
        "oom-kill",
        "oom-kill-lost",
        "stall",
    } <= names
    assert {case.baseline.log_format for case in found} == set(WRITERS)
    outcomes = {case.expected.outcome for case in found}
    assert outcomes == {"passed", "improved", "regressed", "inconclusive", "not measured"}


# ---- A comparator that is wrong on purpose --------------------------------------------------------


def _judge(change: Callable[[Baseline, Measurement, float], Outcome]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(baseline: Baseline, measurement: Measurement, tolerance: float, noise: Noise | None) -> Verdict:
            right = judge(baseline, measurement, tolerance, noise=noise)
            return replace(right, outcome=change(baseline, measurement, tolerance))

        monkeypatch.setattr(examine, "judge", wrong)

    return patch


def _tolerance_on_time(baseline: Baseline, measurement: Measurement, tolerance: float) -> Outcome:
    change = measurement.judged_s / (baseline.judged_s or 0) - 1
    if change > tolerance:
        return Outcome.REGRESSED
    return Outcome.IMPROVED if change < -tolerance else Outcome.PASSED


def _a_hair_lenient(baseline: Baseline, measurement: Measurement, tolerance: float) -> Outcome:
    return judge(baseline, measurement, tolerance * 1.02).outcome


def _read(change: Callable[[StepLog], StepLog]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "read_log", lambda path, log_format: change(read_log(path, log_format)))

    return patch


def _last_step_lost(log: StepLog) -> StepLog:
    return replace(log, steps=log.steps[:-1] or log.steps, checkpoint_saves_s=log.checkpoint_saves_s[:-1])


def _first_step_for_last(log: StepLog) -> StepLog:
    return replace(log, steps=log.steps[1:] + log.steps[:1])


def _cut_lines_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, log_format: LogFormat) -> StepLog:
        with path.open("ab") as file:
            file.write(b" \n" if path.stat().st_size else b"")
        return read_log(path, log_format)

    monkeypatch.setattr(checks, "read_log", read)


def _all_attempts_count(monkeypatch: pytest.MonkeyPatch) -> None:
    add = OnePrinter.add

    def added(self: OnePrinter, record: Any) -> bool:
        before = dict(self._steps)
        restarted = add(self, record)
        self._steps = {**before, **self._steps}
        return restarted

    monkeypatch.setattr(OnePrinter, "add", added)


def _a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "recipe_line", lambda _: None)


_no_identity = _read(lambda log: replace(log, identity=Identity()))


def _no_job_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "check_job", lambda _: None)


def _no_loss_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "loss_problem", lambda *_: None)


def _any_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(baseline: Baseline, run: Run, log: StepLog, **facts: Any) -> Measurement:
        return measure(replace(baseline, min_steps=1), run, log, **{**facts, "steps": None})

    monkeypatch.setattr(examine, "measure", careless)


def _no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlimited(baseline: Baseline, run: Run, log: StepLog, **facts: Any) -> Measurement:
        return measure(baseline, run, log, **{**facts, "peak_flops": None})

    monkeypatch.setattr(examine, "measure", unlimited)


def _crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_: Path) -> LogFile:
        raise KeyError("step")

    monkeypatch.setattr(checks, "open_log", opened)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("patch", "caught"),
    [
        (
            _judge(lambda *_: Outcome.PASSED),
            {
                "less-beyond",
                "less-far",
                "more-beyond",
                "then-slow",
                "more-unbelieved",
                "decimal",
                "less-in-noise",
                "last-alone",
            },
        ),
        (_judge(lambda *_: Outcome.REGRESSED), {"untouched", "less-within", "more-within", "more-far", "slow-then"}),
        (_judge(_tolerance_on_time), {"less-within"}),
        (_judge(_a_hair_lenient), {"less-beyond", "more-beyond"}),
        (_read(_last_step_lost), {"untouched", "slow-then"}),
        (_read(_first_step_for_last), {"untouched"}),
        (_read(lambda log: replace(log, not_finite=None)), {"nan"}),
        (_no_identity, {"other-model-size", "other-job", "other-GPUs", "other-sequence-length", "other-precision"}),
        (_cut_lines_count, {"truncated", "digit"}),
        (_all_attempts_count, {"then-cut"}),
        (_a_run_goes_on, {"resumed"}),
        (_no_loss_is_looked_at, {"no-loss", "loss-stays"}),
        (_any_number_of_steps, {"short", "few", "then-cut"}),
        (_no_job_check, {"fail", "oom-kill", "stall"}),
        (_no_peak, {"mfu"}),
        (_crash, {"untouched", "empty", "short"}),
    ],
    ids=[
        "everything passes",
        "everything regresses",
        "tolerance on time",
        "a hair too lenient",
        "the last step is lost",
        "the first step is the last",
        "NaN is not seen",
        "the log says nothing of itself",
        "lines that are cut count",
        "all attempts count",
        "a resumed run's earlier steps count",
        "the loss is not looked at",
        "steps are not checked",
        "the job is not checked",
        "no peak is known",
        "the reader crashes",
    ],
)
def test_a_wrong_comparator_is_caught(
    patch: Patch, caught: set[str], monkeypatch: pytest.MonkeyPatch, one_row_of_each: None
) -> None:
    patch(monkeypatch)
    report = examine.examine(1, rounds=1)
    assert caught <= kinds(report)
    assert report.right == report.cases - len(report.wrong)


def test_a_crash_is_a_finding(monkeypatch: pytest.MonkeyPatch, one_row_of_each: None) -> None:
    _crash(monkeypatch)
    report = examine.examine(1, rounds=1)
    assert {wrong.got for wrong in report.wrong} == {"KeyError: 'step'"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("log_format", WRITERS)
def test_a_wrong_reader_of_any_format_is_caught(
    log_format: str, monkeypatch: pytest.MonkeyPatch, one_row_of_each: None
) -> None:
    class Wrong:
        """Reads every second step only."""

        def __getattr__(self, name: str) -> Any:
            return getattr(FORMATS[log_format], name)

        def reader(self) -> Any:
            parser: Any = FORMATS[log_format].reader()
            read = parser.log

            def halved() -> StepLog:
                log: StepLog = read()
                return replace(log, steps=log.steps[1::2], checkpoint_saves_s=log.checkpoint_saves_s[1::2])

            parser.log = halved
            return parser

    monkeypatch.setattr(examine, "FORMATS", {**FORMATS, log_format: Wrong()})
    report = examine.examine(1, rounds=1)
    assert "untouched" in kinds(report)
    assert {wrong.case.baseline.log_format for wrong in report.wrong} == {log_format}
    for tally in report.tallies:
        assert (tally.right == tally.cases) == (tally.log_format != log_format)


def test_an_error_of_another_kind_is_wrong(tmp_path: Path) -> None:
    case = Case(
        "maxtext-1-empty",
        LLAMA2_FP8_X128,
        1,
        "the log is empty",
        b"",
        Expected("not measured", facts=("no maxtext step times in the log: *",)),
        "481221",
    )
    assert examine._examine(case, tmp_path) == "not measured, LogError: the log is empty: maxtext-1-empty.log"
    right = replace(case, expected=Expected("not measured", facts=("the log is empty: *",)))
    assert examine._examine(right, tmp_path) is None
    assert examine._examine(replace(right, expected=Expected("passed", judged_s=4.5, steps=50)), tmp_path) is not None


def test_the_expected_time_counts_not_the_outcome_alone(monkeypatch: pytest.MonkeyPatch, one_row_of_each: None) -> None:
    def slower(baseline: Baseline, run: Run, log: StepLog, **facts: Any) -> Measurement:
        found = measure(baseline, run, log, **facts)
        return replace(found, judged_s=found.judged_s * 1.012)

    monkeypatch.setattr(examine, "measure", slower)
    report = examine.examine(1, rounds=1)
    untouched = [wrong for wrong in report.wrong if wrong.case.name.endswith("-untouched")]
    assert {wrong.case.baseline.log_format for wrong in untouched} == set(WRITERS)
    assert all(wrong.got.startswith("passed, ") for wrong in untouched)
