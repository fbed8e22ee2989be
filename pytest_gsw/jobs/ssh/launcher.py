"""Jobs on a Slurm cluster by way of a login node: Slurm's commands run there, and its files are read by copies."""

from __future__ import annotations

import glob
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import make_directory
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.process import run_in_background
from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import plural
from pytest_gsw.errors import (
    Failed,
    JobError,
    LogError,
    NotFetchedError,
    NotListedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
    TakenOverError,
)
from pytest_gsw.jobs.layout import FileFacts, fill_job_id, fixed_part, job_id_in
from pytest_gsw.jobs.model import FoundJob, Job, JobSpec, LogBefore
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Client, Output, Patience
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.slurm.poll import usual_output
from pytest_gsw.jobs.slurm.probing import LIMIT_S, Probe, probe_environment, probed
from pytest_gsw.jobs.slurm.sbatch_errors import may_have_been_taken
from pytest_gsw.jobs.spec import job_environment, query_environment
from pytest_gsw.jobs.ssh.checks import missing_programs, unwritable
from pytest_gsw.jobs.ssh.connection import Call, ConnectionLostError, HelperError, RefusedRequestError, changes_to
from pytest_gsw.jobs.ssh.login import Login, key_of
from pytest_gsw.jobs.states import JobState, JobStatus

#: Seconds in which a job that was submitted without an answer appears in squeue or in accounting.
LOST_WAIT_S = SlurmLauncher.lost_wait_s
#: The files of ended jobs that were looked for so recently are read together, seconds.
_LOOKED_S = 3.0
#: Files of a recipe that are named because they were not sent.
_MOST_NAMED = 3
#: Evidence of other files next to a log.
_NEAR = ("there is", "")
#: Jobs of the same name that were submitted before are no older, seconds.
_SEARCHED_S = 7 * 86400.0


