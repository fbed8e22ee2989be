"""The copies of a login node's files: equal to them after each read that is whole, whatever happened to them."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.jobs.layout import JOB_ID
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.ssh import login_helper, mirror
from pytest_gsw.jobs.ssh.login_helper import Helper
from pytest_gsw.jobs.ssh.mirror import Mirror, texts_of


def job_of(copies: Mirror, stage: Path, job_id: str = "7", log_glob: str = f"logs/log_{JOB_ID}.out") -> Job:
    there = copies.here(stage)
    return Job(job_id, JobSpec("row", "row", there / "launch.sh", there, there, 1, 8, {}, log_glob=log_glob), 0.0)


class Reads:
    """Reads of a job's files, in pieces."""

    def __init__(self, root: Path, stage: Path, job_id: str = "7") -> None:
        self.mirror = Mirror(root)
        self.job = job_of(self.mirror, stage, job_id)
        self._helper = Helper()

    def ask(self) -> tuple[dict[str, Any], bytes]:
        wanted = [self.mirror.wanted(self.job, None, ())]
        return self._helper.read(wanted, self.mirror.copies_of([self.job]))

    def read(self) -> dict[str, int]:
        result, blob = self.ask()
        self.mirror.receive([self.job], result, blob)
        return {path: facts["size"] for path, facts in result["files"].items()}

    def read_whole(self) -> None:
        goals = self.read()
        while self.mirror.lacking(goals) > 0:
            self.read()


_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "replace", "rewrite"]), st.binary(max_size=60)),
        st.tuples(st.just("truncate"), st.integers(0, 60)),
        st.tuples(st.sampled_from(["remove", "read", "read", "ask", "late"]), st.none()),
    ),
    max_size=20,
)


@given(changes=_CHANGES)
def test_a_copy_is_its_file(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login_helper, "MOST_BYTES", 16)
        directory = tmp_path_factory.mktemp("copies")
        log = directory / "there" / "logs" / "log_7.out"
        log.parent.mkdir(parents=True)
        reads = Reads(directory / "here", directory / "there")
        late: list[tuple[dict[str, Any], bytes]] = []
        for change, value in changes:
            if change == "append":
                with log.open("ab") as file:
                    file.write(value)
            elif change == "replace":
                (directory / "new").write_bytes(value)
                (directory / "new").replace(log)
            elif change == "rewrite":
                log.write_bytes(value)
            elif change == "truncate" and log.exists():
                os.truncate(log, min(value, log.stat().st_size))
            elif change == "remove":
                log.unlink(missing_ok=True)
            elif change == "read":
                reads.read()
            elif change == "ask":  # of two requests at once, the answers may come in any order
                late.append(reads.ask())
            elif change == "late" and late:
                reads.mirror.receive([reads.job], *late.pop())
        if log.exists():
            reads.read_whole()
            copy = reads.mirror.here(log)
            assert reads.mirror.problem(copy) == ""
            assert copy.read_bytes() == log.read_bytes()
            facts, own = reads.mirror.facts(copy), log.stat()
            assert facts is not None
            assert (facts.inode, facts.mtime_ns) == (own.st_ino, own.st_mtime_ns)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "there" / "logs" / "log_7.out"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"step 1\n")
    return path


@pytest.fixture
def reads(tmp_path: Path, log: Path) -> Reads:
    return Reads(tmp_path / "here", tmp_path / "there")


def test_a_file_that_was_never_read(reads: Reads, log: Path) -> None:
    copy = reads.mirror.here(log)
    assert reads.mirror.problem(copy)
    assert reads.mirror.facts(copy) is None
    assert reads.mirror.lacking({str(log): 7}) == 0


