from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.files import make_directory
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.layout import find_log, find_logs, job_id_in, log_glob, other_outputs_of, slurm_name
from pytest_gsw.jobs.model import Job, JobSpec

GLOB = log_glob("maxtext", "llama2", "70b", "fp8", 64)


def put(stage: Path, name: str = "log-maxtext_llama2_70b_64_7.out", version: str = "24.11") -> Path:
    log = stage / "results" / version / "fp8" / "70b" / "64" / name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("step 1\n")
    return log


def test_the_recipes_layout() -> None:
    assert GLOB == "results/*/fp8/70b/64/log-maxtext_llama2_70b_64_{job_id}.out"


def test_a_log_is_found_by_its_job_alone(tmp_path: Path) -> None:
    log = put(tmp_path)
    put(tmp_path, "log-maxtext_llama2_70b_64_8.out")  # a later run of the row
    put(tmp_path, "log-maxtext_llama2_70b_64_77.out")
    put(tmp_path, "log-nemo_llama3.1_70b_64_7.out")  # another recipe writes to the same directory
    put(tmp_path, "log-maxtext_llama2_70b_64_7.err")
    assert find_log(tmp_path, GLOB, "7", nccl_trace=False) == log


def job(stage: Path, job_id: str = "7") -> Job:
    spec = JobSpec("row", "gsw", stage / "launch.sh", stage, stage, 8, 64, environment={}, log_glob=GLOB)
    return Job(job_id, spec, 0.0)


def test_what_a_recipe_writes_beside_its_log(tmp_path: Path) -> None:
    log = put(tmp_path)
    assert other_outputs_of(job(tmp_path), log, None) == ()
    errors = put(tmp_path, "log-maxtext_llama2_70b_64_7.err")
    put(tmp_path, "log-maxtext_llama2_70b_64_8.err")
    assert other_outputs_of(job(tmp_path), log, None) == (errors,)
    log.unlink()  # the step never began
    assert other_outputs_of(job(tmp_path), None, None) == (errors,)
    batch, shells = tmp_path / "slurm-7.out", tmp_path / "slurm-7.err"
    shells.write_text("")
    assert other_outputs_of(job(tmp_path), None, batch) == (shells, errors)
    errors.unlink()
    errors.mkdir()
    assert other_outputs_of(job(tmp_path), None, None) == ()


def no_log(stage: Path, glob: str = GLOB, job_id: str = "7") -> LogError:
    with pytest.raises(LogError) as none:
        find_log(stage, glob, job_id, nccl_trace=False)
    return none.value


def test_what_nemo_run_writes_beside_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log-eos-x_7_0.out"
    shell = tmp_path / "sbatch_eos-x_7.out"
    for path in (log, shell, tmp_path / "sbatch_eos-x_77.out"):
        path.write_text("")
    assert other_outputs_of(job(tmp_path), log, None) == (shell,)
    assert other_outputs_of(job(tmp_path), log, shell) == ()  # it is known as the batch shell's


def test_none(tmp_path: Path) -> None:
    near = [put(tmp_path, f"log-maxtext_llama2_70b_64_{number}.out") for number in range(10, 17)]
    for age_s, log in enumerate(near):
        os.utime(log, (1000 - age_s, 1000 - age_s))
    directory = tmp_path / "results/24.11/fp8/70b/64"
    assert str(no_log(tmp_path)) == (
        "no log of job 7\n"
        "\n"
        f"searched   {tmp_path}/results/*/fp8/70b/64/log-maxtext_llama2_70b_64_7.out\n"
        + "".join(f"there is   {directory}/log-maxtext_llama2_70b_64_{number}.out\n" for number in range(10, 15))
        + "           and 2 more\n"
        f"next       ls -lt {directory}"
    )


@pytest.mark.parametrize(
    ("there", "told"), [("results/24.11/bf16/70b/64", "{}/results/24.11/bf16"), (".", "nothing in {}")]
)
def test_none_because_of_another_dtype_or_in_an_empty_staging_area(tmp_path: Path, there: str, told: str) -> None:
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    assert no_log(tmp_path).evidence[1:] == (("there is", told.format(tmp_path)),)


def test_several(tmp_path: Path) -> None:
    old, new = put(tmp_path, version="24.11"), put(tmp_path, version="25.01")
    assert str(no_log(tmp_path)) == (
        "2 logs of job 7, and it is unknown which of them it wrote\n"
        "\n"
        f"searched   {tmp_path}/results/*/fp8/70b/64/log-maxtext_llama2_70b_64_7.out\n"
        f"candidate  {old}\n"
        f"candidate  {new}\n"
        "next       remove the copies: one job writes one log"
    )


