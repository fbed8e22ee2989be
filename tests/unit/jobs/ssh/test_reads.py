"""Copies of files that change while they are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.ssh import login_helper
from pytest_gsw.jobs.ssh.login import Login

MakeLogin = Callable[..., Login]

LARGE = b"x" * (2 * login_helper.MOST_BYTES + 1)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The directory of the job's log, on the login node."""
    place = tmp_path / "stage/results"
    place.mkdir(parents=True)
    return place


def _job(login: Login, tmp_path: Path) -> Job:
    stage = login.mirror.here(tmp_path / "stage")
    spec = JobSpec("a", "gsw-a", stage / "launch.sh", stage, stage, 1, 8, {}, log_glob="results/log_{job_id}.out")
    return Job("7", spec, 0.0)


def _read(login: Login, job: Job) -> None:
    login.read([job], [login.mirror.wanted(job, None, [])])


def test_a_log_that_is_gone_is_gone_here(make_login: MakeLogin, tmp_path: Path, results: Path) -> None:
    login = make_login()
    job, log = _job(login, tmp_path), results / "log_7.out"
    log.write_text("steps")
    _read(login, job)
    assert login.mirror.here(log).read_text() == "steps"
    log.unlink()
    _read(login, job)
    assert not login.mirror.here(log).exists()
    log.write_text("others")
    _read(login, job)
    assert login.mirror.here(log).read_text() == "others"


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_a_file_that_changes_while_it_is_read_ends_the_read(
    change: str, make_login: MakeLogin, tmp_path: Path, results: Path
) -> None:
    login = make_login()
    job, log = _job(login, tmp_path), results / "log_7.out"
    log.write_bytes(LARGE)
    receive, answers = login.mirror.receive, 0

    def changed(*arguments: Any) -> None:
        nonlocal answers
        answers += 1
        assert answers < 10
        receive(*arguments)
        if change == "remove":
            log.unlink(missing_ok=True)
        else:
            log.write_bytes(os.urandom(1) * len(LARGE))

    login.mirror.receive = changed  # type: ignore[method-assign]
    _read(login, job)
    copy = login.mirror.here(log)
    assert not copy.exists() if change == "remove" else login.mirror.problem(copy)


def test_a_large_log_is_read_whole(make_login: MakeLogin, tmp_path: Path, results: Path) -> None:
    login = make_login()
    job, log = _job(login, tmp_path), results / "log_7.out"
    log.write_bytes(LARGE)
    _read(login, job)
    assert login.mirror.here(log).read_bytes() == LARGE
    assert not login.mirror.problem(login.mirror.here(log))


def test_profiles_and_checkpoints_next_to_a_log_stay_there(
    make_login: MakeLogin, tmp_path: Path, results: Path
) -> None:
    login = make_login()
    job = _job(login, tmp_path)
    for name in ("log_7.out", "sbatch_7.out", "profile_7.nsys-rep"):
        (results / name).write_bytes(LARGE)
    (results / "config_7.yaml").write_text("a: 1")
    _read(login, job)
    here = login.mirror.here(results)
    assert sorted(path.name for path in here.iterdir()) == ["config_7.yaml", "log_7.out", "sbatch_7.out"]
