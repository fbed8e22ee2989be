"""An ended job of one row: where it wrote, why it failed, and what a message shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.words import duration
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.model import JobState, JobStatus, Stop, in_words
from pytest_gsw.logs.failures import FoundCause, find_cause
from pytest_gsw.logs.model import StepLog
from pytest_gsw.logs.reader import line_number, tail_lines
from pytest_gsw.runs.problem import Problem

#: Causes that Slurm tells by the state alone; a log that names the same one says no more.
CAUSE_OF_STATE = {
    JobState.CANCELLED: "cancelled",
    JobState.TIMEOUT: "time limit",
    JobState.PREEMPTED: "preemption",
    JobState.NODE_FAIL: "node failure",
    JobState.BOOT_FAIL: "boot failure",
}


@dataclass(frozen=True)
class Run:
    """An ended job of one row, and where it wrote."""

    job_id: str
    status: JobStatus
    #: The training log; ``None`` where a job that did not end well left none.
    log: Path | None
    #: The batch shell's own output.
    batch_output: Path | None = None
    #: Why the session ended the job early, where it did.
    stopped: Stop | None = None
    #: The row's jobs before this one that were measured as well: the row's figure is the median of all.
    earlier: tuple[Run, ...] = ()
    #: Whether the environment chose the container image, so that the table's is not what is to run.
    image_was_chosen: bool = False

    @property
    def jobs(self) -> tuple[Run, ...]:
        """The jobs that the row's figure is of, in the order in which they ran."""
        return (*self.earlier, self)


def replayed(run: Run) -> bool:
    """Whether no job was run: a log is judged by itself."""
    return run.status.state is JobState.REPLAYED


def cause_of(run: Run) -> FoundCause | None:
    """Why a run failed: from its log, else from the batch shell's output, where failures before training show."""
    for path in (run.log, run.batch_output):
        if path is not None and path.is_file():
            cause = find_cause(path)
            if cause is not None:
                return FoundCause(cause, path)
    return None


def ran_out_of_memory(run: Run) -> bool:
    """Whether the job ended for want of memory, of the GPU or of the host.

    A job that was cancelled, timed out or lost its node ended for that, whatever its log says.
    """
    if run.status.state is JobState.OUT_OF_MEMORY:
        return True
    if run.status.state not in {JobState.FAILED, JobState.REPLAYED}:
        return False
    found = cause_of(run)
    return found is not None and found.cause.out_of_memory


def refused(problem: Problem, run: Run, log: StepLog) -> LogError:
    """The error of a problem, with the log and the job."""
    return LogError(problem.fact, evidence=(*log_evidence(run, log), *problem.evidence), advice=problem.advice)


def job_evidence(run: Run) -> tuple[tuple[str, str], ...]:
    """The job's facts, as messages show them."""
    status = run.status
    code = "" if status.exit_code is None else f" {status.exit_code}:{status.signal}"
    took = "" if status.run_s is None else f" after {duration(status.run_s)}"
    where = f" on {status.nodes}" if status.nodes else ""
    lines = [("job", f"{in_words((status.cluster, run.job_id))} {status.state.value}{code}{took}{where}")]
    if status.reason and status.reason != "None":
        lines.append(("reason", status.reason))
    if status.unchecked:
        lines.append(("unchecked", status.unchecked))
    if run.log is not None:
        lines.append(("log", str(run.log)))
    if run.batch_output is not None:
        lines.append(("batch log", str(run.batch_output)))
    return tuple(lines)


def cause_evidence(found: FoundCause | None) -> tuple[tuple[str, str], ...]:
    """What a cause says of itself and where, as messages show it; nothing where there is none."""
    return () if found is None else (("cause", found.cause.text), ("said at", f"{found.path}:{found.cause.line}"))


def last_lines(run: Run) -> tuple[str, ...]:
    """The last lines of the log and of the batch shell's output, each under its name where there are both."""
    said = []
    for name, path in (("log", run.log), ("batch log", run.batch_output)):
        lines = tail_lines(path, 5) if path is not None and path.is_file() else ()
        if lines:
            said.append((name, lines))
    if len(said) < 2:
        return said[0][1] if said else ()
    return tuple(line for name, lines in said for line in (f"-- {name}:", *lines))


def log_evidence(run: Run, log: StepLog) -> tuple[tuple[str, str], ...]:
    """The log's facts and the job, as messages show them."""
    place = str(run.log)
    if run.log is not None and log.steps and log.steps[-1].offset is not None:
        place = f"{run.log}:{line_number(run.log, log.steps[-1].offset)}"
    attempts = f", the last of {log.attempts} runs in the file" if log.attempts > 1 else ""
    return (
        ("log", place),
        ("steps", f"{len(log.steps)} read as {log.format}{attempts}"),
        *(evidence for evidence in job_evidence(run) if evidence[0] == "job"),
    )
