"""A certification's suite: what is run of it, what is told of the rest, and its criterion at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import junit, properties
from tests.messages import wording

SUITE = """\
config: {scale: 512}
workloads:
  h100:
    - pretrain_tiny_1b: {dtypes: [bf16, fp8]}
    - pretrain_other_2b: {dtypes: [bf16]}
"""
#: The recipe states its release, as the recipes' scripts do.
HEAD = """\
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: site.md
releases: ["26.08"]
recipe: {directory: tiny, steps: 20, environment: {GSW_VERSION: "26.08"}}
sequence_length: 1024
global_batch_size: 1024
model_flops: 6.0e+12
"""
TINY = "model: tiny\nsize: 1b\n"
OTHER = "model: other\nsize: 2b\n"
CRITERION = "criterion: > 95 % of the figure for each workload of the suite, one release for all"


def table(name: str, head: str, *rows: str) -> None:
    lines = "".join(f"      - {{{row}, line: {number}}}\n" for number, row in enumerate(rows, 10))
    path = Path("site") / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{head}tables:\n  - rows:\n{lines}")


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    """A suite of three cases, each with a figure at its scale, and a row that it does not have."""
    Path("exemplar.yaml").write_text(SUITE)
    rows = ["gpus: 512, dtype: bf16, step_time_s: 4.0", "gpus: 512, dtype: fp8, step_time_s: 2.0"]
    table("tiny", TINY + HEAD, *rows, "gpus: 8, dtype: bf16, step_time_s: 4.0")
    table("other", OTHER + HEAD, "gpus: 512, dtype: bf16, step_time_s: 3.0")


def run(pytester: pytest.Pytester, *arguments: str, suite: str = "exemplar.yaml") -> pytest.RunResult:
    return pytester.runpytest(
        "--gsw-cluster=demo", f"--gsw-suite={suite}", "--gsw-baselines=site", "--gsw-history=none", *arguments
    )


def test_the_cases_are_run_and_the_criterion_is_met(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--junitxml=junit.xml")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "gsw: suite exemplar.yaml: 3 cases on 512 GPUs; 3 with a figure at that scale, 0 at another scale, 0 with none",
            "gsw:   H100 tiny_1b bf16   tiny_1b_bf16[[]H100x512[]]",
            "gsw:   H100 tiny_1b fp8    tiny_1b_fp8[[]H100x512[]]",
            "gsw:   H100 other_2b bf16  other_2b_bf16[[]H100x512[]]",
            "*= suite =*",
            "case * figure * throughput * first job * best job * jobs * criterion",
            "H100 tiny_1b bf16 * tiny_1b_bf16[[]H100x512[]] * % * % * % * 1  reached",
            "H100 tiny_1b fp8 * tiny_1b_fp8[[]H100x512[]] * % * % * % * 1  reached",
            "H100 other_2b bf16 * other_2b_bf16[[]H100x512[]] * % * % * % * 1  reached",
            "",
            CRITERION,
            wording("suite met", accelerator="H100", few=3, cases=3, release="release 26.08"),
        ]
    )
    assert result.ret == 0
    found = {name: properties(case)["gsw_suite_case"] for name, case in junit(Path("junit.xml")).items()}
    assert found == {
        "tiny_1b_bf16[H100x512]": "H100 tiny_1b bf16",
        "tiny_1b_fp8[H100x512]": "H100 tiny_1b fp8",
        "other_2b_bf16[H100x512]": "H100 other_2b bf16",
    }
    # Logs that are there meet it as well, and a case that is left out has not reached it.
    (before,) = Path(".gsw/runs").iterdir()
    replay = (f"--gsw-replay={before}", "--gsw-suite=exemplar.yaml", "--gsw-baselines=site")
    result = pytester.runpytest(*replay)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([wording("suite met", accelerator="H100", few=3, cases=3, release="release 26.08")])
    result = pytester.runpytest(*replay, "-k", "not fp8")
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines([wording("suite failed", accelerator="H100", few=2, cases=3, why="1 not run")])
    assert result.ret == 6


def test_a_case_that_is_too_slow_has_not_reached_it(pytester: pytest.Pytester) -> None:
    """Also where the session's tolerance lets its row pass."""
    result = run(pytester, "--gsw-demo=tiny_1b_fp8*=slow:8%", "--gsw-tolerance=20%")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "H100 tiny_1b fp8 * 92.? % * not reached",
            CRITERION,
            wording("suite failed", accelerator="H100", few=2, cases=3, why="1 not reached"),
        ]
    )
    assert result.ret == 1


