"""Slurm's commands: argument lists, processes, and parsers of their output."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from pytest_gsw.common.files import make_directory, open_own
from pytest_gsw.jobs.model import Job, JobSpec, LogBefore
from pytest_gsw.jobs.pending import dated
from pytest_gsw.jobs.run_lock import SubmissionLock
from pytest_gsw.jobs.scripts import STDOUT_BEFORE_23_02, cluster_of, options_in
from pytest_gsw.jobs.spec import job_environment, query_environment
from pytest_gsw.jobs.states import EXIT_CODE, JobState, JobStatus, JobStep, exit_and_signal, job_state

# -- Slurm's commands as argument lists; none runs through a shell ----------------------------------


# The name comes last in all of these: a bar in another user's job name is then harmless.
# A field of squeue's that has a suffix and no width is never cut.
_SQUEUE_FORMAT = "JobID:|,State:|,exit_code:|,Reason:|,NodeList:|,SubmitTime:|,StartTime:|,EndTime:|,Name:|"
_SACCT_FIELDS = "JobIDRaw,State,ExitCode,Reason,NodeList,Submit,Start,End,JobName"
# A reason is free text: bars, line feeds, escape sequences.
_SINFO_FORMAT = "%N|%T|%P|%f|%E"
_ENDS_FIELDS = "JobIDRaw,State,ExitCode,DerivedExitCode,Reason,NodeList,Submit,Start,End,JobName"

#: The first version with the options that a launch adds by itself, such as ``--segment``.
_SEGMENTS_SINCE = "24.05"


def sbatch_command(spec: JobSpec, version: str = "") -> tuple[str, ...]:
    """Submit a recipe's launch script to a Slurm of this version; an unknown version counts as the newest.

    The job's name is the row's own: recipes use a fixed one with ``--dependency=singleton``, by which
    two rows would wait for each other. ``--no-requeue``: a job that lost its node must end as NODE_FAIL,
    not restart by itself and write a second run into the log of the first. The options of the
    cluster come after these and override them.
    """
    # A later --exclude replaces an earlier one: it repeats the nodes of the cluster's own options.
    own = (*spec.excluded_nodes, *spec.avoided_nodes)
    named = [option.value or "" for option in options_in(spec.options) if option.name == "exclude"] if own else []
    placed = (f"--exclude={','.join((*named, *own))}",) if own else ()
    if spec.node_list:
        placed = (f"--nodelist={spec.node_list}",)
    output = () if spec.batch_output is None else (f"--output={spec.batch_output}",)
    limit = () if spec.time_limit_s is None else (f"--time={max(1, math.ceil(spec.time_limit_s / 60))}",)
    newer = () if "" < version < _SEGMENTS_SINCE else spec.launch.options(spec)
    return (
        *("sbatch", "--parsable", "-J", spec.name, "-N", str(spec.nodes), "--no-requeue"),
        *(*output, *newer, *spec.options, *placed, *limit, str(spec.script)),
    )


def squeue_command(
    cluster: str = "", *, ids: Sequence[str] = (), name: str = "", mine: bool = False
) -> tuple[str, ...]:
    """Query slurmctld for the state of jobs: of these ids, of a name, or all; this user's, or any user's.

    ``--all`` shows hidden partitions too. For a long list of names squeue would fetch all jobs and filter them itself.
    """
    own = ("--me",) if mine else ()
    which = ("-j", ",".join(ids)) if ids else (f"--name={name}",) if name else ()
    return ("squeue", *_cluster_option(cluster), *own, "-h", "--all", "-t", "all", "-O", _SQUEUE_FORMAT, *which)


def squeue_ids_command(cluster: str = "", *, mine: bool) -> tuple[str, ...]:
    """Query slurmctld for pending and running jobs: this user's, or all users'."""
    return ("squeue", *_cluster_option(cluster), *(("--me",) if mine else ()), "-h", "--all", "-O", "JobID")


def sacct_jobs_command(
    cluster: str = "", *, user_id: int | None = None, job_id: str = "", name: str = "", since_s: float | None = None
) -> tuple[str, ...]:
    """Query accounting for jobs, which slurmctld purges soon: the newest of an id, or those of a name, or all."""
    own = () if user_id is None else (f"--user={user_id}",)
    named = (f"--name={name}",) if name else ()
    which = ("-j", job_id) if job_id else ()
    since = () if since_s is None else ("-S", time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_s)))
    return ("sacct", *_cluster_option(cluster), "-X", "-n", "-P", "-o", _SACCT_FIELDS, *own, *named, *which, *since)


def sacct_command(ids: Sequence[str], cluster: str = "") -> tuple[str, ...]:
    """Query accounting for the ends of these jobs and their steps; ``-j`` covers all recorded time."""
    return ("sacct", *_cluster_option(cluster), "-n", "-P", "-o", _ENDS_FIELDS, "-j", ",".join(ids))


def scontrol_command(cluster: str = "") -> tuple[str, ...]:
    """Query slurmctld for all data of jobs in one process, with :func:`scontrol_requests` as its input.

    ``-d`` adds the exit code of their steps. ``scontrol show job`` accepts one id only; without an id it returns all
    jobs of the cluster.
    """
    return ("scontrol", *_cluster_option(cluster), "-a", "-d", "-o")


def scontrol_requests(ids: Sequence[str]) -> str:
    """The input of :func:`scontrol_command`."""
    return "".join(f"show job {job_id}\n" for job_id in ids)


def scontrol_show_command(what: str, cluster: str = "") -> tuple[str, ...]:
    """Query slurmctld for all of a kind, such as ``partition``, one a line; ``-a`` shows hidden ones too."""
    return ("scontrol", *_cluster_option(cluster), "-a", "-o", "show", what)


def scontrol_ping_command(cluster: str = "") -> tuple[str, ...]:
    """Query which controllers are up."""
    return ("scontrol", *_cluster_option(cluster), "ping")


def sinfo_command(cluster: str = "") -> tuple[str, ...]:
    """Query slurmctld for all nodes, one a line for each of their partitions, hidden ones included.

    ``-a`` and ``-p`` exclude each other.
    """
    return ("sinfo", *_cluster_option(cluster), "-a", "-N", "-h", "-o", _SINFO_FORMAT)


def scancel_command(ids: Sequence[str], cluster: str = "") -> tuple[str, ...]:
    """Cancel these jobs; ``-Q`` suppresses errors for those that have ended already."""
    return ("scancel", *_cluster_option(cluster), "-Q", "--", *ids)


def scancel_by_name_command(job: Job) -> tuple[str, ...]:
    """Cancel a job by its name."""
    return ("scancel", *_cluster_option(cluster_of(job.spec)), "--me", f"--name={job.name}")


def _cluster_option(cluster: str) -> tuple[str, ...]:
    return (f"--clusters={cluster}",) if cluster else ()


# -- Parsers of Slurm's output: no text makes them raise or end a job -------------------------------


#: The output of ``sbatch --parsable``, and any word that could be mistaken for it: a number.
_JOB_ID = re.compile(r"([0-9]{1,18})(?:;([^\s;]+))?")
_NUMBER = re.compile(r"\W{0,8}[0-9]{1,18}\b(?![.:,/%]?\w)")

_MANUAL = re.compile(r'Try "\w+ --help" for more information')
_SPEAKER = re.compile(r"^(?:\w+: |\w+ error: )?(?:error: )?(?:Batch job submission failed: )?")
#: A line on a job, ``481220``, or on one of its steps: ``481220.0``, ``481220.batch``.
_JOB_OR_STEP = re.compile(r"(?P<job>[0-9]{1,18})(?:\.(?P<step>[0-9A-Za-z+_.]{1,40}))?", re.ASCII)
#: Seconds since the epoch, and a status as returned by wait(2).
_EPOCH = re.compile(r"[0-9]{1,12}")
_WAIT_STATUS = re.compile(r"[0-9]{1,9}")
_COLUMNS, _END_COLUMNS = 9, 10
#: Entries that are no steps of the recipe: its batch script, and processes from outside.
_NO_STEPS = frozenset({"batch", "extern"})
_SCONTROL_FIELDS = ("JobState", "ExitCode", "Reason", "NodeList", "SubmitTime", "StartTime", "EndTime")
_NOTHING = frozenset({"", "None", "Unknown", "N/A", "(null)", "None assigned"})


@dataclass(frozen=True)
class Answer:
    """Slurm's answer on one job id: the job's name and status."""

    job_name: str
    status: JobStatus
    #: The batch shell's output file, if ``scontrol`` returned it.
    output: Path | None = None
    #: True if ``scontrol`` returned several partitions or QOS, or a shortest time: a limit of one of them is none.
    has_alternatives: bool = False
    #: The id of the process session that submitted it, if ``scontrol`` returned it.
    session_id: str = ""


@dataclass(frozen=True)
class Output:
    """Exit code and output of one command."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    #: The id of a launch script's process session.
    session_id: str = ""
    #: Files with the name of the job's log before a submission; ``None`` if unknown.
    logs_before: tuple[LogBefore, ...] | None = None

    @property
    def problem(self) -> str:
        """The last error message, without the command names before it; empty if there is none."""
        return next(reversed(self.complaints), "")

    @property
    def is_accounting_off(self) -> bool:
        """True if ``sacct`` failed because the cluster has no accounting; any other error may be gone later."""
        return self.returncode != 0 and "Slurm accounting storage is disabled" in self.complaints

    @property
    def complaints(self) -> list[str]:
        """The lines of its error messages: ``squeue: error: x`` and ``slurm_load_jobs error: x`` → ``x``.

        After an unknown option, the last line, ``Try "sbatch --help" …``, is no error message.
        """
        lines = (_SPEAKER.sub("", line.strip()) for line in self.stderr.split("\n"))
        return [line for line in lines if line and not _MANUAL.fullmatch(line)]