def test_a_disk_that_is_full_here(reads: Reads, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = reads.mirror.here(log)
    reads.read_whole()
    write = mirror._write

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log.write_bytes(b"step 1\nstep 2\n")
    monkeypatch.setattr(mirror, "_write", fail)
    reads.read_whole()  # it ends
    assert "No space left on device" in reads.mirror.problem(copy)
    monkeypatch.setattr(mirror, "_write", write)
    reads.read_whole()
    assert reads.mirror.problem(copy) == ""
    assert copy.read_bytes() == log.read_bytes()


def test_a_disk_that_is_full_within_a_write(reads: Reads, log: Path) -> None:
    """A full device takes the open and no byte."""
    copy = reads.mirror.here(log)
    copy.parent.mkdir(parents=True)
    copy.symlink_to("/dev/full")
    reads.read_whole()
    assert reads.mirror.problem(copy)
    copy.unlink()
    reads.read_whole()
    assert reads.mirror.problem(copy) == ""
    assert copy.read_bytes() == log.read_bytes()


def test_answers_in_another_order(reads: Reads, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads read one file: an early answer of one comes late, and the next one of the other has no gap before it."""
    monkeypatch.setattr(login_helper, "MOST_BYTES", 8192)
    log.write_bytes(random.Random(1).randbytes(40_000))  # noqa: S311 - no secret
    early = reads.ask()
    reads.read()
    reads.read()
    next_piece = reads.ask()
    for answer in (early, next_piece):
        reads.mirror.receive([reads.job], *answer)
    reads.read_whole()
    assert reads.mirror.here(log).read_bytes() == log.read_bytes()


def test_a_copy_that_was_removed_here(reads: Reads, log: Path) -> None:
    copy = reads.mirror.here(log)
    reads.read_whole()
    copy.unlink()
    reads.read_whole()
    reads.read_whole()
    assert reads.mirror.problem(copy) == ""
    assert copy.read_bytes() == log.read_bytes()


def test_a_file_that_cannot_be_read_there(reads: Reads, log: Path) -> None:
    result, _ = reads.ask()
    facts = {name: result["files"][str(log)][name] for name in ("mtime_ns", "ctime_ns", "size", "inode", "path")}
    refused = {"files": {str(log): {**facts, "problem": "Permission denied"}}, "jobs": [[str(log)]]}
    reads.mirror.receive([reads.job], refused, b"")
    assert reads.mirror.problem(reads.mirror.here(log)) == "Permission denied"
    assert reads.mirror.lacking({str(log): 7}) == 0
    reads.read_whole()
    assert reads.mirror.problem(reads.mirror.here(log)) == ""


@pytest.mark.parametrize("name", ["/a/../../escape", "relative", "/a//b", "/a/./b"])
def test_names_that_lead_out_are_not_written(reads: Reads, tmp_path: Path, name: str) -> None:
    facts = {"mtime_ns": 0, "ctime_ns": 0, "size": 1, "inode": 1, "offset": 0, "length": 1}
    reads.mirror.receive([reads.job], {"files": {name: facts}, "jobs": [[name]]}, b"x")
    assert not list(tmp_path.glob("here/**/*"))
    assert reads.mirror.copies_of([reads.job]) == {}


def test_small_ids_in_one_directory(tmp_path: Path, log: Path) -> None:
    (log.parent / "log_17.out").write_text("other")
    (log.parent / "rank_7.err").write_text("own")
    reads = Reads(tmp_path / "here", tmp_path / "there")
    assert {Path(path).name for path in reads.read()} == {"log_7.out", "rank_7.err"}
    assert {Path(path).name for path in reads.mirror.copies_of([reads.job])} == {"log_7.out", "rank_7.err"}


def test_paths(tmp_path: Path) -> None:
    copies = Mirror(tmp_path / "here")
    copy = copies.here("/stage/log.out")
    assert copies.holds(copy)
    assert copies.here(copy) == copy
    assert not copies.holds(tmp_path / "hereabouts")
    assert copies.there(f"--output={copy}") == "--output=/stage/log.out"


def test_a_name_with_a_pattern_is_itself(tmp_path: Path) -> None:
    stage = tmp_path / "sta[g]e*"
    (stage / "logs").mkdir(parents=True)
    (stage / "logs" / "log_7.out").write_text("x")
    assert len(Reads(tmp_path / "here", stage).read()) == 1


# -- Recipes ------------------------------------------------------------------------------------------


@pytest.fixture
def survey(tmp_path: Path) -> Callable[[list[Path], list[Path]], Mirror]:
    copies = Mirror(tmp_path / "here")

    def look(directories: list[Path], files: list[Path]) -> Mirror:
        result, blob = Helper().survey(list(map(str, directories)), list(map(str, files)))
        copies.survey(map(copies.here, directories), map(copies.here, files), result, blob)
        return copies

    return look


def test_a_recipe_here_is_what_it_is_there(tmp_path: Path, survey: Callable[..., Mirror]) -> None:
    recipe, release = tmp_path / "recipe", tmp_path / "release.txt"
    recipe.mkdir()
    for path in (recipe / "launch.sh", recipe / "other.txt", release):
        path.write_text(path.name)
    (recipe / "launch.sh").chmod(0o755)
    copies = survey([recipe], [release, tmp_path / "none"])
    here = copies.here(recipe)
    assert os.access(here / "launch.sh", os.X_OK)
    assert [path.read_text() for path in sorted(here.iterdir())] == ["launch.sh", "other.txt"]
    assert copies.here(release).read_text() == "release.txt"
    # A resumed run has copies already: what is gone there goes here.
    (recipe / "launch.sh").write_text("changed")
    (recipe / "other.txt").unlink()
    release.unlink()
    survey([recipe], [release])
    assert [path.read_text() for path in sorted(here.iterdir())] == ["changed"]
    assert not copies.here(release).exists()
    for path in recipe.iterdir():
        path.unlink()
    recipe.rmdir()
    survey([recipe], [])
    assert not here.exists()


def test_texts_of_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.sh").write_text("é")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_text("x" * 11)
    assert dict(texts_of(tmp_path, 10)) == {"deep/a.sh": "é", "binary": None, "large": None}
