"""Every outcome of docs/how-it-works.md, on the screen, in JUnit and in the exit status."""

from __future__ import annotations

import json
import re

import pytest

from tests.integration.conftest import junit, properties

ROW = "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]"
NAME = "llama2_70b_fp8[H100x128]"


def run(pytester: pytest.Pytester, fault: str, *options: str, row: str = ROW) -> pytest.RunResult:
    name = row.partition("::")[2]
    return pytester.runpytest("--gsw-cluster=demo", f"--gsw-demo={name}={fault}", row, "--junitxml=junit.xml", *options)


def test_a_slow_row_fails_with_the_whole_story(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")  # pytest then does not cut the summary's lines to the terminal's width
    result = run(pytester, "slow:12%")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"llama2_70b_fp8\[H100x128\]  REGRESSED  throughput -1\d\.\d %  5\.\d+ s/step  MFU 3\d\.\d % .*\[100%\]",
            r"_+ llama2_70b_fp8\[H100x128\] +_+",
            r"throughput 20\d,\d{3} tokens/s is 1\d\.\d % below the documented 230,153 \(allowed 5 %\)",
            r"throughput \(tokens/s\) +20\d,\d{3} +230,153 +-1\d\.\d % +-5\.0 % +regressed",
            (
                r"again +pytest --gsw-cluster=demo '--gsw-demo=llama2_70b_fp8\[H100x128\]=slow:12%' "
                r"'baselines/maxtext/llama2_70b\.yaml::llama2_70b_fp8\[H100x128\]'"
            ),
            r"offline +pytest --gsw-cluster=demo --gsw-replay=\.gsw/runs/\S+ 'baselines/.*'",
            r"FAILED baselines/maxtext/llama2_70b\.yaml::llama2_70b_fp8\[H100x128\] - throughput .* is 1\d\.\d % below .*",
        ],
    )
    case = junit(pytester.path / "junit.xml")[NAME]
    assert [child.tag for child in case] == ["properties", "failure"]
    facts = properties(case)
    assert facts["gsw_outcome"] == "regressed"
    assert facts["gsw_documented_step_time_s"] == "4.556"
    assert float(facts["gsw_measured_step_time_s"]) == pytest.approx(4.556 * 1.12, rel=0.02)


def test_a_failure_says_since_when_it_is_so(pytester: pytest.Pytester) -> None:
    run(pytester, "slow:0%", "--gsw-history=history.sqlite").assert_outcomes(passed=1)
    first = run(pytester, "slow:12%", "--gsw-history=history.sqlite")
    first.stdout.re_match_lines([r"throughput .* below .*", r"since      this run", r"baseline   .*"])
    again = run(pytester, "slow:12%", "--gsw-history=history.sqlite")
    again.stdout.re_match_lines(
        [r"throughput .* below .*", r"since      \d{4}-\d\d-\d\d \d\d:\d\d, 2 runs", r"baseline   .*"]
    )
    # A row of which no other run is known says nothing.
    run(pytester, "slow:12%", "--gsw-history=none").stdout.no_re_match_line(r"since .*")


def test_a_fast_row_passes_and_is_listed(pytester: pytest.Pytester) -> None:
    result = run(pytester, "fast:12%")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines(
        [r"=+ faster than documented =+", rf"{re.escape(NAME)}  IMPROVED   throughput \+1\d\.\d %  [34]\.\d+ s/step .*"]
    )
    assert properties(junit(pytester.path / "junit.xml")[NAME])["gsw_outcome"] == "improved"


def test_a_fast_row_fails_when_strict(pytester: pytest.Pytester) -> None:
    result = run(pytester, "fast:12%", "-ogsw_strict=true")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"throughput .* is 1\d\.\d % above the documented 230,153 \(allowed 5 %\)"])