def parse_sbatch(text: str) -> tuple[str, str] | None:
    """The job in the output of ``sbatch --parsable``, one line: ``481220``, or ``481220;eos`` on the cluster eos.

    A site's wrapper may print lines of text around it. If these contain another number as a word of its own, the id is
    ambiguous.

    Returns:
        Its cluster, if printed, and its id; ``None`` if there is no number, or more than one that may be the id.
    """
    numbers = [word for word in text.split() if _NUMBER.match(word)]
    lines = [line.strip() for line in text.split("\n")]
    ids = [(match[2] or "", match[1]) for match in map(_JOB_ID.fullmatch, lines) if match is not None]
    return ids[0] if len(ids) == len(numbers) == 1 else None


def parse_version(text: str) -> str:
    """Slurm's version in the output of ``sbatch --version``: ``slurm 22.05.8`` or ``slurm-wlm 22.05.8``; else ""."""
    match = re.search(r"^slurm\S* (\d[\w.-]{0,40})\s*$", text, re.MULTILINE)
    return match[1] if match else ""


def parse_squeue(text: str) -> dict[str, Answer]:
    """The lines of ``squeue`` by job id; lines of another shape are skipped."""
    return {job_id: Answer(name.removesuffix("|"), _status(*facts)) for job_id, *facts, name in _rows(text)}


