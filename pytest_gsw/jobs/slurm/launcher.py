"""Jobs on a Slurm cluster: submission, polling and cancellation.

Slurm's commands, and the parsers of their output, are in :mod:`~pytest_gsw.jobs.slurm.client`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.clusters import LAUNCHER_KEYS
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.errors import (
    JobError,
    LogError,
    NotListedError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import VIRTUAL_ENVIRONMENTS, FoundJob, Job, JobSpec
from pytest_gsw.jobs.run_lock import PATIENCE_S, SubmissionLock
from pytest_gsw.jobs.scripts import check_one_job, cluster_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Client, Output
from pytest_gsw.jobs.slurm.job_search import JobSearch
from pytest_gsw.jobs.slurm.launch_scripts import LaunchScripts
from pytest_gsw.jobs.slurm.poll import Poller, usual_output
from pytest_gsw.jobs.slurm.sbatch_errors import (
    full_queue,
    is_away,
    is_certain,
    may_have_been_taken,
    not_run,
    refusal,
    submission_evidence,
)
from pytest_gsw.jobs.spec import job_environment, session_environment
from pytest_gsw.jobs.states import NEVER_STARTS, JobStatus


def _missing_program(program: str, path: str) -> SubmissionError | None:
    if shutil.which(program, path=path) is not None:
        return None
    advice = "run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm"
    if program != "sbatch":
        advice = f"name the virtual environment that has {program}: VIRTUAL_ENV in `environment` of the cluster"
    return SubmissionError(f"{program} is not on the PATH", (("PATH", path),), advice=advice)


_NO_SLURM = "is this a login node of the cluster, with Slurm's commands on the PATH?"


class SlurmLauncher(Launcher):
    """Submits, polls and cancels jobs with Slurm's own commands.

    Args:
        environ: The session's environment; by default that of this process when the launcher is made.
        lock: Taken by each submission while it is under way.
        work_directory: Directory of launch scripts' outputs; by default the system's for temporary files.
        client: Runs Slurm's commands; here by default.
    """

    name = "slurm"
    #: The keys of ``clusters.yaml`` that determine the call of sbatch.
    cluster_keys = LAUNCHER_KEYS
    #: Time in which a job appears in squeue or in accounting after a submission whose answer was lost.
    lost_wait_s = 60.0
    #: sbatch mostly waits for the controller; more at once would only increase its load.
    parallel_submissions = 8
    #: Polls take seconds on a busy controller; submissions and judging continue meanwhile.
    polls_in_a_thread = True
    jobs_outlive_session = True

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        lock: SubmissionLock | None = None,
        work_directory: Path | None = None,
        client: Client | None = None,
    ) -> None:
        # Threads submit: the environment that they iterate over must not change meanwhile.
        self._client = client or Client(session_environment(environ), lock)
        self.patience = self._client.patience
        self._lock = lock
        #: Time of each submission, by the job's name, whose answer was lost; and the names of those that were repeated.
        self._lost: dict[str, float] = {}
        self._repeated: set[str] = set()
        self._poller, self._search = Poller(self._client.ask), JobSearch(self._client)
        directory = work_directory or Path(tempfile.gettempdir())
        self._scripts = LaunchScripts(self._client, self._search, self._poller, directory)

    @property
    def version(self) -> str:
        """Slurm's version, ``22.05.8``, from its commands without the controller; "" if unknown."""
        return self._client.version

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command of :meth:`submit`, run in the directory of the recipe."""
        return spec.launch.command(spec) if spec.launch.submits_itself else self._client.sbatch_command(spec)

    def submit(self, spec: JobSpec) -> Job:
        """Submit one job.

        Raises:
            SchedulerUnreachableError: The controller is unreachable; the job may exist.
            SubmissionError: Slurm refused it, or its answer is invalid.
        """
        check_one_job(spec)
        if spec.launch.submits_itself:
            return self._scripts.submit(spec)
        command = self._client.sbatch_command(spec)
        submitted_s = self._client.now_s()
        try:
            answer = self._client.submit(command, spec)
        except OSError as error:
            raise not_run(spec, command, error, _NO_SLURM) from error
        except KeyboardInterrupt:
            # A session spends its first seconds here, where Ctrl-C is likely; without its id the job would
            # never be cancelled.
            self._cancel_unanswered(spec, submitted_s)
            raise
        job_id = self._parse_submission(answer, spec, command)
        job = None if job_id is None else Job(job_id, spec, submitted_s, answer.logs_before)
        # If the controller was unreachable, the executor looks for the job before it submits again.
        if job is None and not is_certain(answer, spec) and (may_have_been_taken(answer) or not is_away(answer)):
            try:
                job = self._search.by_name(spec, submitted_s)
            except SchedulerUnreachableError:
                self._lost[spec.name] = time.monotonic()
                raise refusal(SchedulerUnreachableError, spec, command, answer) from None
        if job is None:
            if may_have_been_taken(answer):
                self._lost[spec.name] = time.monotonic()
            self._check_room(spec, command, answer)
            failure = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise refusal(SchedulerUnreachableError if is_away(answer) else failure, spec, command, answer)
        return job

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job submitted for this spec since then, by its name.

        Raises:
            SchedulerUnreachableError: The controller is unreachable: there may be a job.
            SubmissionError: An earlier session's sbatch hangs, and may yet submit one; or Slurm may have one that it
                does not list.
        """
        self._wait_for_orphans(spec.row_id, [spec])
        source = self._scripts.find if spec.launch.submits_itself else self._search.by_name
        job = source(spec, since_s)
        if job is None and spec.name in self._lost:
            self._check_lost(spec)
        return job

    def _check_lost(self, spec: JobSpec) -> None:
        """Raise unless a submission whose answer was lost has certainly left no job, so that it may be repeated.

        A controller that is too busy to answer may take the job later, and list it later still: only accounting that
        has no such job after a while proves it, and no more than once.

        Raises:
            NotListedError: It is too early.
            SubmissionError: Nothing can prove it.
        """
        what = f"whether {spec.row_id} was submitted is not known: sbatch did not answer"
        if time.monotonic() < self._lost[spec.name] + self.lost_wait_s:
            raise NotListedError(f"{what}, and Slurm has not listed the job yet")
        if not self._search.has_accounting or spec.name in self._repeated:
            lists = "accounting has no job of the name" if self._search.has_accounting else "there is no accounting"
            end = shlex.join(client.scancel_by_name_command(Job("", spec, 0.0)))
            raise SubmissionError(
                what,
                (("may run", spec.name), ("squeue", f"has no job of the name after {self.lost_wait_s:.0f} s; {lists}")),
                advice=f"squeue --me --name={spec.name} shows it, {end} ends it; run the row again then",
            )
        del self._lost[spec.name]
        self._repeated.add(spec.name)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        """All jobs with these rows' own names, of any attempt, with two queries for all of them.

        Args:
            specs: The specs of the rows' first jobs.
            since_s: Earliest submission of one of them, seconds since the epoch.

        Raises:
            SchedulerUnreachableError: Slurm does not answer.
            SubmissionError: A submission of the resumed session hangs, and may yet submit a job.
        """
        self._wait_for_orphans("its rows", specs)
        return self._scripts.counted(self._search.since(specs, since_s), specs)

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """The errors of jobs whose submission cannot begin, by row: a program is missing.

        A recipe's virtual environment may contain the program of its launcher.
        """
        no_sbatch, errors = _missing_program(*self._sbatch), dict[str, SubmissionError]()
        for program, same in self._programs(specs).items():
            if error := no_sbatch or _missing_program(*program):
                errors |= dict.fromkeys([spec.row_id for spec in same], error)
        return errors

    @property
    def _sbatch(self) -> tuple[str, str]:
        """The program of all submissions, and the PATH on which it is looked for."""
        return "sbatch", self._client.environ.get("PATH", os.defpath)

    def _programs(self, specs: Sequence[JobSpec]) -> dict[tuple[str, str], list[JobSpec]]:
        """The specs by the program that begins their submission, and the PATH on which it is looked for."""
        names = ("PATH", *VIRTUAL_ENVIRONMENTS)
        alike = grouped([((spec.launch.program, *map(spec.environment.get, names)), spec) for spec in specs]).values()
        paths = [job_environment(self._client.environ, same[0]).get("PATH", os.defpath) for same in alike]
        pairs = zip(paths, alike, strict=True)
        return grouped([((spec.launch.program, path), spec) for path, same in pairs for spec in same])

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id; UNKNOWN if no command returned it. Never raises."""
        statuses = self._poller.poll(jobs)
        for job in (job for job in jobs if statuses[job.spec.row_id].reason == NEVER_STARTS):
            if (first := self._scripts.failed_prerequisite(job)) is not None:
                status, reason = statuses[job.spec.row_id], f"{first.why}: look at {first.log}"
                statuses[job.spec.row_id] = replace(status, reason=reason, failed_first=first)
        self._poller.mark_alternatives(jobs, statuses)
        self._poller.mark_lost_nodes(jobs, statuses)
        return statuses

    def now_s(self) -> float:
        """Seconds since the epoch by the clock of the machine with Slurm's commands."""
        return self._client.now_s()

    def named_in_poll(self, specs: Sequence[JobSpec]) -> tuple[FoundJob, ...] | None:
        """The jobs of these rows by the last answer of squeue; ``None`` if it has not all jobs of the user."""
        return None if self._poller.listed is None else self._scripts.counted(self._poller.listed, specs)

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel these jobs and the jobs they wait for with one request; ended ones are no error.

        A job whose id was not yet seen with its name is queried first: the id may belong to another job.

        Raises:
            JobError: Slurm did not accept the request: jobs may still run.
        """
        before = sorted(first.id for job in jobs for first in self._scripts.prerequisites_of(job))
        ids = [*(job.id for job in self._poller.confirm_ids(jobs)), *before]
        if not ids:
            return
        command = client.scancel_command(ids, cluster_of(jobs[0].spec))
        problem = client.scancel_problem(self._client.act(command))
        if problem:
            raise JobError(f"jobs may still run: scancel failed: {problem}", advice=shlex.join(command))

    def find_log(self, job: Job) -> Path:
        """The one log of a job, where its recipe puts it.

        Raises:
            LogError: There is none (yet), or more than one.
        """
        if not job.spec.launch.has_directory:
            return super().find_log(job)
        directory = self._scripts.directory_of_job(job)
        if directory is None:
            raise LogError(
                f"the directory of job {job.id} is unknown: its launch script did not print it",
                advice=f"scontrol show job {job.id} may show it; run the row again",
            )
        return job.spec.launch.log_in(directory, job.id)

    def batch_output(self, job: Job) -> Path | None:
        """Output of the batch shell, which shows failures before training; ``None`` if there is none."""
        if job.spec.launch.has_directory:
            directory = self._scripts.directory_of_job(job)
            return None if directory is None else job.spec.launch.batch_output_in(directory, job.id)
        if (usual := usual_output(job)).is_file():
            return usual
        output = self._poller.output_of(job)
        return here if output is not None and (here := self._client.here(output)).is_file() else None

    def switches(self, spec: JobSpec) -> Mapping[str, str] | None:
        """The node list of each leaf switch or block by its name, ``switch s1``; ``None`` if Slurm does not answer."""
        from pytest_gsw.jobs.slurm.nodes import parse_topology  # asked once a week

        answer = self._client.ask(client.scontrol_show_command("topology", cluster_of(spec)))
        leaves, is_block = parse_topology(str(answer.stdout))
        kind = "block" if is_block else "switch"
        node_lists = {f"{kind} {name}": compressed(nodes) for name, nodes in leaves.items()}
        return None if answer.returncode else node_lists

    def report_by(self, write: Callable[[str], None]) -> None:
        """Write a line by this function once Slurm is silent."""
        self.patience.report = write

    def end_waits(self) -> None:
        """Wait no longer for a silent Slurm."""
        self.patience.ends = True

    def close(self) -> None:
        """Release the lock. Jobs that still run are not touched."""
        if self._lock is not None:
            self._lock.close()

    def _wait_for_orphans(self, what: str, specs: Sequence[JobSpec]) -> None:
        if self._lock is None:
            return
        script = next((spec.script.name for spec in specs if spec.launch.submits_itself), None)
        if not self._lock.wait_for_orphans(PATIENCE_S if script is None else client.LAUNCH_TIMEOUT_S):
            what_hangs = script or "an sbatch"
            raise SubmissionError(
                f"{what_hangs} of the session that is resumed still hangs, and may yet submit {what}",
                advice=f"end it (pgrep -a {script or 'sbatch'}), and resume again",
            )

    def _check_room(self, spec: JobSpec, command: Sequence[str], answer: Output) -> None:
        """Raise if a limit on queued jobs will free itself: only if some job counts against it.

        Raises:
            QueueFullError: The limit will free itself.
        """
        if (limit := full_queue(answer)) is None:
            return
        squeue = self._client.ask(client.squeue_ids_command(cluster_of(spec), mine=limit[1]))
        if squeue.returncode != 0 or squeue.stdout.strip():
            raise refusal(QueueFullError, spec, command, answer, f"the queue takes no more jobs ({limit[0]})")

    def _parse_submission(self, answer: Output, spec: JobSpec, command: Sequence[str]) -> str | None:
        """The id of the submitted job; ``None`` if sbatch printed none.

        Raises:
            SubmissionError: The job is on another cluster, which the session does not poll.
        """
        submitted = client.parse_sbatch(answer.stdout) if answer.returncode == 0 else None
        if submitted is None:
            return None
        cluster, job_id = submitted
        if cluster and cluster.lower() != cluster_of(spec).lower():
            self._client.act(client.scancel_command([job_id], cluster))
            raise SubmissionError(
                f"sbatch sent the job to the cluster {cluster}, which is not the session's: cancelled",
                submission_evidence(spec, command),
                advice=f"name it in the cluster file: sbatch: [--clusters={cluster}]",
            )
        return job_id

    def _cancel_unanswered(self, spec: JobSpec, submitted_s: float) -> None:
        try:
            job = self._search.by_name(spec, submitted_s)
        except RunError:
            return  # unreachable; the journal has the row, and --gsw-resume looks for its job again
        if job is not None:
            self._client.act(client.scancel_command([job.id], cluster_of(spec)))
