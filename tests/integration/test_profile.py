"""``--gsw-profile``: the recipe's variables are set, and the run is never judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import junit, properties
from tests.messages import wording

ROW = "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x512]"
NAME = "grok1_314b_fp8[H100x512]"


def test_profiling_left_in_the_environment_is_not_judged(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENABLE_PROFILE", "true")
    result = pytester.runpytest("--gsw-cluster=demo", ROW, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED *" + wording("profiled by the environment", figures="*")])


TWO = ("--gsw-cluster=demo", "-k", "grok1_314b_fp8 and (H100x512 or H100x256)", "--junitxml=junit.xml", "-rs")


def launched(pytester: pytest.Pytester) -> Path:
    """A run of two rows, and beside the log of one of them what llmb-run says of a profiled job."""
    pytester.runpytest(*TWO).assert_outcomes(passed=2, deselected=139)
    (run,) = pytester.path.glob(".gsw/runs/*")
    (log,) = run.glob("stage/results/demo/fp8/314b/512/*.out")
    job = log.stem.rpartition("_")[2]
    log.with_name(f"llmb-config_{job}.yaml").write_text(f"job_info:\n  job_id: '{job}'\n  profile_enabled: true\n")
    return run / "stage"


def test_a_row_that_was_not_judged_is_not_covered_by_one_that_passed(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(*TWO, f"--gsw-replay={launched(pytester)}")
    result.assert_outcomes(passed=1, skipped=1, deselected=139)
    assert result.ret == 6
    result.stdout.fnmatch_lines(
        ["SKIPPED *" + wording("profiled by the recipe", file="llmb-config_*.yaml", figures="the figures *")]
    )
    facts = properties(junit(pytester.path / "junit.xml")[NAME])
    assert (facts["gsw_outcome"], facts["gsw_not_comparable"].partition(" ")[0]) == ("profiled", "profile_enabled")


def test_a_table_that_turns_profiling_on_is_not_green(pytester: pytest.Pytester, table: Path) -> None:
    """Beside a row that passes, and an ordinary test."""
    text = table.read_text()
    table.with_name("profiled.yaml").write_text(
        text.replace("model: tiny", "model: other").replace(
            "steps: 20", "steps: 20, environment: {ENABLE_PROFILE: 'true'}"
        )
    )
    pytester.makepyfile(test_one="def test_one(): pass")
    rows = ("--gsw-cluster=demo", "--gsw-baselines=site", "site", "test_one.py", "-k", "H100x8 or test_one")
    result = pytester.runpytest(*rows, "--junitxml=junit.xml")
    assert result.parseoutcomes().items() >= {"passed": 2, "skipped": 1}.items()
    assert result.ret == 6
    facts = properties(junit(pytester.path / "junit.xml")["other_1b_bf16[H100x8]"])
    assert facts["gsw_not_comparable"] == "ENABLE_PROFILE in the environment"


def test_nsight_is_skipped_after_the_run_with_its_figures(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(*TWO, "--gsw-profile=nsight", "--gsw-demo=*x512]=slow:50%")
    result.assert_outcomes(skipped=2, deselected=139)
    assert result.ret == pytest.ExitCode.OK  # the command line has asked for it
    result.stdout.re_match_lines(
        [
            r"SKIPPED .*not judged, because --gsw-profile=nsight makes the figures not comparable: throughput -.*  2\d\.\d+ s"
        ]
    )
    case = junit(pytester.path / "junit.xml")[NAME]
    assert [child.tag for child in case] == ["properties", "skipped"]
    assert properties(case)["gsw_outcome"] == "profiled"
    assert properties(case)["gsw_not_comparable"] == "--gsw-profile=nsight"
    assert "gsw_measured_step_time_s" in properties(case)


@pytest.mark.parametrize("ini", ["gsw_profile = nsight", "addopts = --gsw-profile=nsight"])
def test_profiles_that_a_file_asks_for_are_not_green(pytester: pytest.Pytester, ini: str) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")  # and nobody asks for it any more
    result = pytester.runpytest("--gsw-cluster=demo", ROW)
    result.assert_outcomes(skipped=1)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_resumed_run_does_not_judge_what_was_profiled(pytester: pytest.Pytester) -> None:
    """The command that goes on does not say --gsw-profile again."""
    pytester.runpytest("--gsw-cluster=demo", ROW, "--gsw-profile=nsight")
    next(pytester.path.glob(".gsw/runs/*/records/*.json")).unlink()
    result = pytester.runpytest("--gsw-resume=last", ROW, "-rs")
    result.assert_outcomes(skipped=1)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["SKIPPED *" + "not judged, because --gsw-profile=nsight *"])


def test_a_profiled_run_that_fails_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--gsw-cluster=demo", ROW, "--gsw-profile=nsight", "--gsw-demo=*=fail").assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nsigt", "got 'nsigt', wanted nsight or nccl-trace; did you mean 'nsight'?"),
        ("nsight:steps=30-20", "got 'steps=30-20', wanted steps=45-50, ranks=0-7, gpu-metrics or cpu-metrics"),
    ],
)
def test_usage_errors(pytester: pytest.Pytester, given: str, message: str) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-profile={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --gsw-profile: {message}"])


def test_a_resumed_run_is_profiled_as_it_began(pytester: pytest.Pytester) -> None:
    set_defaults(pytester.path, max_jobs=1)
    pytester.runpytest(*TWO, "--gsw-profile=nsight", "-x", "--gsw-demo=*x512]=fail").assert_outcomes(
        errors=1, deselected=139
    )
    pytester.runpytest("--gsw-cluster=demo", "--gsw-resume=last", "--junitxml=junit.xml")
    facts = properties(junit(pytester.path / "junit.xml")["grok1_314b_fp8[H100x256]"])
    assert (facts["gsw_outcome"], facts["gsw_not_comparable"]) == ("profiled", "--gsw-profile=nsight")