def parse_sacct(text: str) -> dict[str, Answer]:
    """The lines of ``sacct`` by job id."""
    return {job_id: Answer(name, _status(*facts)) for job_id, *facts, name in _rows(text)}


def parse_requeued(text: str) -> dict[str, str]:
    """The nodes of each job's last start that has any, by the lines of ``sacct``."""
    return {job_id: nodes for job_id, _, _, _, nodes, *_ in _rows(text) if _word(nodes)}


def _status(state_text: str, code: str, reason: str, nodes: str, submit: str, start: str, end: str) -> JobStatus:
    """The status of a job from the fields of any of the commands."""
    state = job_state(state_text)
    has_ended = state.ended
    exit_code, signal = _exit_code(code) if has_ended else (None, 0)
    return JobStatus(
        state,
        raw_state=state_text,
        exit_code=exit_code,
        signal=signal,
        reason=dated(_word(reason), _epoch_s(start)) if state is JobState.PENDING else _word(reason),
        nodes=_word(nodes),
        submit_s=_epoch_s(submit),
        # For a pending job this is its estimated start, which --start prints as well; the end of a running one is its
        # time limit.
        start_s=None if state is JobState.PENDING else _epoch_s(start),
        expected_start_s=_epoch_s(start) if state is JobState.PENDING else None,
        end_s=_epoch_s(end) if has_ended else None,
    )


