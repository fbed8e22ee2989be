"""No jobs at all: the logs of runs that there have been already.

A replayed row is judged like any other, so the rule is the same: its own log or none. Where several
jobs ran a row, nothing says which of them is meant, and the user has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.text import moment
from pytest_gsw.errors import JobError, LogError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.layout import FoundLog
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus

#: Behind the path of what is replayed: of several jobs of a row, the newest that completed.
LAST = "@last"
#: In the path of a staging area: the recipe's directory.
RECIPE = "{recipe}"
_REPLAYED = JobStatus(JobState.REPLAYED, "REPLAYED")


@dataclass(frozen=True)
class RecordedRun:
    """One row's run as an earlier session recorded it."""

    #: The log; ``None`` if that run had none.
    log: Path | None
    job_id: str
    #: How that run's job ended.
    status: JobStatus


class ReplayLauncher:
    """Find logs instead of running jobs.

    The source is one log, or a staging area, its ``results`` directory, or one version's directory in it; one with
    ``{recipe}`` in it, or one that holds the recipes' staging areas, is each row's own by its spec's stage. Where there
    are recorded runs of an earlier session, by their rows, these alone count.

    Args:
        source: Where logs are.
        recorded: The recorded runs.
        choose: Which of the logs of several jobs of a row is meant; ``None`` where nobody says.
    """

    name = "replay"
    log_wait_s = 0.0
    poll_interval_s = 0.0
    parallel_submissions = 1
    jobs_outlive_session = False

    def __init__(
        self,
        source: Path,
        recorded: Mapping[str, RecordedRun] | None = None,
        choose: Callable[[JobSpec, Sequence[FoundLog]], FoundLog] | None = None,
    ) -> None:
        self._source = source
        self._choose = choose
        self._recorded = dict(recorded or {})
        self._runs: dict[str, RecordedRun] = {}
        #: By log, the rows that asked for it: one run is of one row.
        self._rows_of: dict[Path, list[str]] = {}

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """Nothing is run."""
        return ()

    def submit(self, spec: JobSpec) -> Job:
        """Find the row's log; a LogError says that there is none, or that several jobs ran the row."""
        run = self._find(spec)
        if run.log is not None:
            rows = self._rows_of.setdefault(run.log.resolve(), [])
            rows.append(spec.row_id)
            if len(rows) > 1:
                raise _shared(run.log, rows)
        self._runs[spec.row_id] = run
        return Job(run.job_id, spec, submitted_s=0.0)  # nothing is: the log may be of any age

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """None: its jobs do not outlive their session."""
        return None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """What was recorded, else REPLAYED: whatever the job did, it is over."""
        return {job.spec.row_id: self._runs[job.spec.row_id].status for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Nothing runs."""

    def find_log(self, job: Job) -> Path:
        """The log that was found; a LogError says that the recorded run had none, or that it is gone."""
        log = self._runs[job.spec.row_id].log
        if log is None:
            raise LogError(f"the recorded run of {job.spec.row_id} had no log", (("job", job.id),))
        rows = self._rows_of.get(log.resolve(), [])
        if len(rows) > 1:
            raise _shared(log, rows)
        if not log.is_file():
            raise LogError(
                f"the log of the recorded run of {job.spec.row_id} is gone",
                (("job", job.id), ("log", str(log))),
                advice="run the row again, or give the log's new place: --gsw-replay=PATH/TO/LOG",
            )
        return log

    def batch_output(self, job: Job) -> Path | None:
        """A replayed run's batch shell is of no interest: only its log is judged."""
        return None

    def close(self) -> None:
        """Nothing is held."""

    def _find(self, spec: JobSpec) -> RecordedRun:
        if self._recorded:
            return self._find_recorded(spec)
        if self._source.is_file():
            return RecordedRun(self._source, _job_id_of_file(self._source, spec), _REPLAYED)
        traced = layout.is_nccl_traced(spec.environment)
        places = [place for place in dict.fromkeys((self._source, spec.stage)) if _is_below(place, self._source)]
        found = [log for place in places for glob in _globs(spec) for log in layout.find_logs(place, glob, traced)]
        found = found or [*spec.launch.logs_below(self._source)]
        if self._choose is not None and len({log.job_id for log in found}) == len(found) > 1:
            found = [self._choose(spec, found)]
        if len(found) != 1:
            raise _ambiguous(self._source, spec, found) if found else _missing(places[-1], spec)
        return RecordedRun(found[0].path, found[0].job_id, _REPLAYED)

    def _find_recorded(self, spec: JobSpec) -> RecordedRun:
        if spec.row_id not in self._recorded:
            raise LogError(
                f"the replayed run has no job of {spec.row_id}",
                (("replayed", str(self._source)), ("has", ", ".join(sorted(self._recorded)))),
                advice="select the rows that it has: -k, or their node ids",
            )
        run = self._recorded[spec.row_id]
        if not run.status.state.ended:
            raise JobError(
                f"job {run.job_id} had not ended when its session did: it was {run.status.state.value}",
                advice="go on with that session: pytest --gsw-resume=RUN",
            )
        return run


def _is_below(place: Path, source: Path) -> bool:
    """Whether logs of a source may be in a row's own staging area."""
    return place == source or RECIPE in str(source) or (place.is_relative_to(source) and place.is_dir())


def _job_id_of_file(log: Path, spec: JobSpec) -> str:
    """The job's id that the log's name tells; a log that the user has renamed has its name for one."""
    job_id = layout.job_id_in(log.name, spec.log_glob)
    job_id = job_id or spec.launch.job_id_of(log.name)
    if job_id is not None:
        return job_id
    if layout.looks_like_a_log(log.name):
        wanted = Path(spec.log_glob).name.replace(layout.JOB_ID, "*")
        raise LogError(
            f"{log.name} is the log of another row than {spec.row_id}",
            (("log", str(log)), ("wanted", wanted)),
            advice="select the row that it belongs to: -k, or its node id",
        )
    return log.stem


def _globs(spec: JobSpec) -> list[str]:
    """Globs of the row's logs below a staging area, below its results, and below one version of these."""
    parts = Path(spec.log_glob).parts
    return ["/".join(parts[skipped:]) for skipped in range(min(3, len(parts)))]


def _ambiguous(source: Path, spec: JobSpec, found: Sequence[FoundLog]) -> LogError:
    newest_first = sorted(found, key=lambda log: log.path.stat().st_mtime, reverse=True)
    jobs = len({log.job_id for log in found})
    what = f"{jobs} jobs" if jobs > 1 else f"{len(found)} copies of one job's log"
    return LogError(
        f"ambiguous: {what} of {spec.row_id} below {source}",
        tuple((f"job {log.job_id}", _describe(log.path)) for log in newest_first),
        advice=f"name the one you mean, --gsw-replay={newest_first[0].path}, or --gsw-replay={source}{LAST} for the "
        "newest that completed",
    )


def _shared(log: Path, rows: Sequence[str]) -> LogError:
    return LogError(
        f"{log.name} can be the log of only one of {len(rows)} rows",
        (("log", str(log)), ("rows", ", ".join(rows))),
        advice="select the row that it belongs to: -k, or its node id",
    )


def _describe(path: Path) -> str:
    facts = path.stat()
    return f"{path}  {moment(facts.st_mtime)}  {facts.st_size:,} bytes"


def _missing(source: Path, spec: JobSpec) -> LogError:
    return LogError(
        f"no log of {spec.row_id} below {source}",
        (
            *(("searched", f"{source}/{glob.replace(layout.JOB_ID, '*')}") for glob in _globs(spec)),
            *(link for glob in _globs(spec) for link in layout.links_passed_over(source, glob)),
        ),
        advice="give a staging area, its results, one version of these, or one log: --gsw-replay=PATH",
    )
