"""Ids of local jobs: unique, and counted where nobody else can write."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from pytest_gsw.jobs.local import next_job_id


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def test_ids_are_unique_whoever_asks(environ: dict[str, str]) -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend(next_job_id(environ) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 80


@pytest.mark.parametrize("text", ["", "x", "7", "-1", "9" * 400])
def test_a_lost_counter_gives_no_old_id_again(environ: dict[str, str], tmp_path: Path, text: str) -> None:
    before = int(time.time() * 1000)
    first = int(next_job_id(environ))
    (tmp_path / "pytest-gsw" / "local-job-id").write_text(text)
    assert int(next_job_id(environ)) >= first >= before


def test_where_the_counter_is(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    next_job_id(environ)
    assert (tmp_path / "pytest-gsw").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "pytest-gsw" / "local-job-id").stat().st_mode & 0o777 == 0o600
    next_job_id({"HOME": str(tmp_path / "home")})
    assert (tmp_path / "home" / ".local" / "state" / "pytest-gsw" / "local-job-id").is_file()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    for nowhere in ({}, {"HOME": "relative"}, {"HOME": "/proc/none"}):
        next_job_id(nowhere)
    assert (tmp_path / "tmp" / f"pytest-gsw-{os.geteuid()}").stat().st_mode & 0o777 == 0o700


def test_a_temporary_directory_that_others_may_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    theirs = tmp_path / f"pytest-gsw-{os.geteuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    with pytest.raises(PermissionError, match="it is no directory that only you can write to"):
        next_job_id({})
    theirs.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    theirs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="it is no directory that only you can write to"):
        next_job_id({})


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_home_on_a_file_server_without_locks(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    lock = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path / "pytest-gsw"):
            raise OSError(number, os.strerror(number))
        lock(descriptor, operation)

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(fcntl, "flock", flock)
    first = int(next_job_id(environ))
    assert int(next_job_id(environ)) > first
    assert (tmp_path / "tmp" / f"pytest-gsw-{os.geteuid()}" / "local-job-id").is_file()
