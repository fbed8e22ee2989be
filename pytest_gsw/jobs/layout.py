"""Paths of jobs' logs, as the recipes write them.

Below the staging area::

    results/$GSW_VERSION/$DTYPE/$MODEL_SIZE/$GPUS/log-<framework>_<model>_<size>_<gpus>_<job id>.out

All runs of a row share one directory and differ in the job's id alone, and other recipes with the
same size, dtype and number of GPUs write there too. A row without a size gets no ``MODEL_SIZE``: its logs are
where the recipe puts them without one, under any size. The last one by name need not be the
last run (999999 sorts after 1000000): a log is found by its job's id or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_gsw.common.text import moment
from pytest_gsw.errors import LogError, NoLogError
from pytest_gsw.jobs.model import ERROR_SUFFIX, FoundLog, Job, JobSpec, LogBefore
from pytest_gsw.tables.model import Baseline

#: Placeholder of the job's id in a log glob.
JOB_ID = "{job_id}"
#: Placeholder of the recipe's size if the row has none; it contains no underscore.
ANY_SIZE = "{size}"

#: The directory of all results below the staging area.
_RESULTS = "results"
#: With ENABLE_NCCL_TRACE=true recipes train 10 steps only, below ``results/25.01-nccl-trace``.
_NCCL_TRACE = "-nccl-trace"
#: The name of a directory, or a log's own.
_TRACED = re.compile(rf"{_NCCL_TRACE}(?:/|\Z)")

#: Accepted job ids: ``481220``, ``f734016966``, ``123.server``, ``pod-abc``. With an underscore, another row's
#: number of GPUs would be part of it.
_ANY_JOB_ID = r"[A-Za-z0-9][A-Za-z0-9.:@+~-]{0,127}"

#: Errors of a file that do not come from a temporary failure of its file system.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM})

_LOG_SUFFIXES = frozenset({".out", ".log", ".txt"})
_SLURM_NAME = re.compile(r"slurm-([0-9]+)\.out")
_NEAR_MISSES_SHOWN = 5
_LONGEST_NAME = 128
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")


#: Cached: rows have few words, and those of one table share most of them.
_escaped = lru_cache(maxsize=1024)(glob.escape)


@dataclass(frozen=True)
class Match(FoundLog):
    """A log with its row, or the reason why it has none."""

    row: Baseline | None = None
    why: str = ""


def log_glob(framework: str, model: str, size: str | None, dtype: str, gpus: int) -> str:
    """The glob of a row's logs below the staging area, with :data:`JOB_ID` for the job's id."""
    framework, model, size, dtype = map(_escaped, (framework, model, size or ANY_SIZE, dtype))
    return f"{_RESULTS}/*/{dtype}/{size}/{gpus}/log-{framework}_{model}_{size}_{gpus}_{JOB_ID}.out"


def fixed_part(log_glob: str) -> str:
    """The leading directories of a log glob whose names are fixed: ``results``."""
    directories = log_glob.split("/")[:-1]
    free = (number for number, name in enumerate(directories) if glob.has_magic(name) or "{" in name)
    return "/".join(directories[: next(free, len(directories))])


def is_nccl_traced(environment: Mapping[str, str]) -> bool:
    """True if a job's environment turns NCCL tracing on."""
    return environment.get("ENABLE_NCCL_TRACE", "").lower() == "true"


def in_traced_results(log: Path | None) -> bool:
    """True if a log is in the recipes' directory for runs that trace NCCL."""
    return log is not None and _TRACED.search(str(log)) is not None


