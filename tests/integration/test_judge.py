"""A log judged by itself: ``pytest_gsw.judge()``, and ``gsw_judge`` in a suite of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw import LogError, judge
from pytest_gsw.errors import ConfigurationError, HookError
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import junit, tiny_table
from tests.integration.test_one_verdict import EVIDENCE, LINE, READ, ROW

SUITE = f'''
"""Acceptance checks of a site that has no judge of its own."""

import pathlib

import pytest

ROW = "{ROW}"
LOGS = pathlib.Path(__file__).parent / "logs"


@pytest.fixture
def accepted(gsw_judge):
    def run(name, **options):
        return gsw_judge(LOGS / name, ROW, baselines=["tiny.yaml"], **options)

    return run


def test_good(accepted):
    verdict = accepted("good.log")
    assert verdict.outcome.word == "passed"
    assert (verdict.verdict.measured, verdict.verdict.metric.unit) == (1.0, "s")


@pytest.mark.parametrize("name", ["slow", "impossible", "traced", "short", "nan"])
def test_bad(accepted, name):
    accepted(f"{{name}}.log")


def test_looked_at(accepted):
    verdict = accepted("slow.log", check=False)
    assert verdict.outcome.word == "regressed"
'''
#: By log, what its name is made of: seconds of a step, steps, last loss; and the outcome.
LOGS = {
    "good": (1.0, 20, "7.0", "passed"),
    "slow": (1.2, 20, "7.0", "regressed"),
    "impossible": (0.1, 20, "7.0", "inconclusive"),
    "traced": (1.0, 20, "7.0", "profiled"),
    "short": (1.0, 4, "7.0", "error"),
    "nan": (1.0, 20, "nan", "error"),
}
TRACED = EVIDENCE.format("[Evidence(log, Identity(), not_comparable='it was traced')] if 'traced' in log.name else []")


@pytest.fixture
def logs(pytester: pytest.Pytester) -> Path:
    """A site's table and logs, and the rule of its conftest.py."""
    row = "gpus: 8, step_time_s: 1.000, metrics: {mem_gib: {value: 60}}, line: 10"
    (pytester.path / "tiny.yaml").write_text(tiny_table(row))
    pytester.makeconftest(TRACED + READ.format(60))
    directory = pytester.mkdir("logs")
    for name, (seconds, steps, last, _) in LOGS.items():
        losses = ["9.0"] * (steps - 1) + [last]
        lines = [LINE.format(step=step, seconds=seconds, loss=loss) for step, loss in enumerate(losses)]
        (directory / f"{name}.log").write_text("".join(lines))
    return directory


