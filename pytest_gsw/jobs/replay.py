"""A launcher without jobs: the logs of earlier runs.

A replayed row is judged by the same rule as any other: its own log or none. If several jobs ran a row, the user has
to choose one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import command, moment, named, plural
from pytest_gsw.errors import JobError, LogError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import Match
from pytest_gsw.jobs.model import FoundLog, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus

#: Suffix of a replayed path: choose the newest completed one of several jobs of a row.
LAST = "@last"
#: Placeholder of the recipe's directory in the path of a staging area.
RECIPE = "{recipe}"
#: The most logs in a line.
_LOGS_SHOWN = 3
_REPLAYED = JobStatus(JobState.REPLAYED, "REPLAYED")


@dataclass(frozen=True)
class RecordedRun:
    """One row's run as recorded by an earlier session."""

    #: The log; ``None`` if that run had none.
    log: Path | None
    job_id: str
    #: The final status of that run's job.
    status: JobStatus


class ReplayLauncher(Launcher):
    """Finds logs instead of running jobs.

    The source is one log, a staging area, its ``results`` directory, or one version's directory in it. With
    ``{recipe}`` in it, or if it contains the recipes' staging areas, each row uses the stage of its spec. Recorded runs
    of an earlier session, if given, are the only source.

    Args:
        source: Path of the logs.
        recorded: The recorded runs by row.
        choose: Chooses among the logs of several jobs of a row; ``None`` if several are an error.
        find_row: Finds the row of a log whose name shows none.
        found: The logs that plugins have found.
    """

    name = "replay"
    log_wait_s = 0.0
    poll_interval_s = 0.0

    def __init__(
        self,
        source: Path,
        recorded: Mapping[str, RecordedRun] | None = None,
        choose: Callable[[JobSpec, Sequence[FoundLog]], FoundLog] | None = None,
        find_row: Callable[[Path], Match] = lambda path: Match(path, path.stem),
        found: Sequence[Match] = (),
    ) -> None:
        self.source = source
        self._choose = choose
        self._find_row = find_row
        self._found = {match.path: match for match in found}
        self._recorded = dict(recorded or {})
        self._runs: dict[str, RecordedRun] = {}
        #: The rows by the log they use: one run belongs to one row.
        self._rows_of: dict[str, list[str]] = {}

    def submit(self, spec: JobSpec) -> Job:
        """Find the row's log; raise a LogError if there is none, or if several jobs ran the row."""
        run = self._find(spec)
        if run.log is not None:
            self._rows_of.setdefault(os.path.realpath(run.log), []).append(spec.row_id)
            self._check_shared(run.log)
        self._runs[spec.row_id] = run
        return Job(run.job_id, spec, submitted_s=0.0)  # not submitted: the log may be of any age

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The recorded status, else REPLAYED: in any case the job has ended."""
        return {job.spec.row_id: self._runs[job.spec.row_id].status for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Do nothing: no job runs."""

    def find_log(self, job: Job) -> Path:
        """The log found by :meth:`submit`; raise a LogError if the recorded run had none, or it is missing now."""
        log = self._runs[job.spec.row_id].log
        if log is None:
            raise LogError(f"the recorded run of {job.spec.row_id} had no log", (("job", job.id),))
        self._check_shared(log)
        if not log.is_file():
            raise LogError(
                f"the log of the recorded run of {job.spec.row_id} is gone",
                (("job", job.id), ("log", str(log))),
                advice="run the row again, or give the log's new place: --gsw-replay=PATH/TO/LOG",
            )
        return log

    def match(self, specs: Sequence[JobSpec]) -> tuple[frozenset[str], list[Match]]:
        """The rows that have a log in the source, and logs that are of no row.

        Of a single log that names several rows, its directories choose if they are a recipe's.
        """
        if self.source.is_file():
            named = [spec for spec in specs if layout.job_id_in(self.source.name, spec.log_glob)]
            placed = [spec for spec in named if self.source.match(layout.any_job(_globs(spec)[-1]))]
            chosen = placed or named or [spec for spec in specs if self._loose_of(spec.row_id)]
            unknown = [] if chosen else self._loose or [Match(self.source, "")]
            return frozenset(spec.row_id for spec in chosen), unknown
        logs_of = {spec.row_id: self._logs_of(spec) for spec in specs}
        known = {log.path for logs in logs_of.values() for log in logs}
        paths = dict.fromkeys((*layout.logs_in(self.source), *self._found))
        others = {path: Match(path, "") for path in paths if path not in known}
        others |= {match.path: match for match in (*self._found.values(), *self._loose) if match.path in others}
        return frozenset(row_id for row_id, logs in logs_of.items() if logs), [*others.values()]

    @cached_property
    def _loose(self) -> list[Match]:
        """The logs in the source whose names show no row, with the rows that they state."""
        paths = [self.source] if self.source.is_file() else layout.loose_logs(self.source)
        names = [path for path in paths if not layout.looks_like_a_log(path.name) and path not in self._found]
        return [*map(self._find_row, names)]

    def _loose_of(self, row_id: str) -> list[FoundLog]:
        """The logs of a row by plugins, else by what they state."""
        found, loose = (
            [match for match in matches if match.row is not None and match.row.id == row_id]
            for matches in (self._found.values(), self._loose)
        )
        return [*(found or loose)]

    def _check_shared(self, log: Path) -> None:
        """Raise a LogError if a log is of several rows."""
        rows = self._rows_of.get(os.path.realpath(log), [])
        if len(rows) > 1:
            raise LogError(
                f"{log.name} can be the log of only one of {len(rows)} rows",
                (("log", str(log)), ("rows", ", ".join(rows))),
                advice="select the row that it belongs to: -k, or its node id",
            )

    def _find(self, spec: JobSpec) -> RecordedRun:
        if self._recorded:
            return self._find_recorded(spec)
        if self.source.is_file():
            return RecordedRun(self.source, job_id_of_file(self.source, spec), _REPLAYED)
        logs = self._logs_of(spec)
        if self._choose is not None and len({log.job_id for log in logs}) == len(logs) > 1:
            logs = [self._choose(spec, logs)]
        if len(logs) > 1:
            raise _ambiguity_error(self.source, spec, logs)
        if not logs:
            raise _missing_log_error(self._places(spec)[-1], spec, self._loose)
        return RecordedRun(logs[0].path, logs[0].job_id, _REPLAYED)

    def _places(self, spec: JobSpec) -> list[Path]:
        """The staging areas that may have logs of a row."""
        return [place for place in dict.fromkeys((self.source, spec.stage)) if _is_below(place, self.source)]

    def _logs_of(self, spec: JobSpec) -> list[FoundLog]:
        """The logs of a row below the source, in the recipe's layout, or else by plugins or by what they state."""
        traced = layout.is_nccl_traced(spec.environment)
        globs = [(place, glob) for place in self._places(spec) for glob in _globs(spec)]
        logs = [log for place, glob in globs for log in layout.find_logs(place, glob, traced)]
        return logs or self._loose_of(spec.row_id)

    def _find_recorded(self, spec: JobSpec) -> RecordedRun:
        if spec.row_id not in self._recorded:
            raise LogError(
                f"the replayed run has no job of {spec.row_id}",
                (("replayed", str(self.source)), ("has", ", ".join(sorted(self._recorded)))),
                advice="select the rows that it has: -k, or their node ids",
            )
        run = self._recorded[spec.row_id]
        if not run.status.state.ended:
            raise JobError(
                f"job {run.job_id} had not ended when its session did: it was {run.status.state.value}",
                advice="go on with that session: pytest --gsw-resume=RUN",
            )
        return run