class LoginClient(Client):
    """Runs Slurm's commands on a login node.

    Args:
        login: The login node.
    """

    def __init__(self, login: Login) -> None:
        super().__init__(login.node().variables)
        self._login = login

    @property
    def user_id(self) -> int:
        """The user on the login node."""
        return self._login.node().user_id

    def now_s(self) -> float:
        """Seconds since the epoch by the login node's clock."""
        return self._login.connection.now_s()

    def here(self, path: Path) -> Path:
        """The path of the copy of a file."""
        return self._login.mirror.here(path)

    def submit(self, command: tuple[str, ...], spec: JobSpec) -> Output:
        """Output of sbatch, which runs once for each attempt at a row."""
        return self._submit(command, spec, client.COMMAND_TIMEOUT_S, job_environment(self.environ, spec))

    def launch(self, command: tuple[str, ...], spec: JobSpec, output: Path) -> Output:
        """Output of a launch script that submits its job itself, kept as on a login node.

        Raises:
            SchedulerUnreachableError: There is no answer: the script may run on, and submit its job.
        """
        environment = {**job_environment(self.environ, spec), **spec.launch.variables(spec)}
        answer = self._submit(command, spec, client.LAUNCH_TIMEOUT_S, environment)
        if answer.timed_out and not answer.session_id:
            raise SchedulerUnreachableError(
                f"whether {spec.row_id} was submitted is not known: {answer.stderr}",
                advice=f"ssh {self._login.connection.machine.target} true",
            )
        if not answer.timed_out or answer.stdout:
            keep_output(output, answer)
        return answer

    def probe(self, command: tuple[str, ...], limit_s: float) -> Output:
        """Output of a probe."""
        arguments = {"command": command, "changes": self._changes(probe_environment(self.environ)), "given": None}
        return self._call(lambda: ("run", {**arguments, "timeout_s": limit_s}), limit_s, None, command[0])

    def state_of(self, spec: JobSpec) -> tuple[str, Output]:
        """The state of an attempt by its key, and sbatch's output; see :meth:`~.login_helper.Helper.state_of`.

        Raises:
            ConnectionLostError: It is unknown.
            HelperError: It cannot be read.
        """
        self._login.own()
        state = self._login.connection.call("state_of", key=key_of(spec))
        return state["state"], self._output(state, spec)

    def _submit(
        self, command: tuple[str, ...], spec: JobSpec, timeout_s: float, environment: Mapping[str, str]
    ) -> Output:
        login, cluster = self._login, cluster_of(spec)

        def call() -> tuple[str, Mapping[str, Any]]:
            login.own()
            if left_out := login.send_recipe(spec.directory):
                names = ", ".join(map(printable, left_out[:_MOST_NAMED]))
                more = f" and {len(left_out) - _MOST_NAMED} more" if len(left_out) > _MOST_NAMED else ""
                self.patience.report(
                    f"gsw: not sent to {login.host}, as no small text of {spec.directory}: {names}{more}"
                )
            since_s = self.now_s() - _SEARCHED_S
            searches = (
                client.squeue_command(cluster, name=spec.name, mine=True),
                client.sacct_jobs_command(cluster, user_id=self.user_id, name=spec.name, since_s=since_s),
            )
            logs = fill_job_id(spec.log_glob, "*").rpartition("/")[0]
            place = f"{glob.escape(login.mirror.there(str(spec.stage)))}/{logs}"
            return "submit", {
                "key": key_of(spec),
                "command": [login.there(word) for word in command],
                "changes": self._changes(environment),
                "directory": login.there(str(spec.directory)),
                "searches": searches,
                "search_changes": self._changes(query_environment(self.environ)),
                "name": spec.name,
                "places": [f"{place}/*"] if spec.log_glob else [],
                "makes": [login.there(str(output)) for output in client.output_directories(spec)],
                "timeout_s": timeout_s,
                "settle_s": LOST_WAIT_S,
                "is_alone": spec.launch.submits_itself,
            }

        return self.patience.answered(self._call(call, timeout_s, self.patience, command[0], spec))

    def _answer(
        self, command: tuple[str, ...], timeout_s: float, patience: Patience | None, given: str | None = None
    ) -> Output:
        arguments = {
            "command": [self._login.there(word) for word in command],
            "changes": self._changes(query_environment(self.environ)),
            "given": given,
            "timeout_s": timeout_s,
        }
        return self.patience.answered(self._call(lambda: ("run", arguments), timeout_s, patience, command[0]))

    def _call(
        self,
        make_call: Callable[[], tuple[str, Mapping[str, Any]]],
        timeout_s: float,
        patience: Patience | None,
        name: str,
        spec: JobSpec | None = None,
    ) -> Output:
        """The output of a command there; a lost connection is a command without an answer."""
        begun_s = time.monotonic()
        try:
            pending = self._login.connection.begin([make_call()], timeout_s)
            while True:
                try:
                    answer = pending.result(None if patience is None else patience.look_s())
                except TimeoutError:
                    if patience is not None and patience.is_over(name):
                        waited_s = time.monotonic() - begun_s
                        return Output(124, "", f"{name} gave no answer within {waited_s:.3g} s", timed_out=True)
                else:
                    return self._output(answer.results[0], spec)
        except ConnectionLostError as error:
            return Output(124, "", error.fact, timed_out=True)
        except RefusedRequestError as error:
            if error.fact == "taken over":
                raise self._login.taken_over() from None
            return Output(124, "", f"another {name} has not ended", timed_out=True)
        except HelperError as error:
            if spec is not None:
                folder, machine = self._login.folder, self._login.connection.machine
                raise SubmissionError(
                    f"nothing was submitted: {error.fact}",
                    (("run", f"{self._login.host}:{folder}"),),
                    error.tail,
                    error.advice or machine.command("df", "-h", folder),
                ) from None
            return Output(127, "", error.fact)

    def _output(self, answer: Mapping[str, Any], spec: JobSpec | None) -> Output:
        if "code" not in answer:  # of a submission that was begun and has no answer
            return Output(124, "", "the login node has begun it, and has no answer", timed_out=True)
        output = Output(
            answer["code"], answer["out"], answer["err"], answer["timed_out"], session_id=str(answer["process_id"])
        )
        if spec is None or "before" not in answer:
            return output
        stage = f"{self._login.mirror.there(str(spec.stage))}/"
        submitted = client.parse_sbatch(output.stdout)
        before = [
            LogBefore(facts["path"].removeprefix(stage), facts["size"], facts["inode"], facts["mtime_ns"])
            for facts in answer["before"]
            if submitted is not None
            and job_id_in(facts["path"].rpartition("/")[2], spec.log_glob, submitted[1]) is not None
        ]
        return replace(output, logs_before=tuple(before))

    def _changes(self, environment: Mapping[str, str]) -> dict[str, str | None]:
        """The variables that differ from the login node's own; ``None`` unsets one."""
        changes = changes_to(environment, self.environ)
        return {name: value and self._login.there(value) for name, value in changes.items()}


