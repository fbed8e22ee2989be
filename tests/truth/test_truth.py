"""The comparator on logs whose truth is known: right where it is, and wrong wherever it is made wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import Identity, LogFormat, StepLog
from pytest_gsw.logs.reader import read_log
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import Verdict, verdict_of
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation import checks
from pytest_gsw.validation.measure import measure
from pytest_gsw.validation.run import Run
from tests.truth import examine
from tests.truth.cases import cases
from tests.truth.model import Case, Expected
from tests.truth.rows import rows_of
from tests.unit.rows import LLAMA2_FP8_X128
from tests.writers import ALL_WRITERS, TRAININGS

Patch = Callable[[pytest.MonkeyPatch], None]


@cache
def few(seed: int) -> Sequence[Case]:
    """Cases of one row of each format, and of one whose steps the table states where the documents do not."""
    rows: dict[object, Baseline] = {}
    for row in rows_of(str(seed)):
        rows.setdefault((row.workload.log_format, row.criterion.metric, row.recipe.steps is None), row)
    return [*cases(seed, rows.values())]


def wrong(results: examine.Results) -> list[tuple[Case, str]]:
    return [(case, got) for case, got in results if got is not None]


def kind(case: Case) -> str:
    """What was done in a case: ``nan`` of ``maxtext-12-nan``."""
    return case.name.split("-", 2)[2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 4])
def test_everything_comes_out_right(seed: int) -> None:
    results = examine.examine(cases(seed))
    assert wrong(results) == []
    assert len(results) > 1000
    assert {*ALL_WRITERS} == {*FORMATS}  # those of benchmarks: tests/unit/demo/test_benchmarks.py
    for log_format in TRAININGS:
        rows_of_format = [case.baseline.id for case, _ in results if case.baseline.workload.log_format == log_format]
        assert len(set(rows_of_format)) >= 2
        assert len(rows_of_format) >= 70


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [2, 3, 20261120])
def test_every_seed_comes_out_right(seed: int) -> None:
    results = examine.examine(few(seed))
    assert wrong(results) == []
    assert len(results) > 250


def test_every_demo_fault_of_a_log_and_every_format_has_a_case() -> None:
    found = few(1)
    names = {*map(kind, found)}
    assert {"untouched", "less-within", "less-beyond", "less-far", "more-within", "more-beyond", "more-far"} <= names
    assert {"more-unbelieved", "decimal", "less-in-noise", "last-alone"} <= names
    assert {"skipped", "no-loss", "diverged-then", "loss-falls", "loss-stays"} <= names
    assert {"nan", "short", "truncated", "other-model-size", "empty", "no-log", "no-steps", "other-format"} <= names
    assert {"other-sequence-length", "other-layers", "other-precision", "other-parallelism"} <= names
    assert {"then-cut", "resumed", "step-inf", "zero", "mfu", "few", "cut"} <= names
    assert {"fail", "oom", "oom-kill", "oom-kill-lost", "stall"} <= names
    assert {case.baseline.workload.log_format for case in found} == set(TRAININGS)
    outcomes = {case.expected.outcome for case in found}
    assert outcomes == {"passed", "improved", "regressed", "inconclusive", "not measured"}


# ---- A comparator that is wrong on purpose --------------------------------------------------------


def _judge(change: Callable[[Baseline, Measurement, float], Outcome]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(baseline: Baseline, measurement: Measurement, tolerance: float, noise: Noise | None) -> Verdict:
            right = verdict_of(baseline, measurement, tolerance, noise=noise)
            return replace(right, outcome=change(baseline, measurement, tolerance))

        monkeypatch.setattr(examine, "verdict_of", wrong)

    return patch


def _a_hair_lenient(baseline: Baseline, measurement: Measurement, tolerance: float) -> Outcome:
    return verdict_of(baseline, measurement, tolerance * 1.02).outcome


def _read(change: Callable[[StepLog], StepLog]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "read_log", lambda path, log_format: change(read_log(path, log_format)))

    return patch


def _cut_lines_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, log_format: LogFormat) -> StepLog:
        with path.open("ab") as file:
            file.write(b" \n" if path.stat().st_size else b"")
        return read_log(path, log_format)

    monkeypatch.setattr(checks, "read_log", read)


_no_identity = _read(lambda log: replace(log, identity=Identity()))


def _no_job_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "check_job", lambda _: None)


def _any_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(baseline: Baseline, run: Run, log: StepLog, **facts: Any) -> Measurement:
        return measure(
            replace(baseline, criterion=replace(baseline.criterion, min_steps=1)), run, log, **{**facts, "steps": None}
        )

    monkeypatch.setattr(examine, "measure", careless)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("patch", "caught"),
    [
        (
            _judge(lambda *_: Outcome.PASSED),
            {"less-beyond", "less-far", "more-beyond", "then-slow", "more-unbelieved", "decimal", "last-alone"},
        ),
        (_judge(lambda *_: Outcome.REGRESSED), {"untouched", "less-within", "more-within", "more-far", "slow-then"}),
        (_judge(_a_hair_lenient), {"less-beyond", "more-beyond"}),
        (_no_identity, {"other-model-size", "other-job", "other-GPUs", "other-sequence-length", "other-precision"}),
        (_cut_lines_count, {"truncated", "digit"}),
        (_any_number_of_steps, {"short", "few", "then-cut"}),
        (_no_job_check, {"fail", "oom-kill", "stall"}),
    ],
    ids=[
        "everything passes",
        "everything regresses",
        "a hair too lenient",
        "the log says nothing of itself",
        "lines that are cut count",
        "steps are not checked",
        "the job is not checked",
    ],
)
def test_a_wrong_comparator_is_caught(patch: Patch, caught: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)
    results = examine.examine(case for case in few(1) if kind(case) in caught)
    assert {kind(case) for case, _ in wrong(results)} == caught


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
    assert (
        examine.examine_case(case, tmp_path)
        == "not measured, IncompleteLogError: the log is empty: maxtext-1-empty.log"
    )
    right = replace(case, expected=Expected("not measured", facts=("the log is empty: *",)))
    assert examine.examine_case(right, tmp_path) is None
    assert examine.examine_case(replace(right, expected=Expected("passed", judged=4.5, steps=50)), tmp_path) is not None
