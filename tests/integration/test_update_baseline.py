"""``--gsw-update-baseline``: a session's own diff, for review, from its rows and the runs beside it."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.results.record import read_records
from pytest_gsw.session import update
from pytest_gsw.tables.load import load_table
from tests.integration.runs import write_runs
from tests.unit.results.records import JOB

ROW = "tiny_1b_bf16[H100x8]"
OTHER = "tiny_1b_bf16[H100x16]"
#: A recipe that neither trains nor says that it is a simulation.
LAUNCH = """\
#!/bin/bash
set -eu
gpus=$(( SLURM_JOB_NUM_NODES * RUN_CONF_GPU_PER_NODE ))
results=$STAGE_PATH/results/v1/$DTYPE/$MODEL_SIZE/$gpus
mkdir -p "$results"
{
    echo "GSW: MODEL=tiny FRAMEWORK=maxtext MODEL_SIZE=1b IMAGE='$STAGE_PATH/simulation' JOB_ID=$SLURM_JOB_ID"
    for step in {0..19}; do echo "completed step: $step, seconds: $TINY_SECONDS, loss: 9.0"; done
} >"$results/log-maxtext_tiny_1b_${gpus}_$SLURM_JOB_ID.out"
"""


@pytest.fixture
def eos(pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster that is not simulated, and its table."""
    recipe = pytester.path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    (recipe / "launch.sh").write_text(LAUNCH)
    (pytester.path / "clusters.yaml").write_text(
        "clusters:\n  eos: {scheduler: local, accelerator: H100, gpus: 64, stage: stage, recipes: recipes}\n"
    )
    monkeypatch.setenv("TINY_SECONDS", "1.04")
    return table


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest("--gsw-cluster=eos", "--gsw-baselines=site", "--gsw-update-baseline", *options)


def diffs(pytester: pytest.Pytester) -> list[Path]:
    return sorted(pytester.path.rglob("*.diff"))


def test_a_row_and_its_earlier_runs_give_a_figure(pytester: pytest.Pytester, eos: Path) -> None:
    old = eos.read_text()
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06))
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1, deselected=1)  # the diff changes no outcome, and no exit status
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (path,) = diffs(pytester)
    assert path.name == "baseline.diff"
    assert path.parent.parent == pytester.path / ".gsw" / "runs"
    shown = path.relative_to(pytester.path)
    made_of = "median of 5 jobs from 1.02 to 1.06 s, spread 1.5 %"
    result.stdout.fnmatch_lines(
        [
            "* figures to accept *",
            f"tiny_1b_bf16[[]H100x8] on eos: 1.04 s beside the documented 1 s (4.0 % longer); {made_of}",
            "left out: tiny_1b_bf16[[]H100x16]: 1 job, at least 5 needed (--min-jobs)",
            f"for review: {shown}; then git apply {shown}",
        ]
    )
    assert eos.read_text() == old
    subprocess.run(shlex.split(f"git apply {shown}"), cwd=pytester.path, check=True)
    accepted = load_table(eos)[0].accepted["eos"]
    assert (accepted.judged_s, accepted.jobs, accepted.image) == (1.04, 5, "simulation")
    again = run(pytester)
    again.stdout.fnmatch_lines(["*x8[]]* PASSED     throughput +0.0 % to accepted, -3.8 % to documented *"])


def test_the_file_can_be_named(pytester: pytest.Pytester, eos: Path) -> None:
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06))
    result = pytester.runpytest(
        "--gsw-cluster=eos", "--gsw-baselines=site", "--gsw-update-baseline=new/accept.diff", "-k", "H100x8]"
    )
    result.assert_outcomes(passed=1, deselected=2)
    assert [path.relative_to(pytester.path).as_posix() for path in diffs(pytester)] == ["new/accept.diff"]
    result.stdout.fnmatch_lines(["for review: new/accept.diff; then git apply new/accept.diff"])


def test_the_ini_twin_without_a_file(pytester: pytest.Pytester, eos: Path) -> None:
    pytester.makeini("[pytest]\ngsw_update_baseline = true\n")
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06))
    arguments = ("--gsw-cluster=eos", "--gsw-baselines=site", "-k", "H100x8]")
    pytester.runpytest(*arguments).assert_outcomes(passed=1, deselected=2)
    assert [path.name for path in diffs(pytester)] == ["baseline.diff"]
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest().assert_outcomes(passed=1)  # nothing is judged, and nothing is said
    pytester.makeini("[pytest]\ngsw_update_baseline = false\n")
    assert "figures to accept" not in pytester.runpytest(*arguments).stdout.str()


def test_why_there_is_nothing_to_propose(pytester: pytest.Pytester, eos: Path) -> None:
    result = run(pytester, "-k", "H100x8] or H100x16", "--gsw-tolerance=60%")
    result.assert_outcomes(passed=2, deselected=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "* figures to accept *",
            "nothing can be proposed",
            "left out: tiny_1b_bf16[[]H100x8], tiny_1b_bf16[[]H100x16]: 1 job, at least 5 needed (--min-jobs)",
        ]
    )
    assert diffs(pytester) == []


def test_simulated_figures_are_never_proposed(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "--gsw-update-baseline")
    result.assert_outcomes(passed=3)
    rows = "tiny_1b_bf16[[]B200x8], tiny_1b_bf16[[]H100x8], tiny_1b_bf16[[]H100x16]"
    result.stdout.fnmatch_lines(
        ["nothing can be proposed", f"left out: {rows}: is simulated, and its figures are made up"]
    )


