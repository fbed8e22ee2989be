"""``--gsw-acceptance``: the plan is read before anything is collected, and is that of the run."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from pytest_gsw.session.settings import Settings
from tests.integration.test_options import begin, settings
from tests.messages import wording

PLAN = """\
acceptance: demo
nodes: n[01-16]
stages:
  - name: short
    rows: llama3 and H100x8
    marks: gsw(gpus=8)
criteria: {within: 4 %}
"""


@pytest.fixture
def plan(pytester: pytest.Pytester) -> Path:
    path = pytester.path / "plan.yaml"
    path.write_text(PLAN)
    return path


@pytest.mark.parametrize("argument", ["--gsw-tile=node", "--gsw-find", "--gsw-suite=x.yaml", "--gsw-replay=."])
def test_what_a_plan_excludes(pytester: pytest.Pytester, plan: Path, argument: str) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml", argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = argument.partition("=")[0]
    result.stderr.fnmatch_lines([f"ERROR: {wording('plan excludes', option=name)}", wording("plan or option")])


def test_a_plan_needs_a_cluster(pytester: pytest.Pytester, plan: Path) -> None:
    result = pytester.runpytest("--gsw-acceptance=plan.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {wording('plan needs a cluster')}"])


def test_all_faults_of_a_plan_come_at_once(pytester: pytest.Pytester, plan: Path) -> None:
    content = PLAN.replace("and H100x8", "and").replace("gpus=8", "gpus==8").replace("n[01-16]", "n[01-16],n3,n03")
    plan.write_text(content.replace("4 %", "400 %"))
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: *plan.yaml: 4 problems",
            "  *plan.yaml:2:8 *nodes: n03 is there twice",
            "  *plan.yaml:5:11 *stages[[]0].rows: is no expression: llama3 and: at column 11: expected *",
            "  *plan.yaml:6:12 *stages[[]0].marks: is no expression: gsw(gpus==8): *",
            "  *plan.yaml:7:20 *criteria.within: got '400 %', wanted *",
        ]
    )


@pytest.mark.parametrize("expression", ["(" * 900, "not " * 240 + "a", "(" * 400 + "a" + ")" * 400])
def test_an_expression_may_be_nested_too_deeply(pytester: pytest.Pytester, plan: Path, expression: str) -> None:
    plan.write_text(PLAN.replace("llama3 and H100x8", expression))
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml", "--collect-only")
    faults = [line for line in result.errlines if ":5:11" in line]
    assert faults or result.ret != pytest.ExitCode.INTERNAL_ERROR
    assert not [line for line in result.errlines if "Traceback" in line]


def judged(pytester: pytest.Pytester, *arguments: str) -> Settings:
    """The settings of a session with these options."""
    facts = settings(pytester, *arguments)
    return Settings(**{name: facts[name] for name in Settings.__dataclass_fields__})


def test_the_plans_tolerance_is_the_sessions(pytester: pytest.Pytester, plan: Path) -> None:
    accepts = ("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml")
    pytester.makeini("[pytest]\ngsw_tolerance = 7%\n")
    found = judged(pytester, *accepts)
    assert found.acceptance is not None
    assert (found.acceptance.name, found.judging.tolerance) == ("demo", 0.04)
    assert judged(pytester, *accepts, "--gsw-tolerance=3%").judging.tolerance == 0.03
    plan.write_text(PLAN.replace("within: 4 %", "goodput: 95%").replace("marks: gsw(gpus=8)", "for: 3h"))
    assert judged(pytester, *accepts).judging.tolerance == 0.07


def test_a_resumed_run_keeps_its_plan(pytester: pytest.Pytester, plan: Path) -> None:
    begin(pytester, "--gsw-cluster=demo", "--gsw-acceptance=plan.yaml")
    resumed = judged(pytester, "--gsw-resume=night")
    assert resumed.acceptance is not None
    assert (resumed.acceptance.path, resumed.judging.tolerance) == (plan, 0.04)
    with pytest.raises(pytest.UsageError, match=f"^{wording('plan excludes', option='--gsw-tile')}"):
        judged(pytester, "--gsw-resume=night", "--gsw-tile=node")
    plan.write_text(PLAN.replace("4 %", "5 %"))
    was, now = (hashlib.sha256(text.encode()).hexdigest() for text in (PLAN, plan.read_text()))
    message = re.escape(wording("plan has changed", path=plan, was=was, now=now))
    with pytest.raises(pytest.UsageError, match=f"^{message}\nnext: "):
        judged(pytester, "--gsw-resume=night")


def test_a_run_without_a_plan_gets_none(pytester: pytest.Pytester, plan: Path) -> None:
    begin(pytester, "--gsw-cluster=demo")
    pytester.makeini("[pytest]\ngsw_acceptance = plan.yaml\n")
    assert judged(pytester, "--gsw-resume=night").acceptance is None
    with pytest.raises(pytest.UsageError, match=f"^{wording('run without a plan')}\nnext: leave "):
        judged(pytester, "--gsw-resume=night", "--gsw-acceptance=plan.yaml")
