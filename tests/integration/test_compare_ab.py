"""``pytest-gsw compare-ab`` on the simulated cluster, where no Slurm is needed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.cli import main
from pytest_gsw.cli.metrics import find_row
from tests.integration.conftest import put_on_path, tiny_table

ROW = "llama2_70b_fp8[H100x64]"
WORDS = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compare(*options: str) -> int:
    return main(["compare-ab", ROW, "--cluster=demo", *options])


def compared(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    status = compare("--json", *options)
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, facts


def the_directory() -> Path:
    (directory,) = Path(".gsw/ab").iterdir()
    return directory


def test_b_is_slower(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("--b", "GSW_DEMO=*=slow:3%") == 1
    out, err = capsys.readouterr()
    directory = the_directory()
    job = re.findall(r"^compare-ab: job ([0-9]+) on demo: 12 turns, kept in \.gsw/ab/[0-9a-f-]+$", err, re.MULTILINE)
    assert len(job) == 1
    assert "compare-ab: running, 0 of 12 turns have ended\n" in err
    lines = out.splitlines()
    assert lines[:3] == [f"{ROW} on demo", "A          the row as it is", "B          GSW_DEMO='*=slow:3%'"]
    assert re.fullmatch(rf"job        {job[0]} COMPLETED 0:0 after \d+s on localhost", lines[3])
    assert lines[4:6] == [f"turns      {directory}", ""]
    assert lines[6].split("  ")[-1] == "throughput of B"
    turns = [line.split()[1:3] for line in lines[8:14]]
    assert turns == [["1-A", "2-B"], ["3-B", "4-A"], ["5-A", "6-B"], ["7-B", "8-A"], ["9-A", "10-B"], ["11-B", "12-A"]]
    assert lines[-2] == "The cluster 'demo' is simulated: no GPU was used, and its figures say nothing."
    assert re.fullmatch(
        r"B is slower: its throughput is [23]\.\d % below A's \(95 % interval -[234]\.\d % to -[12]\.\d %; "
        r"p 0\.031 by signed ranks, 0\.031 by signs; 6 pairs\)",
        lines[-1],
    )


def test_b_is_faster(capsys: pytest.CaptureFixture[str]) -> None:
    status, facts = compared(capsys, "--a", "GSW_DEMO=*=slow:3%", "--pairs=7", "--results=here")
    assert (status, facts["result"], facts["pairs_measured"]) == (0, "faster", 7)
    assert facts["throughput_ratio"] == pytest.approx(1.03, abs=0.01)
    assert (facts["a"], facts["b"], facts["simulated"]) == ({"GSW_DEMO": "*=slow:3%"}, {}, True)
    assert Path(facts["directory"]).parent == Path("here/ab").absolute()
    pair = facts["pairs"][1]
    assert (pair["a"]["turn"], pair["b"]["turn"], pair["b"]["exit_code"]) == (4, 3, 0)
    assert pair["throughput_ratio"] == pair["a"]["seconds"] / pair["b"]["seconds"]


def test_equal_sides_are_not_called_different(capsys: pytest.CaptureFixture[str]) -> None:
    status, facts = compared(capsys, "--a", "NCCL_ALGO=Ring", "--b", "NCCL_ALGO=Tree")
    assert (status, facts["result"]) == (0, "no_difference")
    assert len({turn["seconds"] for pair in facts["pairs"] for turn in (pair["a"], pair["b"])}) > 6
    assert 0 < facts["smallest_shown"] < 0.01


def test_a_drift_of_the_machine_is_not_a_difference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Each job's n-th turn takes n percent longer, whichever side it is of.
    recipe = tmp_path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    (recipe / "launch.sh").write_text(
        'log=$STAGE_PATH/results/1/bf16/1b/8/log-maxtext_tiny_1b_8_$SLURM_JOB_ID.out; mkdir -p "${log%/*}"\n'
        "echo >>turns; turns=$(wc -l <turns)\n"
        'for step in {0..19}; do printf "completed step: %d, seconds: 1.%02d0, loss: 9.0\\n" $step "$turns"; done >"$log"\n'
    )
    (tmp_path / "tiny.yaml").write_text(tiny_table("gpus: 8, step_time_s: 1.000, line: 10"))
    (tmp_path / "clusters.yaml").write_text(
        "clusters: {here: {scheduler: local, gpus: 8, stage: stage, recipes: recipes}}"
    )
    options = ("--cluster=here", "--baselines=tiny.yaml", "--b=X=1", "--pairs=8", "--json")
    assert main(["compare-ab", "tiny_1b_bf16[H100x8]", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["result"], facts["simulated"]) == ("no_difference", False)
    seconds = [turn["seconds"] for pair in facts["pairs"] for turn in (pair["a"], pair["b"])]
    assert sorted(seconds) == [pytest.approx(1 + turn / 100) for turn in range(1, 17)]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("exit:3", "the turn failed with exit code 3"),
        ("oom", "the turn failed with exit code 1: XLA out of memory"),
        ("no-log", "no log of the turn"),
        ("short", "the log holds 30 steps, 45 of 50 needed"),
        ("wrong-identity", "the log belongs to another run, by its model size"),
    ],
)
def test_turns_that_fail_are_no_pairs(capsys: pytest.CaptureFixture[str], fault: str, problem: str) -> None:
    assert compare("--b", f"GSW_DEMO=*={fault}") == 1
    lines = capsys.readouterr().out.splitlines()
    problems = [line for line in lines if line.startswith("turn ")]
    assert [line.partition(": ")[0] for line in problems] == [f"turn {n}-B" for n in (2, 3, 6, 7, 10, 11)]
    assert problems[0].partition(": ")[2].startswith(problem)
    assert lines[-1] == "not measured: 0 of 6 pairs, and a decision takes 6: fewer have p 0.062 at best"
    assert re.fullmatch(r" +1  1-A 2-B +4\.\d+", lines[8].rstrip())


def test_what_an_earlier_session_has_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("--b", "GSW_DEMO=*=slow:3%", "--pairs=7") == 1
    first = capsys.readouterr().out.splitlines()
    directory = the_directory()
    assert main(["compare-ab", "--of", str(directory)]) == 1
    again = capsys.readouterr().out.splitlines()
    assert again[3] == " ".join(first[3].split()[:1]) + " " * 8 + first[3].split()[1]
    assert again[:3] + again[4:] == first[:3] + first[4:]
    # A job that was ended in its eleventh turn.
    (directory / "11-B" / "ended.json").unlink()
    for path in sorted((directory / "12-A").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (directory / "12-A").rmdir()
    assert main(["compare-ab", "--of", str(directory)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "turn 11-B: has not ended" in lines
    assert "turn 12-A: has not started" in lines
    assert lines[-1].startswith("B is slower: ")
    assert lines[-1].endswith("; 6 of 7 pairs)")
    # Its row is one of another table now.
    (directory / "13-A" / "ended.json").write_text("{")
    assert main(["compare-ab", "--of", str(directory), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["pairs"][6]["a"]["problem"] == "has not ended"
    assert (facts["result"], facts["job"]) == ("not_measured", first[3].split()[1])


def test_a_secret_reaches_no_file_and_no_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "staple-of-the-session")
    assert compare(f"--b=NGC_API_KEY={WORDS}", "--b=SITE=staple-of-the-session", "--a", "GSW_DEMO=*=fail") == 1
    out, err = capsys.readouterr()
    assert "B          NGC_API_KEY='***' SITE='***'" in out
    directory = the_directory()
    texts = [path.read_text() for path in directory.rglob("*") if path.is_file()]
    for secret in (WORDS, "staple-of-the-session"):
        assert secret not in out + err + "".join(texts)


def test_a_row_without_its_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "recipes" / "maxtext").mkdir(parents=True)
    (tmp_path / "clusters.yaml").write_text(
        "clusters: {here: {scheduler: local, gpus: 64, stage: stage, recipes: recipes}}"
    )
    assert main(["compare-ab", ROW, "--cluster=here", "--b=X=1"]) == 1
    recipe = tmp_path / "recipes" / "maxtext"
    assert capsys.readouterr().err == (
        f"pytest-gsw compare-ab: the launch script is not there: {recipe}/launch.sh\n\n"
        f"recipes    clusters.yaml:1  recipes: {recipe.parent}\n"
        f"recipe     {find_row(ROW, None).location.path}:22  directory: maxtext\n"
        "next       run the recipe's setup.sh, or name the script in the table: recipe: {script: NAME}\n"
    )
    assert not Path(".gsw").exists()


def test_a_job_that_leaves_no_turn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "recipes" / "maxtext").mkdir(parents=True)
    (tmp_path / "recipes" / "maxtext" / "launch.sh").write_text("exit 0")
    (tmp_path / "clusters.yaml").write_text(
        "clusters: {here: {scheduler: local, gpus: 64, stage: stage, recipes: recipes}}"
    )
    log = tmp_path / "stage/results/x/fp8/70b/64/log-maxtext_llama2_70b_64_9000000000008.out"
    log.parent.mkdir(parents=True)
    log.touch()
    (tmp_path / "pytest-gsw").mkdir()
    (tmp_path / "pytest-gsw" / "local-job-id").write_text("9000000000007")
    assert main(["compare-ab", ROW, "--cluster=here", "--b=X=1"]) == 1
    err = capsys.readouterr().err.splitlines()
    assert "pytest-gsw compare-ab: job 9000000000008 failed with exit code 1" in err
    assert f"last       job 9000000000008 has not begun, and there is its log: {log}" in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "wanted a row and a cluster: pytest-gsw compare-ab ROW --cluster=NAME --b NAME=VALUE"),
        ([ROW], "wanted a row and a cluster: pytest-gsw compare-ab ROW --cluster=NAME --b NAME=VALUE"),
        (
            [ROW, "--cluster=demo"],
            "A and B are the same: nothing to compare\nnext: --a NCCL_ALGO=Ring --b NCCL_ALGO=Tree, or one of the two",
        ),
        (
            [ROW, "--cluster=demo", "--b=X=1", "--pairs=4"],
            (
                "--pairs: got '4', wanted 6 to 50\n"
                "fewer decide nothing: 5 pairs, all of one sign, have p 0.062, 6 0.031\nnext: --pairs=6"
            ),
        ),
        ([ROW, "--cluster=demo", "--b=X=1", "--pairs=51"], "--pairs: got '51', wanted 6 to 50\nnext: --pairs=50"),
        (
            [ROW, "--cluster=demo", "--b=X=1", "--timeout=0"],
            "--timeout: got '0', wanted a number of minutes above 0",
        ),
        (
            ["llama3.1_405b_bf16[H100x9999]", "--cluster=demo", "--b=X=1"],
            (
                "there is no row 'llama3.1_405b_bf16[H100x9999]'; did you mean 'llama3.1_405b_bf16[H100x96]'?\n"
                "next: pytest-gsw rows"
            ),
        ),
        (["--of=x", "--b=X=1"], "--of judges what was run; leave out --b"),
        ([ROW, "--of=x"], "--of judges what was run; leave out ROW"),
        (["--of=x"], "there is no comparison in x: plan.json: No such file or directory\nnext: ls ."),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    assert main(["compare-ab", *arguments]) == 2
    assert capsys.readouterr().err == f"pytest-gsw compare-ab: {problem}\n"
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ("scheduler: local, gpus: 8", "the row needs 64 GPUs, here has 8"),
        ("scheduler: local, accelerator: B200", "the row is for H100, here has B200"),
    ],
)
def test_a_cluster_that_the_row_is_not_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, cluster: str, problem: str
) -> None:
    (tmp_path / "clusters.yaml").write_text(f"clusters: {{here: {{{cluster}, stage: stage}}}}")
    assert main(["compare-ab", ROW, "--cluster=here", "--b=X=1"]) == 2
    assert capsys.readouterr().err == (
        f"pytest-gsw compare-ab: nothing to compare: {problem}\nnext: pytest-gsw rows lists the others\n"
    )


def test_a_row_that_runs_out_of_memory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(tiny_table("gpus: 8, expected_failure: out_of_memory, line: 10"))
    options = ("--cluster=demo", "--baselines=tiny.yaml", "--b=X=1")
    assert main(["compare-ab", "tiny_1b_bf16[H100x8]", *options]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw compare-ab: nothing to compare: tiny_1b_bf16[H100x8] is documented to run out of memory\n"
        "next: pytest-gsw rows lists the others\n"
    )


def test_a_row_of_which_nobody_knows_how_long_it_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = (
        tiny_table("gpus: 8, step_time_s: 1.000, line: 10")
        .replace(", steps: 20", "")
        .replace("dtype: bf16", "dtype: bf16\n    min_steps: 5")
    )
    (tmp_path / "tiny.yaml").write_text(table)
    (tmp_path / "clusters.yaml").write_text("clusters: {here: {scheduler: slurm, stage: stage}}")
    options = ("--cluster=here", "--baselines=tiny.yaml", "--b=X=1")
    assert main(["compare-ab", "tiny_1b_bf16[H100x8]", *options]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw compare-ab: how long tiny_1b_bf16[H100x8] runs is not documented, and the job is to run it 12 "
        "times\nnext: give the limit on the whole job with --timeout=MINUTES\n"
    )


def test_a_scheduler_of_a_plugin(capsys: pytest.CaptureFixture[str], tmp_path: Path, recipes: Path) -> None:
    Path("clusters.yaml").write_text(f"clusters: {{here: {{scheduler: flux, stage: stage, recipes: {recipes}}}}}")
    assert main(["compare-ab", ROW, "--cluster=here", "--b=X=1"]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw compare-ab: nobody launches jobs for the scheduler 'flux' of cluster 'here' "
        f"({Path('clusters.yaml').absolute()}); known: slurm, local\n"
        "next: name the plugin that does with -p MODULE\n"
    )


def test_results_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert compare("--b=X=1", "--results=file") == 2
    assert re.fullmatch(
        rf"pytest-gsw compare-ab: the turns cannot be kept in {tmp_path}/file/ab/[0-9a-f-]+: "
        r"(Not a directory|File exists)\nnext: give another directory with --results=DIR\n",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_ends_its_job(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_gsw.cli", "compare-ab", ROW, "--cluster=demo", "--b=GSW_DEMO=*=stall"],
        env=os.environ | {"AB_TEST_MARK": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As a shell starts its background jobs.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    give_up_s = time.monotonic() + 300
    while not list(tmp_path.glob(".gsw/ab/*/2-B")):
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (1, "")
    directory = the_directory()
    (job,) = re.findall(r"job ([0-9]+) on demo", err)
    assert err.endswith(
        f"pytest-gsw compare-ab: interrupted: job {job} was cancelled\n\n"
        f"next       pytest-gsw compare-ab --of {directory} judges its turns\n"
    )
    mark = f"AB_TEST_MARK={tmp_path}".encode()
    alive = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "environ").read_bytes():
                alive.append(place.name)
        except OSError:
            continue
    assert alive == []


def test_an_unknown_end_is_no_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipes: Path
) -> None:
    Path("clusters.yaml").write_text(f"clusters: {{here: {{scheduler: slurm, stage: stage, recipes: {recipes}}}}}")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, script in {"sbatch": "echo 7", "squeue": "echo away >&2; exit 1", "sacct": "exit 1"}.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setattr("pytest_gsw.fleet.patience.UNKNOWN_LIMIT_S", 0.2)
    monkeypatch.setattr("pytest_gsw.jobs.slurm.launcher.SlurmLauncher.poll_interval_s", 0.1)
    assert main(["compare-ab", ROW, "--cluster=here", "--b=X=1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(
        "pytest-gsw compare-ab: the end of job 7 is not known: squeue: away\n\n"
        f"next       it may still run; once it has ended: pytest-gsw compare-ab --of {the_directory()}\n"
    )


@pytest.mark.parametrize(
    ("recipe", "clusters", "problem"),
    [
        ("", "", "the directory of recipes is not there: {here}/recipes\n"),
        (': "${HF_TOKEN:?your token}"', "", "the launch script needs HF_TOKEN, which is not set\n"),
        ("true", ", partition: small", "the row needs 8 nodes, and the partition small has 4\n"),
    ],
)
def test_nothing_is_submitted_that_would_fail(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    clusters: str,
    problem: str,
) -> None:
    """As a session finds it before it submits a row."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    small = "PartitionName=small TotalNodes=4 MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0"
    put_on_path(
        tmp_path / "bin",
        monkeypatch,
        sbatch="touch submitted; exit 1",
        scontrol=f'case "$*" in *partition*) echo {small};; *) echo "JobSubmitPlugins = (null)";; esac',
    )
    if recipe:
        (tmp_path / "recipes" / "maxtext").mkdir(parents=True)
        (tmp_path / "recipes" / "maxtext" / "launch.sh").write_text(f"#!/bin/bash\n{recipe}\n")
    (tmp_path / "clusters.yaml").write_text(
        f"clusters: {{here: {{scheduler: slurm, stage: stage, recipes: recipes{clusters}}}}}"
    )
    assert main(["compare-ab", ROW, "--cluster=here", "--b", "NCCL_ALGO=Ring"]) == 1
    assert problem.format(here=tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "submitted").exists()
    assert not Path(".gsw").exists()
