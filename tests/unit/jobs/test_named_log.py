"""Logs that launch scripts name themselves, and scripts of which the name is not certain."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import JOB_ID
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.named_log import named_log, with_log

#: The place by the launch contract.
CONTRACT = f"results/*/bf16/1b/8/log-x_tiny_1b_8_{JOB_ID}.out"


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    own = {"STAGE_PATH": "/stage", "JOB_TOTAL_GPUS": "512"}
    return JobSpec("a", "a", tmp_path / "launch.sh", tmp_path, Path("/stage"), 1, 8, own, log_glob=CONTRACT)


def log(spec: JobSpec, *lines: str, **environ: str) -> str | SubmissionError | None:
    spec.script.write_text("\n".join(("#!/bin/bash", *lines, "")))
    return named_log(spec, environ)


@pytest.mark.parametrize(
    "options",
    [
        "--output=$LOGS/t_%j.out",
        '--output "$LOGS/t_%j.out" --label',
        "-o $LOGS/t_%j.out",
        "-o$LOGS/t_%j.out",
        '"--output=${LOGS}/t_%j.out"',
        "--out $LOGS//./t_$SLURM_JOB_ID.out",
        '--container-image "$IMAGE" --no-container-mount-home -N 2 $MORE --output=${LOGS}/t_%j.out',
        "--output=x.out --output=$LOGS/t_%j.out",
    ],
)
@pytest.mark.parametrize("program", ["python train.py --output=other", 'bash -c "train --output x"'])
def test_the_name_as_srun_reads_it(spec: JobSpec, options: str, program: str) -> None:
    found = log(spec, "LOGS=${LOGS:-$STAGE_PATH/own}", "", f"srun \\\n    {options} \\\n    {program}")
    assert found == f"/stage/own/t_{JOB_ID}.out"
    assert with_log(spec, found).log_glob == f"own/t_{JOB_ID}.out"
    found = log(spec, f"LOGS=/else; srun {options} {program}", LOGS="/else")
    assert found == f"/else/t_{JOB_ID}.out"
    elsewhere = with_log(spec, found)
    assert (elsewhere.stage, elsewhere.log_glob) == (Path("/else"), f"t_{JOB_ID}.out")


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        (["T=$(date +%F_%T)", "srun -o /a/t_${T}_%j.out x"], f"/a/t_*_{JOB_ID}.out"),
        (["srun -o /a/$(date +%F)/t_%j_${SLURM_RESTART_COUNT:-0}.out x"], f"/a/*/t_{JOB_ID}_*.out"),
        (["srun -o /a/${A:-${B:-b}}_%j.out x"], f"/a/b_{JOB_ID}.out"),
        (["export A=X", "A=${A,,}", "time srun -o /a/${A}_%j.out x"], f"/a/x_{JOB_ID}.out"),
        (["export A=a B='b c'  C=$(date +%F)", "srun -o /a/${A}_${B}_${C}_%j.out x"], f"/a/a_b c_*_{JOB_ID}.out"),
        (["A=/a", "export A=/b B=${A}_x", "srun -o $A$B/t_%j.out x"], f"/b/a_x/t_{JOB_ID}.out"),
        (["if true; then", "  export A=b B=c", "fi", "srun -o /a/${A}${B}_%j.out x"], f"/a/**_{JOB_ID}.out"),
        (["if true; then", "  A=b", "else", "  A=c", "fi", "srun -o /a/${A}_%j.out x"], f"/a/*_{JOB_ID}.out"),
        (
            ["cat >x <<'END'", "A=wrong", "srun -o /b x", "END", "A=c", "B=1 srun -o /a/${A}_%j.out x"],
            f"/a/c_{JOB_ID}.out",
        ),
        (["bash <<END", "srun -o /a/%j.out x", "END"], f"/a/{JOB_ID}.out"),
        (["srun hostname", "srun -o /a/%j.out x"], f"/a/{JOB_ID}.out"),
        (["srun -o /a/%j.out x &", "srun --output=/a/%j.out y"], f"/a/{JOB_ID}.out"),
        (["srun -o /a/%J_[1].out --log-interval 1 x"], f"/a/{JOB_ID}.*_[[]1].out"),
        (["L=$STAGE_PATH/logs/log-x_%j.out", 'srun --output="$L" x'], f"/stage/logs/log-x_{JOB_ID}.out"),
    ],
)
def test_values_of_the_script(spec: JobSpec, lines: list[str], path: str) -> None:
    assert log(spec, *lines) == path


def test_a_relative_name_is_in_the_recipes_directory(spec: JobSpec) -> None:
    assert log(spec, "srun -o t_%j.out x") == f"{spec.directory}/t_{JOB_ID}.out"
    assert isinstance(log(spec, "cd /x", "srun -o t_%j.out x"), SubmissionError)


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        (["T=$(date +%F)", "srun --output /a/t_$T.out x"], "names its log without the job's id"),
        (["srun --output=/a/%j/t.out x"], "names its log without the job's id"),
        (["srun -o /a/s_%j.out serve &", "srun -o /a/b_%j.out bench"], "names 2 logs, and one row has one"),
        *(
            ([*lines, "srun -o $A/t_%j.out x"], "names a log whose path is not certain")
            for lines in (
                [],
                ["A=$(cat f)"],
                ["A=~/x"],
                ["A=$1"],
                ["A=${B%/*}"],
                ["if true; then", "  A=/x/y", "fi"],
                ["A+=/b"],
            )
        ),
        (["srun -o /a/t_%t_%j.out x"], "names a log whose path is not certain"),
        (["srun -o /a/../t_%j.out x"], "names a log whose path is not certain"),
    ],
)
def test_a_name_by_which_no_log_is_found(spec: JobSpec, lines: list[str], fact: str) -> None:
    found = log(spec, *lines)
    assert isinstance(found, SubmissionError), found
    assert found.fact == f"launch.sh {fact}"
    assert found.advice
    assert str(spec.script) in found.evidence[0][1]


@pytest.mark.parametrize(
    "lines",
    [
        ["srun python train.py --output=x"],
        ['srun bash -c "enroot import --output $STAGE_PATH/x.sqsh docker://x"'],
        ["echo srun --output=/a/x y", "# srun --output=/a/x y"],
        ["cat <<END", "srun --output=/a/x y", "END"],
        # The launch contract's log, beside a server's.
        ["srun -o /a/s_%j.out serve &", "bench >$R/log-x_tiny_1b_8_$SLURM_JOB_ID.out"],
        ["export SRUN_OUTPUT=${SRUN_OUTPUT-x}", "srun -o /a/s.out serve &", "srun -o /a/t.out x"],
        # The batch shell's output has the training's.
        ["srun -o /a/p.out prepare", "srun train"],
        ["srun --output=/dev/null x"],
        ["srun --output"],
    ],
)
def test_a_script_that_leaves_the_name_to_the_launch_contract(spec: JobSpec, lines: list[str]) -> None:
    assert log(spec, *lines) is None


def test_a_job_with_a_directory_of_its_own_has_its_log_there(spec: JobSpec) -> None:
    class Own(type(spec.launch)):  # type: ignore[misc]
        has_directory = True

    assert log(dataclasses.replace(spec, launch=Own()), "srun -o /a/t.out x") is None


@pytest.mark.parametrize(
    "text", ["(((($((", '"$(', "A=$A$A\n", "srun -o ", "`'\"", "<<A\n", "  srun=${", "a " * 9, "export A=x B=", "A=x "]
)
def test_hostile_scripts_are_read_in_bounded_time(spec: JobSpec, text: str) -> None:
    log(spec, "A=xx", text * (60_000 // len(text)), "srun -o $A x")


@pytest.mark.parametrize("line", ["export MOUNTS={}", "MOUNTS={} python x.py", "MOUNTS={} srun -o /a/t_%j.out x"])
def test_many_expansions_in_one_word_are_read_in_bounded_time(spec: JobSpec, line: str) -> None:
    words = ",".join(f"${{A{n}}}:${{B{n}}}" for n in range(200))
    assert log(spec, line.format(words), "srun -o /a/t_%j.out x") == "/a/t_{job_id}.out"