def parse_ends(text: str) -> dict[str, Answer]:
    """The lines of ``sacct`` on ended jobs and their steps, by job id; the batch script and ``extern`` are no steps."""
    answers: dict[str, Answer] = {}
    steps: dict[str, list[JobStep]] = {}
    for line in text.split("\n"):
        fields = [field.strip() for field in line.split("|", _END_COLUMNS - 1)]
        match = _JOB_OR_STEP.fullmatch(fields[0])
        if len(fields) != _END_COLUMNS or match is None:
            continue
        job_id, number, derived = match["job"], match["step"], fields.pop(3)
        status, name = _status(*fields[1:-1]), fields[-1]
        if number is None:
            status = replace(status, derived_exit_code=derived if EXIT_CODE.fullmatch(derived) else "")
            answers[job_id] = Answer(name, status)
        elif number not in _NO_STEPS:
            end = (status.exit_code, status.signal, status.nodes, status.start_s, status.end_s)
            steps.setdefault(job_id, []).append(JobStep(number, name, status.state, status.raw_state, *end))
    return {
        job_id: replace(answer, status=replace(answer.status, steps=tuple(steps.get(job_id, ()))))
        for job_id, answer in answers.items()
    }


def parse_scontrol(text: str) -> dict[str, Answer]:
    """The lines of ``scontrol -d -o show job`` by job id."""
    answers = {}
    for line in text.split("\n"):
        # Values may contain blanks, but none of those read here does. The first value of a name counts:
        # a comment or a command after it may contain anything.
        fields: dict[str, str] = {}
        for name, value in re.findall(r"(?:^|\s)([A-Za-z:]+)=(\S*)", line):
            fields.setdefault(name, value)
        if not fields.get("JobId", "").isdigit():
            continue
        status = _status(*(fields.get(name, "") for name in _SCONTROL_FIELDS))
        derived, output = fields.get("DerivedExitCode", ""), _word(fields.get("StdOut", ""))
        if status.state.ended and EXIT_CODE.fullmatch(derived):
            status = replace(status, derived_exit_code=derived)
        several = "," in fields.get("Partition", "") + fields.get("QOS", "") or _word(fields.get("TimeMin", "")) != ""
        path, session_id = Path(output) if output else None, fields.get("AllocNode:Sid", "").rpartition(":")[2]
        answers[fields["JobId"]] = Answer(fields.get("JobName", ""), status, path, several, session_id)
    return answers


def why(output: Output) -> str:
    """A short reason why a command returned no answer."""
    if output.problem:
        return output.problem
    return f"exit code {output.returncode}" if output.returncode else "no record yet"


def scancel_problem(output: Output) -> str:
    """The reason why jobs may still run after ``scancel``; empty if they will not."""
    if output.returncode == 0:
        return ""
    harmless = ("already completing or completed", "Invalid job id", "Job/step already")
    lines = output.complaints
    serious = [line for line in lines if not any(text in line for text in harmless)]
    return serious[-1] if serious else "" if lines else f"exit code {output.returncode}"


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.split("\n"):
        fields = [field.strip() for field in line.split("|", _COLUMNS - 1)]
        if len(fields) == _COLUMNS and fields[0].isascii() and fields[0].isdigit():
            yield fields


def _word(text: str) -> str:
    return "" if text in _NOTHING else text


def _epoch_s(text: str) -> float | None:
    # SLURM_TIME_FORMAT=%s; any other text ("Unknown", "None", a date) is no reliable time.
    return float(text) if _EPOCH.fullmatch(text) else None