def test_without_a_figure_at_its_scale_a_case_is_named_and_not_judged(pytester: pytest.Pytester) -> None:
    table("tiny", TINY + HEAD, "gpus: 64, dtype: bf16, step_time_s: 4.0")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "gsw: suite exemplar.yaml: 3 cases on 512 GPUs; 1 with a figure at that scale, 1 at another scale (not judged; *",
            "gsw:   H100 tiny_1b bf16   only tiny_1b_bf16[[]H100x64[]]",
            "gsw:   H100 tiny_1b fp8    none",
            "H100: not met: 1 of 3 cases reached it; 1 figure of another scale; 1 no figure",
        ]
    )
    assert result.ret == 6


def test_with_per_gpu_it_is_judged_by_what_each_gpu_did(pytester: pytest.Pytester) -> None:
    Path("exemplar.yaml").write_text(SUITE.replace("[bf16, fp8]", "[bf16]"))
    table("tiny", TINY + HEAD, "gpus: 64, dtype: bf16, step_time_s: 4.0")
    result = run(pytester, suite="exemplar.yaml@per-gpu")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "gsw: suite exemplar.yaml: 2 cases on 512 GPUs; 1 with a figure at that scale, 1 at another scale (judged per GPU), 0 with none",
            "tiny_1b_bf16[[]H100x512-of-64[]]  PASSED     throughput * 3.9* s/step *",
            "H100 tiny_1b bf16 * tiny_1b_bf16[[]H100x64[]], per GPU * reached",
            "H100: met by 2 of 2 cases, release 26.08; 1 by a figure of another scale, per GPU",
        ]
    )
    (record,) = Path(".gsw/runs").glob("*/records/*tiny*.json")
    text = record.read_text()
    assert '"global_batch_size":"8192"' not in text  # its log does not state it
    assert "transferred per GPU from 64 GPUs" in text
    result = run(pytester, "--gsw-demo=tiny_1b*=slow:12%", suite="exemplar.yaml@per-gpu")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*pytest --gsw-cluster=demo --gsw-suite=exemplar.yaml@per-gpu *"])


def test_a_session_that_is_resumed_has_the_suite_and_the_tables_of_its_run(pytester: pytest.Pytester) -> None:
    set_defaults(pytester.path, max_jobs=1)
    run(pytester, "-x", "--gsw-demo=tiny_1b_fp8*=fail", "--gsw-detach")
    result = pytester.runpytest("--gsw-resume=last")
    result.stdout.fnmatch_lines(["H100: not met: *"])
    result.stdout.no_fnmatch_line("*not there any more*")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--gsw-suite=exemplar.yaml"], "--gsw-suite needs a cluster or logs; add --gsw-cluster=NAME or --gsw-replay=PATH"),
        (["--gsw-suite=exemplar.yaml", "--gsw-cluster=demo"], "--gsw-suite needs the figures of one release"),
        (["--gsw-suite=real.yaml", "--gsw-cluster=demo"], "nemo:26.04.01: 0 of 1 case at 512 GPUs, 1 at another scale"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_usage_error(pytester: pytest.Pytester, arguments: list[str], told: str) -> None:
    Path("real.yaml").write_text("config: {}\nworkloads: {gb200: [{pretrain_qwen3_235b: {dtypes: [fp8]}}]}\n")
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told if told.startswith(("  ", "nemo")) else f"ERROR: {told}"])