class LoginProbe(Probe):
    """A probe of a job's nodes by a command on the login node, which ends it there."""

    def __init__(self, remote: LoginClient, command: tuple[str, ...], limit_s: float) -> None:
        self.result = run_in_background(lambda: probed(remote.probe(command, limit_s)), "gsw-probe")

    def end(self) -> None:
        """Leave it to its time limit on the login node."""


class SshLauncher(SlurmLauncher):
    """Submits, polls and cancels jobs on a login node.

    Args:
        login: The login node.
        work_directory: Directory of launch scripts' outputs on this machine.
    """

    #: With a read of all logs in the request of each poll, fewer than 240 requests an hour.
    poll_interval_s = 20.0
    unknown_limit_s = 7200.0
    sees_files = False

    def __init__(self, login: Login, work_directory: Path) -> None:
        self._remote = LoginClient(login)
        super().__init__(self._remote.environ, None, work_directory, self._remote)
        self._login = login
        self._report: Callable[[str], None] = lambda _: None
        self._is_lost, self._reporting = False, threading.Lock()
        #: Ids of jobs that had not ended at the last poll, and of those that had begun: all others have ended, some of
        #: them in an earlier session. Ids of ended ones whose files are here as they were after that end.
        self._open: set[str] = set()
        self._begun: set[str] = set()
        self._read_after_end: set[str] = set()
        #: Why the last read of an ended job failed.
        self._unread: dict[str, RunError] = {}
        #: Ids of these that were not looked for since they were read; and jobs that were, at which monotonic time.
        self._fresh: set[str] = set()
        self._looked: dict[str, tuple[Job, float]] = {}

    def make_probe(
        self, command: tuple[str, ...], environ: Mapping[str, str], nodes: int, limit_s: float = LIMIT_S
    ) -> Probe:
        """Start a probe of a job's nodes."""
        return LoginProbe(self._remote, command, limit_s)

    def submit(self, spec: JobSpec) -> Job:
        """Submit one job, once.

        Raises:
            SchedulerUnreachableError: The login node or the controller is out of reach; the job may exist.
            SubmissionError: Slurm refused it, or its answer is invalid.
            TakenOverError: The run is another session's.
        """
        try:
            return super().submit(spec)
        except SubmissionError as error:
            raise self._shown(error) from None
        finally:
            self._report_connection()

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job submitted for this spec, by its key; if that is open, by its name.

        Raises:
            SchedulerUnreachableError: The login node or the controller is out of reach: there may be a job.
            SubmissionError: Slurm may have one that it does not list.
        """
        try:
            state, output = self._remote.state_of(spec)
        except (ConnectionLostError, HelperError) as error:
            raise client_unreachable(spec, error) from None
        finally:
            self._report_connection()
        if state == "running":
            raise NotListedError(f"whether {spec.row_id} was submitted is not known yet: sbatch runs")
        if spec.launch.submits_itself and state != "none":
            keep_output(self._scripts.output_file(spec), output)
        elif state == "taken" and (submitted := client.parse_sbatch(output.stdout)) is not None:
            return Job(submitted[1], spec, since_s, output.logs_before)
        elif state == "none" or (state == "refused" and not may_have_been_taken(output)):
            self._lost.pop(spec.name, None)
            return None
        return super().find(spec, since_s)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        """All jobs with these rows' own names, of any attempt; the run is this session's from then on.

        Raises:
            SchedulerUnreachableError: The login node or the controller is out of reach.
            TakenOverError: The run is another session's.
        """
        try:
            self._login.own(self._report)
        except (ConnectionLostError, HelperError) as error:
            raise SchedulerUnreachableError(error.fact, error.evidence, error.tail, error.advice) from None
        return super().named(specs, since_s)

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """The errors of jobs that certainly cannot be submitted, by row: a program, or the right to write."""
        login, results = self._login, {spec.row_id: self._results_of(spec) for spec in specs}
        environ = self._remote.environ
        paths = {spec.row_id: job_environment(environ, spec).get("PATH") for spec in specs}
        wanted = grouped([(paths[spec.row_id], spec.launch.program) for spec in specs])
        calls: list[Call] = [("writable", {"places": sorted({*results.values()})})]
        calls += [("programs", {"names": sorted({"sbatch", *names}), "path": path}) for path, names in wanted.items()]
        try:
            writable, *programs = login.at_begin(calls).results
        except RunError as error:
            return {
                spec.row_id: SubmissionError(error.fact, error.evidence, error.tail, error.advice) for spec in specs
            }
        errors, on_path = {}, dict(zip(wanted, programs, strict=True))
        machine = login.connection.machine
        for spec in specs:
            found = on_path[paths[spec.row_id]]
            missing = [name for name in ("sbatch", spec.launch.program) if found[name] is None]
            facts = writable[results[spec.row_id]]
            if missing:
                fact, advice = missing_programs(machine, missing)
                errors[spec.row_id] = SubmissionError(fact, advice=advice)
            elif not facts["is_writable"]:
                fact, advice = unwritable(machine, results[spec.row_id], facts)
                errors[spec.row_id] = SubmissionError(fact, advice=advice)
        return errors

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id, with a copy of what the logs of running jobs have got since."""
        running = [job for job in jobs if job.id in self._begun]
        if running:
            self._login.read_with_next(running, [self._wanted(job) for job in running])
        self._login.keep_with_next()
        statuses = super().poll(jobs)
        self._report_connection()
        of_id = {job.id: statuses[job.spec.row_id].state for job in jobs}
        self._begun = {job_id for job_id, state in of_id.items() if state is not JobState.PENDING}
        ended = [job for job in jobs if of_id[job.id].ended]
        self._read_after_end -= {job.id for job in ended}
        self._open = of_id.keys() - {job.id for job in ended}
        if ended:
            self._read(ended)
        return statuses

    def find_log(self, job: Job) -> Path:
        """The one log of a job: the copy, which is whole once the job has ended.

        Raises:
            LogError: There is none (yet), or more than one, or it is not here as a whole.
        """
        has_ended = job.id not in self._open
        if has_ended and job.id not in self._fresh:
            now_s = time.monotonic()
            self._looked[job.id] = job, now_s
            self._looked = {name: look for name, look in self._looked.items() if look[1] > now_s - _LOOKED_S}
            self._read([awaited for awaited, _ in self._looked.values()])
        self._fresh.discard(job.id)
        if has_ended and job.id not in self._read_after_end:
            error = self._unread.get(job.id)
            why = self._login.connection.lost_text or (error.fact if error else "it was not read yet")
            raise self._not_here(LogError if isinstance(error, HelperError) else NotFetchedError, job, why)
        if has_ended and (problem := self._login.mirror.unwritten(job)):
            raise self._not_here(LogError, job, problem)
        try:
            log = super().find_log(job)
        except LogError as error:
            raise self._shown(error) from None
        if has_ended and (problem := self._login.mirror.problem(log)):
            raise self._not_here(LogError, job, f"{self._login.shown(str(log))}: {problem}")
        return log

    def refresh(self, jobs: Sequence[Job]) -> None:
        """Read the files of these ended jobs once more."""
        self._read(jobs)

    def file_facts(self, path: Path) -> FileFacts | None:
        """The facts of a copy's file, by its file server."""
        return self._login.mirror.facts(path)

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel these jobs with one request.

        Raises:
            JobError: They may still run; the advice is how to end them.
        """
        try:
            self._login.check_owner()
            super().cancel(jobs)
        except (JobError, ConnectionLostError, HelperError) as error:
            named = ("may run", ", ".join(f"{job.id} {job.name}" for job in jobs))
            end = client.scancel_command([job.id for job in jobs], cluster_of(jobs[0].spec))
            advice = self._login.connection.machine.command(*end)
            fact = error.fact if isinstance(error, JobError) else f"jobs may still run: {error.fact}"
            raise JobError(fact, (*error.evidence, named), error.tail, advice) from None

    def report_by(self, write: Callable[[str], None]) -> None:
        """Write a line by this function once Slurm is silent or the connection is lost."""
        super().report_by(write)
        self._report = write

    def end_waits(self) -> None:
        """Wait no longer for a silent Slurm, nor for a silent login node."""
        super().end_waits()
        self._login.connection.hurry()

    def close(self) -> None:
        """Keep the run's own files in its folder, and end the connection."""
        try:
            self._login.release()
        except (RunError, TakenOverError) as error:
            fact = error.fact if isinstance(error, RunError) else error
            self._report(f"gsw: the run's files on {self._login.host} are not complete: {fact}")
        super().close()
        self._login.close()

    def _shown(self, error: Failed) -> Failed:
        """An error for the user of this machine: paths have the login node's name, except in commands.

        Only the files of the job are here: what else is in their directories is not known.
        """
        shown, there = error.with_texts(self._login.shown), error.with_texts(self._login.there)
        commands = {name: value for name, value in there.evidence if name == "command"}
        evidence = [(name, commands.get(name, value)) for name, value in shown.evidence if name not in _NEAR]
        advice = there.advice
        if advice.startswith("ls "):
            advice = self._login.connection.machine.command(*shlex.split(advice))
        return type(error)(shown.fact, tuple(evidence), error.tail, advice)

    def _read(self, jobs: Sequence[Job]) -> None:
        """Read the files of ended jobs; what could not be read is tried again when it is wanted."""
        try:
            self._login.read(jobs, [self._wanted(job) for job in jobs])
        except (ConnectionLostError, HelperError) as error:
            self._unread |= dict.fromkeys([job.id for job in jobs], error)
            self._report_connection()
            return
        self._read_after_end |= {job.id for job in jobs}
        self._fresh |= {job.id for job in jobs}

    def _wanted(self, job: Job) -> dict[str, Any]:
        directory = self._scripts.directory_of_job(job) if job.spec.launch.has_directory else None
        outputs = [usual_output(job)]
        if (named := self._poller.known_output_of(job)) is not None:
            outputs.append(self._remote.here(named))
        return self._login.mirror.wanted(job, directory, outputs)

    def _not_here(self, kind: type[LogError], job: Job, why: str) -> LogError:
        """The error of a log that is not here: of the kind that is awaited for long, if a connection may bring it."""
        return kind(
            f"the log of job {job.id} could not be fetched whole",
            (("host", self._login.host), ("problem", why)),
            advice=f"ssh {self._login.connection.machine.target} true",
        )

    def _results_of(self, spec: JobSpec) -> str:
        return self._login.there(str(spec.stage / fixed_part(spec.log_glob)))

    def _report_connection(self) -> None:
        """Report a connection that is lost, or there again, once."""
        lost, jobs = self._login.connection.lost_text, len(self._open)
        with self._reporting:
            was_lost, self._is_lost = self._is_lost, bool(lost)
        if lost and not was_lost:
            runs_on = f"; {plural(jobs, 'job')} {'runs' if jobs == 1 else 'run'} on" if jobs else ""
            self._report(f"gsw: {lost}{runs_on}")
        elif was_lost and not lost:
            self._report(f"gsw: connected to {self._login.host} again")


def keep_output(file: Path, output: Output) -> None:
    """Keep the output of a launch script, and its errors next to it, as it is kept on a login node."""
    make_directory(file.parent, private=True)
    for path, text in ((file, output.stdout), (file.with_suffix(".err"), output.stderr)):
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def client_unreachable(spec: JobSpec, error: RunError) -> SchedulerUnreachableError:
    """The error of a submission whose key cannot be looked up."""
    fact = f"whether {spec.row_id} was submitted is not known: {error.fact}"
    return SchedulerUnreachableError(fact, advice=error.advice)