def _exit_code(text: str) -> tuple[int | None, int]:
    """Exit code and signal, written as 7:0 by sacct and scontrol, or as a status of wait(2) (1792, 9)."""
    if _WAIT_STATUS.fullmatch(text):
        return int(text) >> 8, int(text) & 0x7F
    return exit_and_signal(text)


#: A query that takes longer is given up; the jobs are UNKNOWN until the next poll. With Slurm's
#: default MessageTimeout a client takes 10 to 20 s to report an unreachable controller.
QUERY_TIMEOUT_S = 45.0
#: Slurm's version is optional, and a site's wrapper of sbatch may not support ``--version``.
VERSION_TIMEOUT_S = 5.0
#: A submission or a cancellation needs a long timeout: jobs may start or continue although it was given up.
#: One scancel of 500 running jobs took 41 s on a busy controller with 2 cores; sbatch itself retries for two
#: minutes if slurmctld has reached its limit of jobs.
COMMAND_TIMEOUT_S = 150.0
#: A recipe that submits its job itself first imports a framework and packs its code.
LAUNCH_TIMEOUT_S = 900.0


#: Slurm is silent after so long without an answer to any command.
SILENT_S = 15.0
#: Seconds between two looks at a command without an answer, once Slurm is silent.
LOOK_S = 0.25


class Patience:
    """The wait for Slurm's answers: one line if it is silent, and no further wait once the session is to end."""

    def __init__(self) -> None:
        #: Writes a line on the screen.
        self.report: Callable[[str], None] = lambda _: None
        #: True once the session is to end.
        self.ends = False
        #: Since when a command waits, and Slurm has answered none, monotonic seconds.
        self._since_s = math.inf
        self._is_reported = False

    @property
    def is_silent(self) -> bool:
        """True if commands have had no answer for long."""
        return time.monotonic() - self._since_s >= SILENT_S

    def answered(self, output: Output) -> Output:
        """Note that Slurm has answered a command, unless it timed out."""
        if not output.timed_out:
            self._since_s, self._is_reported = math.inf, False
        return output

    def look_s(self) -> float:
        """Seconds until a command that waits is looked at: often only once Slurm is silent."""
        now_s = time.monotonic()
        self._since_s = min(self._since_s, now_s)
        return max(LOOK_S, self._since_s + SILENT_S - now_s)

    def is_over(self, name: str) -> bool:
        """True if a command without an answer is given up before its time-out; report a silent Slurm once."""
        if not self.is_silent:
            return False
        if not self._is_reported:
            self._is_reported = True
            self.report(f"gsw: {name} has not answered for {SILENT_S:g} s: scontrol ping shows if Slurm is up")
        return self.ends


#: Runs one of Slurm's commands, with the text ``given``, if any, as its input.
Ask = Callable[..., Output]


