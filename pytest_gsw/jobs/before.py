"""What has the name of a job's log before the job is there: an id that is given out again is not told by its number.

No clock alone decides. A log that was there before the submission is not the job's, however new it is; only a file
that was not there, or that has taken its place since, is, unless it was put there with the times of another run.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from pytest_gsw.common.words import moment
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.layout import JOB_ID, job_id_in
from pytest_gsw.jobs.model import Job, JobSpec, LogBefore

#: How far this machine's clock and a file server's may be apart.
CLOCK_SKEW_S = 300.0


def names_in(stage: Path, place: str) -> frozenset[str]:
    """The files in the directories of a glob, as paths below the staging area; a look at each directory, at no file."""
    directories = [name for name in place.split("/") if name not in {"", "."}]
    if "**" in directories:
        return frozenset(path.relative_to(stage).as_posix() for path in stage.glob(f"{place}/*"))
    return frozenset(_walk(str(stage), "", directories))


def names_before(spec: JobSpec, look: Callable[[Path, str], frozenset[str]] = names_in) -> frozenset[str]:
    """The files where logs of a row are, as paths below the staging area.

    Which of them have the name of a log is told by :func:`logs_before`, for the one job of which it is asked. ``look``
    may remember what it has seen for the rows that are submitted together.
    """
    place = spec.log_glob.replace(JOB_ID, "*").rpartition("/")[0]
    return look(spec.stage, place) if spec.log_glob else frozenset()


def logs_before(spec: JobSpec, job_id: str, names: Collection[str]) -> tuple[LogBefore, ...]:
    """Those of the files that have the job's id in their names, as they are now: the job has hardly begun."""
    noted = []
    for path in sorted(path for path in names if job_id in path):
        if job_id_in(path.rpartition("/")[2], spec.log_glob) == job_id:
            try:
                facts = (spec.stage / path).stat()
            except OSError:
                continue  # gone: what is there later came after
            noted.append(LogBefore(path, facts.st_size, facts.st_ino, facts.st_mtime_ns))
    return tuple(noted)


def check_new(job: Job, log: Path) -> None:
    """Raise a LogError where a log was there before its job was submitted."""
    try:
        facts = log.stat()
    except OSError:
        return  # gone again: its reader will say so
    if job.logs_before is None:
        is_old, then_ns = facts.st_mtime < job.submitted_s - CLOCK_SKEW_S, facts.st_mtime_ns
    else:
        before = next((one for one in job.logs_before if job.spec.stage / one.path == log), None)
        is_old = _is_put_there(facts, job) if before is None else before.inode == facts.st_ino
        then_ns = facts.st_mtime_ns if before is None else before.mtime_ns
    if not is_old:
        return
    since = "" if then_ns == facts.st_mtime_ns else ", and something has written to it since"
    raise LogError(
        f"no log of job {job.id} but an older one: it was last written at {moment(then_ns / 1e9)}{since}",
        (("log", str(log)), ("job", f"{job.id}, submitted at {moment(job.submitted_s)}")),
        advice="an earlier job had the same id; move its results away, and run the row again",
    )


def _is_put_there(facts: os.stat_result, job: Job) -> bool:
    """Whether a file has come with the times of another run: it was moved, or copied with its times.

    Both must say so: it was last written before the submission, by this machine's clock, and long before it got its
    name, by the file server's alone, which may be hours behind.
    """
    written_s = facts.st_mtime
    return written_s < job.submitted_s - CLOCK_SKEW_S and written_s < facts.st_ctime - CLOCK_SKEW_S


def _walk(stage: str, below: str, directories: list[str]) -> Iterator[str]:
    """All names in the directories of a glob of single names, as paths below the staging area."""
    try:
        names = os.listdir(f"{stage}/{below}")  # noqa: PTH208 - Path costs more than the look
    except OSError:
        return  # not there yet, or no directory
    if not directories:
        yield from (f"{below}{name}" for name in names)
        return
    for name in fnmatch.filter(names, directories[0]):
        yield from _walk(stage, f"{below}{name}/", directories[1:])