def cut_name(name: str, longest: int, whole: str) -> str:
    """A name of at most so many characters; a longer one is cut and ends in a hash of ``whole``, to stay unique."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - 17]}-{hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]}"


def slurm_name(text: str) -> str:
    """A job name made of letters, digits, ``.``, ``_`` and ``-`` only: ``a[b]|c`` → ``a-b-c``."""
    return cut_name(_NOT_IN_NAMES.sub("-", text).strip("-") or "gsw", _LONGEST_NAME, text)


def log_of(job: Job) -> Path:
    """The one log of a job, where its recipe puts it.

    Raises:
        LogError: There is none (yet), or more than one.
    """
    spec = job.spec
    return find_log(spec.stage, spec.log_glob, job.id, is_nccl_traced(spec.environment))


def find_log(stage: Path, log_glob: str, job_id: str, nccl_trace: bool) -> Path:
    """The one log of a job, by the glob of its row's logs below the staging area (see :func:`log_glob`).

    A job that traces NCCL writes to a directory of its own.

    Raises:
        NoLogError: There is none (yet).
        LogError: There is more than one.
    """
    logs = find_logs(stage, log_glob, nccl_trace, job_id=job_id)
    if len(logs) == 1:
        return logs[0].path
    searched = ("searched", f"{stage}/{fill_job_id(log_glob, job_id)}")
    if logs:
        candidates = tuple(("candidate", str(log.path)) for log in logs)
        raise LogError(
            f"{len(logs)} logs of job {job_id}, and it is unknown which of them it wrote",
            (searched, *candidates),
            advice="remove the copies: one job writes one log",
        )
    place, near = _near_misses(stage, fill_job_id(log_glob, job_id))
    raise NoLogError(
        f"no log of job {job_id}",
        (searched, *links_passed_over(stage, log_glob, job_id), *near),
        advice=f"ls -lt {place}",
    )


def find_logs(stage: Path, log_glob: str, nccl_trace: bool, job_id: str | None = None) -> list[FoundLog]:
    """All logs of a row, or those of one job, in the order of their paths.

    Links that lead out of the results are not followed: their targets are runs of another place.
    """
    home = home_of(stage, log_glob)
    return [
        log
        for log in _log_candidates(stage, log_glob, job_id)
        if _is_inside(log.path, home) and (nccl_trace or not _is_traced(log.path, stage))
    ]


def logs_in(place: Path) -> list[Path]:
    """Logs of any row in a staging area or in its results, and files that lie loose in a directory like logs."""
    stage = place.parent if place.name == _RESULTS else place
    return sorted({*stage.glob(f"{_RESULTS}/*/*/*/*/log-*.out"), *loose_logs(place)})


def loose_logs(place: Path) -> list[Path]:
    """The files in a directory that may be logs by their suffix, in the order of their names; no links."""
    return sorted(
        path for path in place.glob("*") if path.suffix in _LOG_SUFFIXES and not path.is_symlink() and _is_file(path)
    )


def any_job(log_glob: str) -> str:
    """The glob of the logs of all jobs of a row."""
    return fill_job_id(log_glob, "*")


def sizes_of(files: Iterable[Path | None]) -> dict[str, int]:
    """The sizes of files that are there."""
    sizes = {}
    for place in map(str, filter(None, files)):
        try:
            sizes[place] = os.stat(place).st_size  # noqa: PTH116 - Path costs more than the look
        except OSError:
            continue
    return sizes


def open_anew(files: Iterable[Path | None]) -> None:
    """Open files and their directories: a file server's client caches names and sizes, and asks anew at ``open``."""
    for file in filter(None, files):
        with contextlib.suppress(OSError), os.scandir(file.parent) as entries:
            next(entries, None)
            os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK))


def error_files_of(log: Path) -> tuple[Path, ...]:
    """The stderr file next to a log, if the recipe separates them."""
    place = str(log)
    errors = f"{os.path.splitext(place)[0]}{ERROR_SUFFIX}"  # noqa: PTH122 - Path costs more than the look
    if place.endswith("/stdout.txt"):
        errors = f"{place.removesuffix('stdout.txt')}stderr.txt"
    return (Path(errors),) if errors != place and _is_file(errors) else ()


def other_outputs_of(job: Job, log: Path | None, batch_output: Path | None) -> tuple[Path, ...]:
    """Other outputs of a job: stderr next to its log, and the output of NeMo-Run's own shell."""
    known = [path for path in (log, batch_output) if path is not None]
    others = [errors for path in known for errors in error_files_of(path)]
    if log is None:
        spec = job.spec
        errors = spec.log_glob.removesuffix(".out") + ERROR_SUFFIX
        traced = is_nccl_traced(spec.environment)
        others.extend(error_log.path for error_log in find_logs(spec.stage, errors, traced, job_id=job.id))
    elif f"_{job.id}_" in log.name:  # the number of the restart follows
        others.extend(sorted(log.parent.glob(f"sbatch_*_{glob.escape(job.id)}.out")))
    return tuple(path for path in dict.fromkeys(others) if path not in known and _is_file(path))


def _is_traced(path: Path, stage: Path) -> bool:
    """True if a log is in a directory for NCCL traces, the stage's own name included."""
    return _NCCL_TRACE in str(path) and any(part.endswith(_NCCL_TRACE) for part in path.relative_to(stage.parent).parts)


def links_passed_over(stage: Path, log_glob: str, job_id: str | None = None) -> tuple[tuple[str, str], ...]:
    """Evidence of links that :func:`find_logs` did not follow although logs are behind them."""
    home = home_of(stage, log_glob)
    inside = home.resolve()
    links = [
        next(place for place in (*reversed(log.path.parents), log.path) if _leads_out(place, home, inside))
        for log in _log_candidates(stage, log_glob, job_id)
        if not Path(os.path.realpath(log.path)).is_relative_to(inside)
    ]
    return tuple(
        ("passed over", f"{link} is a symbolic link that leads out of {home}") for link in dict.fromkeys(links)
    )