def test_nccl_traces_count_for_nccl_tracing_alone(tmp_path: Path) -> None:
    traced = put(tmp_path, version="25.01-nccl-trace")
    assert find_log(tmp_path, GLOB, "7", nccl_trace=True) == traced
    assert no_log(tmp_path).fact == "no log of job 7"
    plain = put(tmp_path, version="25.01")
    assert find_log(tmp_path, GLOB, "7", nccl_trace=False) == plain


def test_special_characters_are_meant(tmp_path: Path) -> None:
    glob = log_glob("fw", "gpt[3]", "*", "fp8", 64)
    directory = tmp_path / "results/24.11/fp8/*/64"
    directory.mkdir(parents=True)
    log = directory / "log-fw_gpt[3]_*_64_7.out"
    log.write_text("")
    (directory / "log-fw_gpt3_x_64_7.out").write_text("")
    assert find_log(tmp_path, glob, "7", nccl_trace=False) == log


def test_links_out_of_the_results_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    put(elsewhere)
    stage = tmp_path / "stage"
    (stage / "results").mkdir(parents=True)
    (stage / "results" / "24.11").symlink_to(elsewhere / "results" / "24.11")
    assert find_logs(stage, GLOB, nccl_trace=False) == []
    directory = f"{stage}/results/24.11/fp8/70b/64"
    assert str(no_log(stage)) == (
        "no log of job 7\n"
        "\n"
        f"searched   {stage}/results/*/fp8/70b/64/log-maxtext_llama2_70b_64_7.out\n"
        f"passed over {stage}/results/24.11 is a symbolic link that leads out of {stage}/results\n"
        f"there is   {directory}/log-maxtext_llama2_70b_64_7.out\n"
        f"next       ls -lt {directory}"
    )


def test_a_link_that_stays_in_the_results_is_followed(tmp_path: Path) -> None:
    put(tmp_path, version="25.01")
    (tmp_path / "results" / "latest").symlink_to("25.01")
    logs = find_logs(tmp_path, GLOB, nccl_trace=False)
    assert [log.path.parts[-5] for log in logs] == ["25.01", "latest"]


@pytest.mark.parametrize("link", [".", "results"])
def test_the_staging_area_and_the_results_may_be_links(tmp_path: Path, link: str) -> None:
    put(tmp_path / "lustre")
    place = tmp_path / "stage" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "lustre" / link)
    assert len(find_logs(tmp_path / "stage", GLOB, nccl_trace=False)) == 1


@pytest.mark.parametrize(("mask", "mode"), [(0o000, 0o775), (0o022, 0o755), (0o077, 0o700)])
def test_directories_are_never_everybodys(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        for _ in range(2):
            make_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [mode, mode]


def test_a_directory_is_no_log(tmp_path: Path) -> None:
    put(tmp_path).with_name("log-maxtext_llama2_70b_64_9.out").mkdir()
    assert [log.job_id for log in find_logs(tmp_path, GLOB, nccl_trace=False)] == ["7"]


def test_the_job_in_a_name() -> None:
    for job_id in ("481220", "f734016966", "123.server", "pod-abc"):
        assert job_id_in(f"log-maxtext_llama2_70b_64_{job_id}.out", GLOB) == job_id
    assert job_id_in("log-maxtext_llama2_70b_64_8_481220.out", GLOB) is None
    assert job_id_in("log-maxtext_llama2_70b_128_481220.out", GLOB) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama2_70b_fp8[H100x64]", "llama2_70b_fp8-H100x64"),
        ("a b/c|d;e", "a-b-c-d-e"),
        ("--help", "help"),
        ("", "gsw"),
        ("é", "gsw"),
    ],
)
def test_names_for_slurm(text: str, name: str) -> None:
    assert slurm_name(text) == name


@given(st.text())
def test_names_for_slurm_are_safe(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,127}", slurm_name(text))


@pytest.mark.parametrize("job_id", ["f734016966", "123.server", "pod-abc", "123[4].server", "a*b?", "x_1", "ƒ2oJk"])
def test_ids_of_jobs_are_text(tmp_path: Path, job_id: str) -> None:
    directory = tmp_path / "results" / "v1" / "fp8" / "70b" / "64"
    directory.mkdir(parents=True)
    log = directory / f"log-maxtext_llama2_70b_64_{job_id}.out"
    log.touch()
    (directory / "log-maxtext_llama2_70b_64_123x4y.server.out").touch()
    (directory / "log-maxtext_llama2_70b_64_aXbY.out").touch()
    assert find_log(tmp_path, GLOB, job_id, nccl_trace=False) == log