def test_a_suite_of_others_has_the_properties_of_rows(pytester: pytest.Pytester, logs: Path) -> None:
    pytester.makepyfile(test_acceptance=SUITE)
    result = pytester.runpytest("test_acceptance.py", "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, failed=5)
    assert not (pytester.path / ".gsw").exists()
    cases = junit(pytester.path / "junit.xml")
    found = {name: {one.get("name"): one.get("value") for one in case.iter("property")} for name, case in cases.items()}
    assert {name: of_test["gsw_outcome"] for name, of_test in found.items()} == {
        "test_good": "passed",
        "test_looked_at": "regressed",
        **{f"test_bad[{name}]": outcome for name, (*_, outcome) in LOGS.items() if name != "good"},
    }
    assert found["test_looked_at"]["gsw_row"] == found["test_bad[nan]"]["gsw_row"] == ROW
    for name, test in {"good": "test_good", "slow": "test_looked_at"}.items():
        pytester.runpytest(f"--gsw-replay=logs/{name}.log", "tiny.yaml", "--junitxml=replay.xml")
        row = {one.get("name"): one.get("value") for one in junit(pytester.path / "replay.xml")[ROW].iter("property")}
        row["gsw_log"] = str(logs / f"{name}.log")
        assert found[test] == row


def test_the_text_of_a_failure_is_that_of_a_row(pytester: pytest.Pytester, logs: Path) -> None:
    pytester.makepyfile(test_acceptance=SUITE)
    result = pytester.runpytest("test_acceptance.py", "-k", "slow or nan")
    result.stdout.fnmatch_lines(["*throughput*16.7 % below the documented*", f"log*{logs / 'slow.log'}"])
    result.stdout.fnmatch_lines(["*LogError*", f"E*log*{logs / 'nan.log'}*", "*test_acceptance.py:*LogError*"])


def test_the_session_of_the_suite_gives_table_cluster_and_limits(pytester: pytest.Pytester, logs: Path) -> None:
    settings = "{scheduler: slurm, accelerator: H100, gpus_per_node: 8, stage: logs, tolerance: 30%}"
    (pytester.path / "clusters.yaml").write_text(f"clusters: {{ours: {settings}}}\n")
    pytester.makepyfile(test_slow=f"def test_slow(gsw_judge):\n    gsw_judge('logs/slow.log', '{ROW}')\n")
    options = ("test_slow.py", "--gsw-baselines=tiny.yaml")
    pytester.runpytest(*options).assert_outcomes(failed=1)
    pytester.runpytest(*options, "--gsw-cluster=ours").assert_outcomes(passed=1)


def test_a_strict_site_fails_what_is_too_fast(pytester: pytest.Pytester, logs: Path) -> None:
    (logs / "good.log").write_text((logs / "good.log").read_text().replace("seconds: 1.0", "seconds: 0.9"))
    call = f"gsw_judge('logs/good.log', '{ROW}', baselines=['tiny.yaml'])"
    pytester.makepyfile(f"def test_it(gsw_judge):\n    assert {call}.outcome.word == 'improved'\n")
    pytester.runpytest().assert_outcomes(passed=1)
    (pytester.path / "clusters.yaml").write_text("defaults: {strict: true}\n")
    pytester.runpytest().assert_outcomes(failed=1)


def test_files_of_nvidias_launchers_count_in_a_suite_of_others(pytester: pytest.Pytester, logs: Path) -> None:
    (logs / "log-maxtext_tiny_1b_8_77.out").write_text((logs / "good.log").read_text())
    (logs / "llmb-config_77.yaml").write_text("job_info:\n  job_id: '77'\n  profile_enabled: true\n")
    call = f"gsw_judge('logs/log-maxtext_tiny_1b_8_77.out', '{ROW}', baselines=['tiny.yaml'], check=False)"
    pytester.makepyfile(f"def test_it(gsw_judge):\n    assert {call}.outcome.word == 'profiled'\n")
    pytester.runpytest().assert_outcomes(passed=1)


def test_judge_returns_a_verdict_with_units(logs: Path) -> None:
    judged = judge(logs / "slow.log", ROW, baselines=["tiny.yaml"])
    assert (judged.outcome.word, judged.status, judged.reason) == ("regressed", 1, "slower than allowed")
    assert (judged.verdict.measured, judged.verdict.documented, judged.verdict.metric.unit) == (1.2, 1.0, "s")
    (row,) = load_table(Path("tiny.yaml"))
    good = judge(logs / "good.log", row)
    assert (good.outcome.word, good.status, good.text) == ("passed", 0, "")


def test_a_log_that_may_not_be_judged_raises_with_evidence(logs: Path) -> None:
    with pytest.raises(LogError) as caught:
        judge(logs / "nan.log", ROW, baselines=["tiny.yaml"])
    evidence = dict(caught.value.evidence)
    assert evidence["log"].startswith(f"{logs / 'nan.log'}:20")
    assert "job" not in evidence
    with pytest.raises(LogError):
        judge(logs / "gone.log", ROW, baselines=["tiny.yaml"])
    with pytest.raises(ConfigurationError, match="tiny_1b_bf16"):
        judge(logs / "good.log", "tiny_1b_bf16[H100x9]", baselines=["tiny.yaml"])
    with pytest.raises(ConfigurationError, match="nowhere"):
        judge(logs / "good.log", ROW, baselines=["tiny.yaml"], cluster="nowhere")


def test_the_rule_of_hooks_has_another_name(pytester: pytest.Pytester, logs: Path) -> None:
    pytester.makeconftest(
        "import pytest_gsw\ndef pytest_gsw_judge(baseline, measurement, tolerance, noise):\n"
        "    return pytest_gsw.judge(baseline, measurement, tolerance, noise=noise)\n" + READ.format(60)
    )
    with pytest.raises(HookError, match="from pytest_gsw import verdict_of"):
        judge(logs / "good.log", ROW, baselines=["tiny.yaml"])