def _log_candidates(stage: Path, log_glob: str, job_id: str | None) -> Iterator[FoundLog]:
    """Files named like a log of a row or of one job, wherever links lead, in the order of their paths."""
    if JOB_ID not in log_glob.rpartition("/")[2]:
        return
    for path in sorted(_glob(stage, fill_job_id(log_glob, "*" if job_id is None else glob.escape(job_id)))):
        found_id = job_id_in(path.name, log_glob, job_id)
        if found_id is not None and _is_file(path):
            yield FoundLog(path, found_id)


def _glob(stage: Path, pattern: str) -> Iterable[Path]:
    """Candidates of a glob below the staging area; parts after the last wildcard may not exist.

    Path.glob checks each directory on the way, and this runs more than once for each job.
    """
    parts = pattern.split("/")
    if "**" in pattern or not {"", ".", ".."}.isdisjoint(parts):
        return stage.glob(pattern)
    return map(Path, _below(str(stage).rstrip("/"), parts))


def _is_file(path: str | Path) -> bool:
    """True if the file exists; raises errors that leave it open."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - Path costs more than the look
    except OSError as error:
        if error.errno in _NOT_THERE:
            return False
        raise


def _below(
    place: str,
    parts: Sequence[str],
    passed_over: type[OSError] | tuple[type[OSError], ...] = (FileNotFoundError, NotADirectoryError, PermissionError),
) -> Iterator[str]:
    """All paths below a place that a glob of single names may match; directories with such an error are skipped."""
    for position, part in enumerate(parts):
        if glob.has_magic(part):
            try:
                names = os.listdir(place)  # noqa: PTH208 - Path costs more than the look
            except passed_over:
                return
            for name in fnmatch.filter(names, part):
                yield from _below(f"{place}/{name}", parts[position + 1 :], passed_over)
            return
        place = f"{place}/{part}"
    yield place


def _is_inside(path: Path, home: Path) -> bool:
    """True if no link on the way to a path below a directory leads out of it."""
    place = str(path)
    for _ in range(len(path.parts) - len(home.parts)):
        if os.path.islink(place):  # noqa: PTH114 - Path costs more than the look
            return Path(os.path.realpath(path)).is_relative_to(home.resolve())
        place = place.rpartition("/")[0]
    return True


def _leads_out(place: Path, home: Path, inside: Path) -> bool:
    return place != home and place.is_relative_to(home) and not Path(os.path.realpath(place)).is_relative_to(inside)


def job_id_in(name: str, log_glob: str, job_id: str | None = None) -> str | None:
    """The job's id in a log's file name; ``None`` if it is not the name of one of this row's logs.

    Any valid id matches unless ``job_id`` is given.
    """
    name_glob = log_glob.rpartition("/")[2]
    if JOB_ID not in name_glob:
        return None  # the name does not identify the job
    if job_id is not None and ANY_SIZE not in name_glob and not glob.has_magic(name_glob):
        return job_id if name == name_glob.replace(JOB_ID, job_id, 1) else None
    match = _pattern(name_glob, _ANY_JOB_ID if job_id is None else re.escape(job_id)).match(name)
    return match["job_id"] if match is not None else None


def looks_like_a_log(name: str) -> bool:
    """True if a file is named like any row's log: ``log-maxtext_llama2_70b_64_481220.out``."""
    return re.fullmatch(rf"log-.+_[0-9]+_{_ANY_JOB_ID}\.out", name) is not None


def slurm_job_id(name: str) -> str | None:
    """The job's id in the name that Slurm gives to an output, ``slurm-481220.out``; ``None`` for other names."""
    match = _SLURM_NAME.fullmatch(name)
    return None if match is None else match[1]


@lru_cache
def _pattern(name_glob: str, job_id: str) -> re.Pattern[str]:
    """A file name's glob as a regular expression with the job's id as a group.

    A glob alone is ambiguous: ``log-x_7_*.out`` matches ``log-x_7_8_99.out``, another row's log.
    """
    stand_in, any_size = "0JOBID0", "0SIZE0"
    pattern = fnmatch.translate(name_glob.replace(JOB_ID, stand_in, 1).replace(ANY_SIZE, any_size))
    return re.compile(pattern.replace(stand_in, f"(?P<job_id>{job_id})", 1).replace(any_size, "[^_]*"))


def fill_job_id(log_glob: str, job_id: str) -> str:
    """The glob of the logs of one job of a row."""
    return log_glob.replace(JOB_ID, job_id).replace(ANY_SIZE, "*")


def home_of(stage: Path, log_glob: str) -> Path:
    """The directory of all logs: the results, which may be a link elsewhere, as the stage may."""
    in_results = log_glob.startswith(f"{_RESULTS}/") or Path(log_glob).parts[:1] == (_RESULTS,)
    return stage / _RESULTS if in_results else stage


