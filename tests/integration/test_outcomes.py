"""Every outcome of docs/design.md, on the screen, in JUnit and in the exit status."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from tests.integration.conftest import junit, properties, records
from tests.messages import wording

ROW = "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]"
NAME = "llama2_70b_fp8[H100x128]"
FAST = "gpt3_175b_fp8[H100x128]"
OOM = "gpt2_52b_fp16[V100-32GBx64-{}]".format
#: By row, what breaks it, and the fact that its error begins with.
BROKEN = {
    "llama2_70b_fp8[H100x64]": ("fail", r"job \d+ failed with exit code 1"),
    "llama2_70b_fp8[H100x256]": ("oom", r"job \d+ failed with exit code 1: .*out of memory"),
    "llama2_70b_fp8[H100x512]": ("oom-kill", r"job \d+ .*memory"),
    "llama2_70b_fp8[H100x1024]": ("exit:3", r"job \d+ failed with exit code 3"),
    "llama2_70b_fp8[H100x2048]": ("cancel", r"job \d+ (ended CANCELLED|failed)"),
    "llama2_70b_bf16[H100x64]": ("nan", r"the loss or a step time is not finite at step \d+: .*nan"),
    "llama2_70b_bf16[H100x128]": ("short", r"the log holds 30 steps, 45 of 50 needed"),
    "llama2_70b_bf16[H100x256]": ("wrong-identity", r"the log belongs to another run, by its model size"),
    "llama2_70b_bf16[H100x512]": (
        "wrong-settings",
        r"the run was not the row's: sequence length 2048 in the log, 4096 in the row",
    ),
    "llama2_70b_bf16[H100x1024]": ("truncated", r"the log ends at step 48, the run's last step is 49"),
    "llama2_70b_bf16[H100x2048]": ("no-log", r".*no log"),
    OOM("zero-id11"): (
        "fail",
        r"job \d+ failed with exit code 1",
    ),  # and not by the memory that it is documented to need
}


def run(pytester: pytest.Pytester, fault: str, *options: str) -> pytest.RunResult:
    return pytester.runpytest("--gsw-cluster=demo", f"--gsw-demo={NAME}={fault}", ROW, *options)


def kinds(case: ET.Element) -> list[str]:
    return [child.tag for child in case]


def test_a_session_with_every_fault(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")  # pytest then does not cut the summary's lines to the terminal's width
    faults = {NAME: "slow:12%", FAST: "fast:12%"} | {row: fault for row, (fault, _) in BROKEN.items()}
    result = pytester.runpytest(
        *("--gsw-cluster=demo", "--junitxml=junit.xml", "-rfEx"),
        *("-k", f"llama2_70b or zero-id11 or hf-zero2-offload] or {FAST.replace('[', ' and ')[:-1]}"),
        *(f"--gsw-demo={row}={fault}" for row, fault in faults.items()),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1, errors=len(BROKEN), xfailed=1, deselected=126)
    cases = junit(pytester.path / "junit.xml")
    for row, (fault, fact) in BROKEN.items():
        assert kinds(cases[row]) == ["properties", "error"], fault
        assert properties(cases[row])["gsw_outcome"] == "error"
        assert re.match(fact, properties(cases[row])["gsw_fact"]), fault
        assert re.search(r"^next +\w", cases[row][-1].text or "", re.MULTILINE), fault

    result.stdout.re_match_lines(
        [
            wording(
                "throughput",
                measured="20\\d,\\d{3}",
                change="1\\d\\.\\d",
                side="% below",
                documented="230,153 \\(allowed 5 %\\)",
            ),
            r"throughput \(tokens/s\) +20\d,\d{3} +230,153 +-1\d\.\d % +-5\.0 % +regressed",
            (
                r"again +pytest --gsw-cluster=demo '--gsw-demo=llama2_70b_fp8\[H100x128\]=slow:12%' "
                r"'baselines/maxtext/llama2_70b\.yaml::llama2_70b_fp8\[H100x128\]'"
            ),
            r"offline +pytest --gsw-cluster=demo --gsw-replay=\.gsw/runs/\S+ 'baselines/.*'",
            r"FAILED baselines/maxtext/llama2_70b\.yaml::llama2_70b_fp8\[H100x128\] - -1\d\.\d % throughput, allowed -5 %",
        ],
    )
    result.stdout.re_match_lines(
        [r"llama2_70b_fp8\[H100x128\] +REGRESSED  throughput -1\d\.\d %  5\.\d+ s/step  MFU 3\d\.\d % .*%\]"]
    )
    result.stdout.no_re_match_line(r"since .*")  # no other run is known
    facts = properties(cases[NAME])
    assert (kinds(cases[NAME]), facts["gsw_outcome"]) == (["properties", "failure"], "regressed")
    assert facts["gsw_documented_step_time_s"] == "4.556"
    assert float(facts["gsw_measured_step_time_s"]) == pytest.approx(4.556 * 1.12, rel=0.02)

    result.stdout.re_match_lines([rf"{re.escape(FAST)} +IMPROVED   throughput \+1\d\.\d %  .* s/step .*"])
    assert properties(cases[FAST])["gsw_outcome"] == "improved"
    result.stdout.fnmatch_lines(["XFAIL * - *ran out of memory, as documented"])
    assert kinds(cases[OOM("hf-zero2-offload")]) == ["properties", "skipped"]

    compared = next(one for one in records(pytester.path) if one["row"] == NAME)["compared"]
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
    assert "layers 80, hidden size 8192, FSDP 128, precision fp8, steps 50" in facts["gsw_compared"]


def test_a_failure_says_since_when_it_is_so(pytester: pytest.Pytester) -> None:
    run(pytester, "slow:0%").assert_outcomes(passed=1)
    for since in (r"since      this run", r"since      \d{4}-\d\d-\d\d \d\d:\d\d, 2 runs"):
        run(pytester, "slow:12%").stdout.re_match_lines([r"throughput .* below .*", since, r"baseline   .*"])


def test_the_first_failure_ends_the_session_and_the_other_jobs(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(
        "--gsw-cluster=demo", "--gsw-demo=*=stall", "--gsw-demo=*x2048]=slow:20%", "-k", "llama2_70b_fp8", "-x"
    )
    result.assert_outcomes(failed=1, deselected=135)
    result.stdout.re_match_lines([wording("still running", jobs="\\d jobs? (was|were)")])


def test_what_a_hook_makes_up_does_not_pass(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """\
from pytest_gsw import Outcome, Verdict

def pytest_gsw_judge(baseline):
    if baseline.gpus == 64:
        return "PASSED"
    measured_s = 0.0 if baseline.gpus == 128 else float("nan")
    return Verdict(Outcome.PASSED, measured_s, 1.0, 0.05)
"""
    )
    rows = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (x64 or x128 or x256)", "--gsw-demo=*=slow:50%")
    pytester.runpytest(*rows).assert_outcomes(errors=3, deselected=138)
    facts = {one["gpus"]: one["fact"] for one in records(pytester.path)}
    assert facts.pop(64) == wording("no verdict", value="'PASSED'")
    odd = "pytest_gsw_judge of conftest.py raised ValueError: 'verdict.measured' is {}, wanted a number above 0".format
    assert facts == {128: odd("0.0"), 256: odd("nan")}
