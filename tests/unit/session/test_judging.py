"""The hooks that judge a row: what they may return, and what keeps a figure from being the row's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.errors import HookError
from pytest_gsw.logs.model import Identity
from pytest_gsw.session.hook_results import check_answers, unknown_metric, unknown_metrics
from pytest_gsw.session.judging import Judge, excused, not_comparable
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import Reason, Verdict
from pytest_gsw.tables.metrics import FINAL_LOSS
from pytest_gsw.tables.model import Documented
from pytest_gsw.validation.agreement import Evidence
from pytest_gsw.validation.run import Run
from tests.unit.jobs.test_spec import spec
from tests.unit.rows import LLAMA2_FP8_X128, measured
from tests.unit.validation.ended import GOOD

SLOW = Verdict(Outcome.REGRESSED, measured=5.0, documented=4.556, tolerance=0.05)
STATED = Documented(value=1.0)


def config(**answers: object) -> Any:
    """A config whose hooks return these, or raise them."""

    def hook(answer: object) -> Any:
        def call(**_: object) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        call.get_hookimpls = list  # type: ignore[attr-defined]
        call.name = "pytest_gsw_hook"  # type: ignore[attr-defined]
        return call

    hooks = SimpleNamespace(**{f"pytest_gsw_{name}": hook(answer) for name, answer in answers.items()})
    return SimpleNamespace(hook=hooks, pluginmanager=SimpleNamespace(get_plugins=list, list_name_plugin=list))


def judge(verdict: object) -> Judge:
    return Judge(config(judge=verdict), LLAMA2_FP8_X128, None, None, {})


def decided(by: Judge) -> Verdict:
    return by.verdict(measured(5.0), None, None, None, Repeats(), 0.25, None)


def test_the_verdict_of_a_rule() -> None:
    assert decided(judge(SLOW)) == replace(SLOW, metric=LLAMA2_FP8_X128.judged_by)


@pytest.mark.parametrize("verdict", [None, True, "passed", replace(SLOW, accepted=4.0)])
def test_a_rule_that_returns_no_verdict_or_another_reference(verdict: object) -> None:
    with pytest.raises(HookError):
        decided(judge(verdict))


def test_an_excused_row_is_inconclusive_by_the_canary() -> None:
    found = excused(replace(SLOW, own_outcome=Outcome.REGRESSED))
    assert (found.outcome, found.own, found.reason) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE, Reason.CANARY)


def test_figures_of_a_trace_or_of_a_profile_are_not_the_rows(tmp_path: Path) -> None:
    run = Run("7", GOOD, tmp_path / "run.log")
    assert not_comparable(run) is None
    evidence = Evidence(tmp_path / "x.yaml", Identity(), "it was profiled", {})
    assert not_comparable(replace(run, evidence=(evidence,))) == "it was profiled"


def test_no_evidence_without_a_log() -> None:
    assert Judge(config(), LLAMA2_FP8_X128, None, None, {}).evidence_of(Run("7", GOOD, None)) == ()


def test_evidence_of_several_plugins(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path / "x.yaml", Identity())
    by = Judge(config(evidence=[[evidence], evidence]), LLAMA2_FP8_X128, None, None, {})
    assert by.evidence_of(Run("7", GOOD, tmp_path / "run.log")) == (evidence, evidence)


def test_a_metric_that_no_plugin_reads() -> None:
    row = replace(LLAMA2_FP8_X128, metrics={FINAL_LOSS.key: STATED, "power": STATED})
    assert unknown_metrics(row, {}) == ("power",)
    error = unknown_metric(row, {})
    assert error is not None
    assert "'power'" in error.fact
    assert unknown_metric(LLAMA2_FP8_X128, {}) is None


@pytest.mark.parametrize(
    "answer",
    [None, replace(spec(), row_id="other"), replace(spec(), node_list="n1")],
    ids=["none", "another row", "other nodes"],
)
def test_a_job_spec_that_is_not_the_rows(answer: object) -> None:
    with pytest.raises(pytest.UsageError):
        check_answers(config(make_job_spec=None), LLAMA2_FP8_X128, answer, None)


def test_the_job_spec_of_the_row() -> None:
    check_answers(config(make_job_spec=None), LLAMA2_FP8_X128, spec(), None)