def left_out_lines(rows: int, source: Path, unknown: Sequence[Match], *, judges: bool) -> list[str]:
    """The lines on rows that are left out of a replay for lack of a log, and on logs that match no row.

    ``judges`` is False if no row is left.
    """
    place = relative_path(source)
    lines = [f"gsw: {plural(rows, 'row')} left out: {place} has no log of {'it' if rows == 1 else 'them'}"]
    if not judges:
        lines.append("gsw: no row is judged")
    if unknown:
        logs = named([str(relative_path(log.path)) for log in unknown], _LOGS_SHOWN)
        lines.append(f"gsw: {plural(len(unknown), 'log')} without a row: {logs}")
    if len(unknown) > _LOGS_SHOWN:
        lines.append(f"next: {command('pytest-gsw', 'metrics', str(place))} lists why")
    elif unknown:
        lines += [f"gsw: {log.path.name} {log.why}" for log in unknown if log.why]
        lines.append(f"next: {command('pytest', f'--gsw-replay={relative_path(unknown[0].path)}', '-k')} ROW judges it")
    elif not source.is_file():
        lines.append(f"next: {command('pytest', f'--gsw-replay={place}', '-k')} ROW lists where a row's log may be")
    return lines


def _is_below(place: Path, source: Path) -> bool:
    """True if logs of a source may be in a row's own staging area."""
    return place == source or RECIPE in str(source) or (place.is_relative_to(source) and place.is_dir())


def job_id_of_file(log: Path, spec: JobSpec) -> str:
    """The job's id in the log's name; for a renamed log, the name itself."""
    by_launcher = spec.launch.job_id_of(log.name) or layout.slurm_job_id(log.name)
    job_id = layout.job_id_in(log.name, spec.log_glob) or by_launcher
    if job_id is not None:
        return job_id
    if layout.looks_like_a_log(log.name):
        wanted = layout.any_job(Path(spec.log_glob).name)
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


def _ambiguity_error(source: Path, spec: JobSpec, found: Sequence[FoundLog]) -> LogError:
    newest_first = sorted(found, key=lambda log: log.path.stat().st_mtime, reverse=True)
    jobs = len({log.job_id for log in found})
    what = f"{jobs} jobs" if jobs > 1 else f"{len(found)} copies of one job's log"
    return LogError(
        f"ambiguous: {what} of {spec.row_id} below {source}",
        tuple((f"job {log.job_id}", _describe(log.path)) for log in newest_first),
        advice=f"name the one you mean, --gsw-replay={newest_first[0].path}, or --gsw-replay={source}{LAST} for the "
        "newest that completed",
    )


def _describe(path: Path) -> str:
    facts = path.stat()
    return f"{path}  {moment(facts.st_mtime)}  {facts.st_size:,} bytes"


def _missing_log_error(source: Path, spec: JobSpec, loose: Sequence[Match]) -> LogError:
    return LogError(
        f"no log of {spec.row_id} below {source}",
        (
            *(("searched", f"{source}/{layout.any_job(glob)}") for glob in _globs(spec)),
            *(link for glob in _globs(spec) for link in layout.links_passed_over(source, glob)),
            *[("without row", f"{log.path.name} {log.why}") for log in loose if log.row is None][:_LOGS_SHOWN],
        ),
        advice="give a staging area, its results, one version of these, or one log: --gsw-replay=PATH",
    )