def test_the_record_says_what_log_and_row_agree_on(pytester: pytest.Pytester) -> None:
    run(pytester, "slow:0%").assert_outcomes(passed=1)
    (path,) = pytester.path.glob(".gsw/runs/*/records/*.json")
    compared = json.loads(path.read_text())["compared"]
    assert compared.pop("job").isdigit()
    assert compared == {
        "model": "llama2",
        "model size": "70b",
        "framework": "maxtext",
        "dtype": "fp8",
        "GPUs": "128",
        "global batch size": "256",
        "sequence length": "4096",
        "layers": "80",
        "hidden size": "8192",
        "FSDP": "128",
        "precision": "fp8",
        "steps": "50",
    }
    said = properties(junit(pytester.path / "junit.xml")[NAME])["gsw_compared"]
    assert "sequence length 4096, layers 80, hidden size 8192, FSDP 128, precision fp8, steps 50" in said


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        ("fail", r"job \d+ failed with exit code 1.*"),
        ("oom", r"job \d+ failed with exit code 1: .*out of memory.*"),
        ("oom-kill", r"job \d+ .*memory.*"),
        ("exit:3", r"job \d+ failed with exit code 3"),
        ("cancel", r"job \d+ (ended CANCELLED|failed).*"),
        ("nan", r"the loss or a step time is not finite at step \d+: .*nan.*"),
        ("short", r"the log holds 30 steps, 45 of 50 needed"),
        ("wrong-identity", r"the log belongs to another run, by its model size"),
        ("wrong-settings", r"the run was not the row's: sequence length 2048 in the log, 4096 in the row"),
        ("truncated", r"the log ends at step 48, the run's last step is 49"),
    ],
)
def test_what_keeps_a_row_from_being_measured_is_an_error(pytester: pytest.Pytester, fault: str, fact: str) -> None:
    result = run(pytester, fault)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines([fact, r"next +\w.*"])
    case = junit(pytester.path / "junit.xml")[NAME]
    assert [child.tag for child in case] == ["properties", "error"]
    assert properties(case)["gsw_outcome"] == "error"


def test_a_log_that_never_appears_is_an_error(pytester: pytest.Pytester) -> None:
    result = run(pytester, "no-log")
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines([r".*no log.*"])


def test_a_stalled_job_ends_at_its_time_limit(pytester: pytest.Pytester) -> None:
    result = run(pytester, "stall", "--gsw-timeout=0.05")
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines(
        [
            r"job \d+ ended TIMEOUT.*",
            r"next +give the job more time with --gsw-timeout=MINUTES, or find out what it waited for",
        ]
    )


def test_a_documented_out_of_memory_is_expected(pytester: pytest.Pytester) -> None:
    row = "baselines/deepspeed/gpt2.yaml::gpt2_52b_fp16[V100-32GBx64-zero-id11]"
    result = pytester.runpytest("--gsw-cluster=demo", row, "-rx", "--junitxml=junit.xml")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL * - ran out of memory, as documented"])
    case = next(iter(junit(pytester.path / "junit.xml").values()))
    assert [child.tag for child in case] == ["properties", "skipped"]


def test_an_out_of_memory_that_does_not_come_is_a_failure(pytester: pytest.Pytester) -> None:
    row = "baselines/deepspeed/gpt2.yaml::gpt2_52b_fp16[V100-32GBx64-zero-id11]"
    result = run(pytester, "slow:0%", row=row)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["is documented to run out of memory, but its job completed"])


def test_a_row_of_an_expected_failure_that_fails_otherwise_is_an_error(pytester: pytest.Pytester) -> None:
    row = "baselines/deepspeed/gpt2.yaml::gpt2_52b_fp16[V100-32GBx64-zero-id11]"
    run(pytester, "fail", row=row).assert_outcomes(errors=1)


def test_the_first_failure_ends_the_session_and_the_other_jobs(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(
        "--gsw-cluster=demo", "--gsw-demo=*=stall", "--gsw-demo=*x2048]=slow:20%", "-k", "llama2_70b_fp8", "-x"
    )
    result.assert_outcomes(failed=1, deselected=135)
    result.stdout.re_match_lines([r"gsw: \d jobs? (was|were) still pending or running, and cancelled"])


@pytest.mark.parametrize(
    "answer",
    [
        "'PASSED'",
        "Verdict(Outcome.PASSED, float('nan'), float('nan'), 0.05)",
        "Verdict(Outcome.PASSED, 0.0, 1.0, 0.05)",
    ],
)
def test_what_a_hook_makes_up_does_not_pass(pytester: pytest.Pytester, answer: str) -> None:
    pytester.makeconftest(f"from pytest_gsw import Outcome, Verdict\n\ndef pytest_gsw_judge():\n    return {answer}\n")
    result = run(pytester, "slow:50%")
    result.assert_outcomes(errors=1)
    is_none = "an implementation of pytest_gsw_judge returned 'PASSED', which is no Verdict"
    is_odd = "pytest_gsw_judge of conftest.py raised ValueError: 'verdict.measured_s' is *, wanted a number above 0"
    result.stdout.fnmatch_lines([is_none if answer == "'PASSED'" else is_odd])