def test_runs_of_other_clusters_do_not_count(pytester: pytest.Pytester, eos: Path) -> None:
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06), cluster="selene")
    run(pytester, "-k", "H100x8]").stdout.fnmatch_lines(["nothing can be proposed", "*: 1 job, at least 5 needed *"])


def test_a_diff_of_an_earlier_session_is_left_and_named(pytester: pytest.Pytester, eos: Path) -> None:
    (pytester.path / "a.diff").write_text("old\n")
    arguments = ("--gsw-cluster=eos", "--gsw-baselines=site", "--gsw-update-baseline=a.diff", "-k", "H100x8]")
    pytester.runpytest(*arguments).stdout.fnmatch_lines(
        ["nothing can be proposed", f"{pytester.path}/a.diff is of an earlier session, and is left as it was"]
    )
    assert (pytester.path / "a.diff").read_text() == "old\n"


def test_a_file_that_cannot_be_written(pytester: pytest.Pytester, eos: Path) -> None:
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06))
    (pytester.path / "a.diff").mkdir()
    arguments = ("--gsw-cluster=eos", "--gsw-baselines=site", "--gsw-update-baseline=a.diff", "-k", "H100x8]")
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"{pytester.path}/a.diff cannot be written: Is a directory"])


@pytest.mark.parametrize("argument", ["site/tiny.yaml", f"site/tiny.yaml::{ROW}", "site", ""])
def test_the_next_argument_is_not_taken_for_the_file(pytester: pytest.Pytester, eos: Path, argument: str) -> None:
    old = eos.read_text()
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-baselines=site", "--gsw-update-baseline", argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: --gsw-update-baseline: got '{argument.replace('[', '[[]')}', wanted a file whose name ends in .diff or .patch",
            "next: write --gsw-update-baseline=FILE, or put another option behind it",
        ]
    )
    assert eos.read_text() == old


@pytest.mark.parametrize("option", ["--collect-only", "--setup-only", "--setup-plan", "--gsw-plan"])
def test_a_session_that_runs_nothing_proposes_nothing(pytester: pytest.Pytester, eos: Path, option: str) -> None:
    assert "figures to accept" not in run(pytester, option).stdout.str()
    assert diffs(pytester) == []


def test_a_file_on_the_command_line(pytester: pytest.Pytester, eos: Path) -> None:
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06))
    result = pytester.runpytest(f"site/tiny.yaml::{ROW}", "--gsw-cluster=eos", "--gsw-update-baseline")
    result.assert_outcomes(passed=1)
    assert len(diffs(pytester)) == 1


def test_a_replay_adds_no_jobs(pytester: pytest.Pytester, eos: Path) -> None:
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05))
    run(pytester, "-k", "H100x8]").stdout.fnmatch_lines(["*: 4 jobs, at least 5 needed *"])
    newest = max(pytester.path.glob(".gsw/runs/*"), key=lambda path: path.stat().st_mtime)
    assert read_records(newest)[0].row.id == ROW
    again = run(pytester, f"--gsw-replay={newest}")
    again.assert_outcomes(passed=1, deselected=2)
    again.stdout.fnmatch_lines(["*: 4 jobs, at least 5 needed *"])


def test_a_bad_neighbour_breaks_no_session(pytester: pytest.Pytester, eos: Path) -> None:
    write_runs(pytester.path / ".gsw", eos, (1.02, 1.03, 1.05, 1.06))
    (odd,) = write_runs(pytester.path / "odd", eos, (1.04,), job=replace(JOB, end_s=1e300))
    odd.rename(pytester.path / ".gsw" / "runs" / "20260101-000000-0000")
    (pytester.path / ".gsw" / "runs" / "20260102-000000-0000").mkdir()
    (pytester.path / ".gsw" / "runs" / "20260102-000000-0000" / "records").write_text("")
    result = run(pytester, "-k", "H100x8]")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "tiny_1b_bf16[[]H100x8] on eos: 1.04 s beside the documented 1 s (4.0 % longer); median of 5 jobs *",
            f"left out: {pytester.path}/.gsw/runs/20260102-000000-0000/records: cannot be read: Not a directory",
        ]
    )


def test_a_table_that_was_broken_meanwhile(pytester: pytest.Pytester, eos: Path) -> None:
    pytester.makeconftest(
        "def pytest_gsw_run_recorded(config):\n    (config.rootpath / 'site' / 'tiny.yaml').write_text('[]\\n')\n"
    )
    result = run(pytester, "-k", "H100x8]")
    result.assert_outcomes(passed=1, deselected=2)
    wrong = f"{eos} is wrong: 1:1     wanted a mapping of keys at the top of the file"
    result.stdout.fnmatch_lines(["nothing can be proposed", f"left out: tiny_1b_bf16[[]H100x8]: {wrong}"])


def test_a_directory_that_may_not_be_looked_into_breaks_no_session(
    pytester: pytest.Pytester, eos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/site")

    monkeypatch.setattr(update, "make_patch", refused)
    result = run(pytester, "-k", "H100x8]")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines(["* figures to accept *", "nothing can be proposed: /site: Permission denied"])
