"""An ended job of one row: its files, its cause of failure, and its facts for messages."""

from __future__ import annotations

import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.text import duration
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.model import ERROR_SUFFIX, EarlyStop
from pytest_gsw.jobs.states import NODE_LOST, JobState, JobStatus, JobStep
from pytest_gsw.jobs.step_ends import boost_step
from pytest_gsw.logs.model import StepLog
from pytest_gsw.logs.reader import line_number, tail_lines
from pytest_gsw.logs.signatures import COMMAND, Cause, command_line, find_cause, killed_task
from pytest_gsw.validation.agreement import Evidence

#: Causes that Slurm's state already has; a log with the same cause adds nothing.
CAUSE_OF_STATE = {
    JobState.CANCELLED: "cancelled",
    JobState.TIMEOUT: "time limit",
    JobState.PREEMPTED: "preemption",
    JobState.NODE_FAIL: "node failure",
    JobState.BOOT_FAIL: "boot failure",
}


@dataclass(frozen=True)
class Run:
    """An ended job of one row, and its files."""

    job_id: str
    status: JobStatus
    #: The training log; ``None`` if a failed job left none.
    log: Path | None
    #: The batch shell's own output.
    batch_output: Path | None = None
    #: The reason why the session ended the job early, if it did.
    stopped: EarlyStop | None = None
    #: The row's earlier jobs that were measured as well: the row's figure is the median of all.
    earlier: tuple[Run, ...] = ()
    #: True for one job of a training that lasts longer than a job: it may begin at a checkpoint, and end by a failure.
    is_part: bool = False
    #: True if the environment chose the container image in place of the table's.
    image_was_chosen: bool = False
    #: Facts about the job from other files.
    evidence: tuple[Evidence, ...] = ()
    #: Files of the recipe next to its log: most recipes separate stderr.
    other_files: tuple[Path, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if it ended well and has a log."""
        return self.status.ended_well and self.log is not None

    @property
    def is_cut(self) -> bool:
        """True if neither its end nor that of its log need be sound."""
        return self.is_part and not self.is_whole

    @property
    def jobs(self) -> tuple[Run, ...]:
        """The jobs behind the row's figure, in the order in which they ran."""
        return (*self.earlier, self)

    @property
    def outputs(self) -> tuple[tuple[str, Path], ...]:
        """All files of the job, each once and under its name in messages, the log first."""
        other_files = [("stderr" if path.suffix == ERROR_SUFFIX else "output", path) for path in self.other_files]
        named = (("log", self.log), *other_files, ("batch log", self.batch_output))
        names = {path: name for name, path in reversed(named) if path is not None}
        return tuple([(name, path) for path, name in reversed(names.items())])


def boost_error(log: Path) -> Path | None:
    """NeMo-Run's output of the step that raises the GPUs' boost: in the directory of its experiment, or of its task."""
    return next((path for place in log.parents[:2] if (path := place / "vboost.err").is_file()), None)


def unset_boost(run: Run) -> JobStep | None:
    """The step that failed to raise the GPUs' boost; ``None`` if there is none."""
    step = boost_step(run.status.steps or ())
    return step if step is not None and run.log is not None and boost_error(run.log) is not None else None


def replayed(run: Run) -> bool:
    """True if no job was run: a log is judged by itself."""
    return run.status.state is JobState.REPLAYED


def cause_of(run: Run) -> Cause | None:
    """The cause of a failed run: from its log, else from the files next to it, else from the batch shell's output.

    A cancelled step is reported only if no file has more: Slurm ends all tasks once one has failed.
    """
    files = [path for _, path in run.outputs if path.is_file()]
    cancelled: Cause | None = None
    for path in files:
        cause = find_cause(path)
        if cause is None:
            continue
        if cause.name == COMMAND and path != files[0]:
            boost = run.log and boost_error(run.log)
            # The command that the task did not find: srun's line has the exit code alone.
            return next(filter(None, map(command_line, [*files, *((boost,) if boost else ())])), cause)
        if cause.name != "cancelled" or run.status.state is JobState.CANCELLED:
            return cause
        cancelled = cancelled or cause
    return cancelled


def killed_by_signal(run: Run) -> Cause | None:
    """The first task of a failed run without a known cause that a signal ended; ``None`` if there is none."""
    files = [path for _, path in run.outputs if path.is_file()] if run.status.state is JobState.FAILED else []
    return next(filter(None, map(killed_task, files)), None)


def canceller(status: JobStatus) -> str:
    """The user who cancelled a job, by accounting; empty if unknown."""
    match = re.fullmatch(r"CANCELLED by ([0-9]{1,10})", status.raw_state)
    if match is None:
        return ""
    try:
        return f"{pwd.getpwuid(int(match[1])).pw_name} (uid {match[1]})"
    except (KeyError, OverflowError):
        return f"uid {match[1]}"


def lost_at_start(run: Run) -> str | None:
    """The lost nodes of a job that Slurm cancelled before it began, ``n1 (drained: Prolog error)``; else ``None``."""
    begin = f"{NODE_LOST}: "
    is_lost = run.status.state is JobState.CANCELLED and run.log is None and run.status.reason.startswith(begin)
    return run.status.reason.removeprefix(begin) if is_lost else None


def ran_out_of_memory(run: Run) -> bool:
    """True if the job ended for lack of memory, of the GPU or of the host.

    A job that was cancelled, timed out or lost its node ended for that, whatever its log has.
    """
    if run.status.state is JobState.OUT_OF_MEMORY:
        return True
    if run.status.state not in {JobState.FAILED, JobState.REPLAYED}:
        return False
    cause = cause_of(run)
    return cause is not None and cause.out_of_memory


@dataclass(frozen=True)
class Problem:
    """A fact that forbids judging a run, with evidence and advice; the caller adds the job and the log."""

    fact: str
    advice: str
    evidence: tuple[tuple[str, str], ...] = ()


def refuse(problem: Problem | None, run: Run, log: StepLog, kind: type[LogError] = LogError) -> None:
    """Raise a problem with the log and the job; does nothing for ``None``.

    Raises:
        LogError: There is a problem.
    """
    if problem is not None:
        raise kind(problem.fact, evidence=(*log_evidence(run, log), *problem.evidence), advice=problem.advice)


def job_evidence(run: Run) -> tuple[tuple[str, str], ...]:
    """The job's facts for messages."""
    status = run.status
    code = "" if status.exit_code is None else f" {status.exit_code}:{status.signal}"
    took = "" if status.run_s is None else f" after {duration(status.run_s)}"
    where = f" on {status.nodes}" if status.nodes else ""
    by = ", ended by this session" if run.stopped is not None and status.state is JobState.CANCELLED else ""
    lines = [("job", f"{run.job_id} {status.state.value}{code}{took}{where}{by}")]
    if status.reason and status.reason != "None":
        lines.append(("reason", status.reason))
    if status.unchecked:
        lines.append(("unchecked", status.unchecked))
    # Most stderr files are empty.
    lines.extend((name, str(path)) for name, path in run.outputs if path not in run.other_files or _holds_text(path))
    return tuple(lines)


def where_to_look(run: Run) -> str:
    """The first file of a job that is not empty, stderr first, as advice; empty without files."""
    files = [*run.other_files, *(path for _, path in run.outputs)]
    found = next((path for path in files if _holds_text(path)), next(iter(files), None))
    return "" if found is None else f"look at {found}"


def _holds_text(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def cause_evidence(found: Cause | None) -> tuple[tuple[str, str], ...]:
    """The line of a cause and its place, for messages; empty without a cause."""
    return () if found is None else (("cause", found.text), ("said at", f"{found.path}:{found.line}"))


def last_lines(run: Run) -> tuple[str, ...]:
    """The last lines of all files of a job, each under its name if there are several files."""
    tails = ((name, tail_lines(path, 5)) for name, path in run.outputs if path.is_file())
    shown = [(name, lines) for name, lines in tails if lines]
    if len(shown) < 2:
        return shown[0][1] if shown else ()
    return tuple(line for name, lines in shown for line in (f"-- {name}:", *lines))


def log_evidence(run: Run, log: StepLog) -> tuple[tuple[str, str], ...]:
    """The facts of the log and the job for messages."""
    place = str(run.log)
    if run.log is not None and log.steps and log.steps[-1].offset is not None:
        place = f"{run.log}:{line_number(run.log, log.steps[-1].offset)}"
    attempts = f", the last of {log.attempts} runs in the file" if log.attempts > 1 else ""
    return (
        ("log", place),
        ("steps", f"{len(log.steps)} read as {log.format}{attempts}"),
        *(evidence for evidence in job_evidence(run) if evidence[0] == "job"),
    )
