"""What would fail once it is submitted is told before anything is: once for all rows, with the key that led there."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import Gsw, put_on_path, tiny_table
from tests.messages import wording

CLUSTER = """\
clusters:
  eos:
    scheduler: slurm
    accelerator: H100
    stage: {stage}
    recipes: {recipes}
"""
TWO_ROWS = ("gpus: 8, step_time_s: 1.000, line: 10", "gpus: 16, step_time_s: 0.500, line: 11")
FIRST, SECOND = "site/tiny.yaml::tiny_1b_bf16[[]H100x8]", "site/tiny.yaml::tiny_1b_bf16[[]H100x16]"
#: Notes what it was called with, and refuses.
REFUSED = "sbatch: error: Batch job submission failed: Invalid partition name specified"
SBATCH = f'echo "$@" >>"{{directory}}/submitted"; echo "{REFUSED}" >&2; exit 1'


@pytest.fixture
def submitted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two rows with Slurm's commands; what was submitted stands in this file."""
    make(pytester)
    put_on_path(pytester.path / "bin", monkeypatch, sbatch=SBATCH.format(directory=pytester.path), scontrol="exit 1")
    (pytester.path / "recipes" / "tiny").mkdir(parents=True)
    (pytester.path / "recipes" / "tiny" / "launch.sh").write_text("#!/bin/bash\n")
    return pytester.path / "submitted"


def make(pytester: pytest.Pytester, *, stage: str = "stage", recipes: str = "recipes") -> None:
    (pytester.path / "clusters.yaml").write_text(CLUSTER.format(stage=stage, recipes=recipes))
    (pytester.path / "site").mkdir(exist_ok=True)
    (pytester.path / "site" / "tiny.yaml").write_text(tiny_table(*TWO_ROWS))


def run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest("--gsw-cluster=eos", "--gsw-baselines=site", *more)


def test_a_plan_shows_the_row_and_why_it_cannot_be_submitted(pytester: pytest.Pytester, submitted: Path) -> None:
    (pytester.path / "recipes" / "other").mkdir()
    (pytester.path / "recipes" / "tiny" / "launch.sh").unlink()
    (pytester.path / "recipes" / "tiny").rmdir()
    result = run(pytester, "--gsw-plan")
    assert result.ret == 1
    line = next(n for n, text in enumerate(tiny_table(*TWO_ROWS).split("\n"), 1) if "directory: tiny" in text)
    result.stdout.fnmatch_lines(
        [
            "nothing would be submitted: 2 rows cannot be submitted",
            FIRST,
            "  8 GPUs on 1 node, about 5 minutes",
            "  command      sbatch *",
            "  error        " + wording("no recipe", path=f"{pytester.path}/recipes/tiny"),
            f"  recipes      clusters.yaml:6  recipes: {pytester.path}/recipes",
            f"  recipe       site/tiny.yaml:{line}  directory: tiny",
            "  there        other",
            "  rows         tiny_1b_bf16[[]H100x8] and 1 more row",
            "  next         is the recipe part of this release? Correct the directory there, or fetch the recipe",
            SECOND,
            "  error        " + wording("no recipe", path="*"),
            "  next         as of tiny_1b_bf16[[]H100x8]",
        ]
    )
    assert not submitted.exists()


def test_a_variable_that_the_script_demands(
    pytester: pytest.Pytester, submitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = pytester.path / "recipes" / "tiny" / "launch.sh"
    script.write_text("#!/bin/bash\nset -eu\nexport HF_TOKEN=${HF_TOKEN?needed}\n")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    result = run(pytester)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            wording("script needs", names="HF_TOKEN", are="is"),
            "",
            f"said at    {script}:3  HF_TOKEN",
            "rows       tiny_1b_bf16[[]H100x8] and 1 more row",
            "baseline   *",
            "next       export HF_TOKEN=?; or write that under `environment` of the cluster",
        ]
    )
    assert not submitted.exists()
    monkeypatch.setenv("HF_TOKEN", "hf_AbcdefghijklmnopQRSTUV")
    result = run(pytester, "--gsw-plan")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*hf_Abc*")


def test_a_row_that_cannot_be_submitted_leaves_the_others_alone(pytester: pytest.Pytester, submitted: Path) -> None:
    (pytester.path / "site" / "other.yaml").write_text(
        tiny_table(TWO_ROWS[0]).replace("model: tiny", "model: other").replace("directory: tiny", "directory: other")
    )
    result = run(pytester, "-x")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([wording("no recipe", path="*"), "*stopping after 1 failures*"])
    assert not submitted.exists()
    run(pytester).assert_outcomes(errors=3)
    assert submitted.read_text().count("recipes/tiny/launch.sh") == 2
    assert "recipes/other" not in submitted.read_text()


def test_with_x_a_row_of_too_many_gpus_fails_before_anything_is_submitted(
    pytester: pytest.Pytester, submitted: Path
) -> None:
    set_defaults(pytester.path, max_gpus=8)
    run(pytester, "-x").assert_outcomes(errors=1)
    assert not submitted.exists()
    plan = run(pytester, "--gsw-plan")
    assert plan.ret == 1
    plan.stdout.fnmatch_lines([SECOND, "  error        " + wording("too few GPUs allowed", gpus=16, most=8)])


def commands_of(text: str) -> list[str]:
    """What a session's output says to type to run a row again."""
    return [line.partition(" ")[2].strip() for line in text.split("\n") if line.startswith("again ")]


def test_the_commands_of_a_session_name_the_file_that_it_was_given(
    pytester: pytest.Pytester, submitted: Path, gsw: Gsw
) -> None:
    (pytester.path / "etc").mkdir()
    (pytester.path / "clusters.yaml").rename(pytester.path / "etc" / "eos.yaml")
    set_defaults(pytester.path, slow_start=0)
    result = run(pytester, "--gsw-clusters=etc/eos.yaml")
    result.assert_outcomes(errors=2)
    for again, node_id in zip(commands_of(result.stdout.str()), (FIRST, SECOND), strict=True):
        words = shlex.split(again)
        assert words == ["pytest", "--gsw-cluster=eos", "--gsw-clusters=etc/eos.yaml", node_id.replace("[[]", "[")]
        pytester.runpytest("--gsw-baselines=site", *words[1:]).assert_outcomes(errors=1)
    assert (
        "pytest --gsw-cluster=eos --gsw-clusters=etc/eos.yaml"
        in gsw("report", "--format=junit", str(next((pytester.path / ".gsw" / "runs").iterdir()))).out
    )