class Client:
    """Runs Slurm's commands.

    Args:
        environ: The session's environment.
        lock: Taken by each submission while it is under way.
    """

    def __init__(self, environ: Mapping[str, str], lock: SubmissionLock | None = None) -> None:
        self.environ = environ
        self.patience = Patience()
        self._lock = lock

    @property
    def user_id(self) -> int:
        """The user of its jobs, for accounting."""
        return os.getuid()

    def now_s(self) -> float:
        """Seconds since the epoch where the commands run."""
        return time.time()

    def here(self, path: Path) -> Path:
        """The path at which this machine reads a file that Slurm or a launch script has named."""
        return path

    @cached_property
    def version(self) -> str:
        """Slurm's version, from its commands; "" if unknown."""
        # sbatch prints it without the controller.
        output = self._answer(("sbatch", "--version"), VERSION_TIMEOUT_S, None)
        return parse_version(output.stdout) if output.returncode == 0 else ""

    def sbatch_command(self, spec: JobSpec) -> tuple[str, ...]:
        """The command that submits a job; the version is read only if it matters."""
        return sbatch_command(spec, self.version if spec.launch.options(spec) else "")

    def ask(self, command: tuple[str, ...], *, given: str | None = None) -> Output:
        """Output of a query, with this text as its input; failure to run the command is an output, too."""
        return self._answer(command, QUERY_TIMEOUT_S, self.patience, given)

    def act(self, command: tuple[str, ...]) -> Output:
        """Output of a command that changes something, with a longer timeout than a query."""
        # One that ends many jobs takes long: it is given up only if Slurm was silent before it.
        patience = self.patience if self.patience.is_silent else None
        return self._answer(command, COMMAND_TIMEOUT_S, patience)

    def submit(self, command: tuple[str, ...], spec: JobSpec) -> Output:
        """Output of sbatch.

        Raises:
            OSError: It cannot be run.
        """
        for output in output_directories(spec):
            with contextlib.suppress(OSError):  # Slurm reports it better: for the job's user, on the job's node
                make_directory(output)
        environment, patience, place = job_environment(self.environ, spec), self.patience, spec.directory
        lock = self._inherited_lock()
        answer = _run(command, environment, COMMAND_TIMEOUT_S, patience=patience, directory=place, inherited=lock)
        return patience.answered(answer)

    def launch(self, command: tuple[str, ...], spec: JobSpec, output: Path) -> Output:
        """Output of a launch script that submits its job itself; it is kept in a file, its errors in one next to it.

        Raises:
            OSError: It cannot be run.
        """
        # The program is searched in PATH, which the recipe's virtual environment may have changed.
        environment = {**job_environment(self.environ, spec), **spec.launch.variables(spec)}
        make_directory(output.parent, private=True)
        problems = output.with_suffix(".err")
        with _open_private(output) as out, _open_private(problems) as err:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=spec.directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=self._inherited_lock(),
                start_new_session=True,  # as below
            )
            code = _wait_or_kill(process, LAUNCH_TIMEOUT_S)
        out_text, err_text = (file.read_text(encoding="utf-8", errors="replace") for file in (output, problems))
        if code is None:
            return Output(124, out_text, f"{command[0]} did not end within {LAUNCH_TIMEOUT_S:g} s", timed_out=True)
        return Output(code, out_text, err_text, session_id=str(process.pid))

    def _inherited_lock(self) -> tuple[int, ...]:
        return () if self._lock is None else (self._lock.descriptor(),)

    def _answer(
        self, command: tuple[str, ...], timeout_s: float, patience: Patience | None, given: str | None = None
    ) -> Output:
        try:
            answer = _run(command, query_environment(self.environ), timeout_s, patience=patience, given=given)
            return self.patience.answered(answer)
        except OSError as error:
            return Output(127, "", f"{command[0]}: {error.strerror or error}")


def output_directories(spec: JobSpec) -> list[Path]:
    """The directories of a job's outputs: if one is missing, srun writes nothing and hangs until the time limit."""
    outputs = filter(None, (spec.batch_output, spec.environment.get(STDOUT_BEFORE_23_02)))
    return [Path(output).parent for output in outputs]


def _open_private(path: Path) -> BinaryIO:
    """An empty file that only this user can read: a script may print its secrets."""
    return os.fdopen(open_own(path, os.O_WRONLY | os.O_TRUNC), "wb")


def _wait_or_kill(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """The exit code of a process; ``None`` if it exceeds the timeout and is killed with all its children."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _run(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    timeout_s: float,
    patience: Patience | None = None,
    directory: Path | None = None,
    inherited: tuple[int, ...] = (),
    given: str | None = None,
) -> Output:
    began_s = time.monotonic()
    with subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=inherited,
        # Ctrl-C goes to all processes of a terminal: an sbatch that it ends has perhaps submitted its job.
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            while True:
                left_s = began_s + timeout_s - time.monotonic()
                look_s = left_s if patience is None else min(left_s, patience.look_s())
                try:
                    stdout, stderr = process.communicate(given, look_s)
                except subprocess.TimeoutExpired:
                    given = None  # it is passed on by the first call
                    if look_s == left_s or (patience is not None and patience.is_over(command[0])):
                        process.kill()
                        waited_s = min(timeout_s, time.monotonic() - began_s)
                        return Output(124, "", f"{command[0]} gave no answer within {waited_s:.3g} s", timed_out=True)
                else:
                    return Output(process.returncode, stdout, stderr)
        except BaseException:
            process.kill()
            raise