def _near_misses(stage: Path, wanted: str) -> tuple[Path, tuple[tuple[str, str], ...]]:
    """The deepest existing directory on the way to the log, and its newest entries as evidence."""
    directories = [stage]
    for part in Path(wanted).parts[:-1]:
        deeper = sorted(found for place in directories for found in place.glob(part) if found.is_dir())
        if not deeper:
            break
        directories = deeper
    entries = [entry for place in directories if place.is_dir() for entry in place.iterdir()]
    newest = sorted(entries, key=_modified_s, reverse=True)[:_NEAR_MISSES_SHOWN]
    near = tuple(("there is", str(entry)) for entry in newest)
    hidden = len(entries) - len(newest)
    if hidden:
        near += (("", f"and {hidden} more"),)
    return directories[0], near or (("there is", f"nothing in {directories[0]}"),)


def _modified_s(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # gone since it was listed
        return 0.0


# -- Logs that exist before their job ---------------------------------------------------------------
#
# Schedulers reuse ids, and no clock alone decides. A log that existed before the submission is not the job's, however
# new it is. A file that is new since, or has replaced an older one, is the job's, unless it has the times of another
# run.


#: Largest difference between this machine's clock and a file server's.
CLOCK_SKEW_S = 300.0


def names_in(stage: Path, place: str) -> frozenset[str]:
    """The files in the directories of a glob, as paths below the staging area; lists directories, reads no file."""
    directories = [name for name in place.split("/") if name not in {"", "."}]
    if "**" in directories:
        return frozenset(path.relative_to(stage).as_posix() for path in stage.glob(f"{place}/*"))
    root = str(stage).rstrip("/")
    return frozenset(path.removeprefix(f"{root}/") for path in _below(root, [*directories, "*"], OSError))


def names_before(spec: JobSpec, look: Callable[[Path, str], frozenset[str]] = names_in) -> frozenset[str]:
    """The files in the log directories of a row, as paths below the staging area.

    :func:`logs_before` selects those of one job later. ``look`` may cache results for rows submitted together.
    """
    place = spec.log_glob.replace(JOB_ID, "*").rpartition("/")[0]
    return look(spec.stage, place) if spec.log_glob else frozenset()


def logs_before(spec: JobSpec, job_id: str, names: Collection[str]) -> tuple[LogBefore, ...]:
    """Those of the files that have the job's id in their names, with their current state: the job has hardly begun."""
    noted = []
    for path in sorted(path for path in names if job_id in path):
        if job_id_in(path.rpartition("/")[2], spec.log_glob) == job_id:
            try:
                facts = (spec.stage / path).stat()
            except OSError:
                continue  # gone: a later file is new
            noted.append(LogBefore(path, facts.st_size, facts.st_ino, facts.st_mtime_ns))
    return tuple(noted)


@dataclass(frozen=True)
class FileFacts:
    """The identity and times of a file by its file server: its last change, and that of its name."""

    inode: int
    mtime_ns: int
    ctime_ns: int


def file_facts(path: Path) -> FileFacts | None:
    """The facts of a file; ``None`` if it is gone."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return FileFacts(facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns)


def check_new(
    job: Job,
    log: Path,
    is_own: Callable[[Job, Path], bool] = lambda *_: False,
    facts_of: Callable[[Path], FileFacts | None] = file_facts,
) -> None:
    """Raise a LogError if a log existed before its job was submitted.

    Args:
        job: The job.
        log: Its log, by the name.
        is_own: True if a log's text proves that it is the job's: a file server may date it back.
        facts_of: Returns the facts of the log.
    """
    facts = facts_of(log)
    if facts is None:
        return  # gone again: its reader will report that
    mtime_s = facts.mtime_ns / 1e9
    before = next((noted for noted in job.logs_before or () if job.spec.stage / noted.path == log), None)
    then_ns = facts.mtime_ns if before is None else before.mtime_ns
    if before is not None:
        is_old = before.inode == facts.inode
    else:
        # It came with the times of another run, moved or copied, if it was written long before it got its name, by the
        # file server's clock alone, which may be hours behind this machine's.
        is_put_there = job.logs_before is None or facts.mtime_ns < facts.ctime_ns - CLOCK_SKEW_S * 1e9
        is_old = mtime_s < job.submitted_s - CLOCK_SKEW_S and is_put_there and not is_own(job, log)
    if not is_old:
        return
    since = "" if then_ns == facts.mtime_ns else ", and something has written to it since"
    raise LogError(
        f"no log of job {job.id} but an older one: it was last written at {moment(then_ns / 1e9)}{since}",
        (("log", str(log)), ("job", f"{job.id}, submitted at {moment(job.submitted_s)}")),
        advice="an earlier job had the same id; move its results away, and run the row again",
    )
