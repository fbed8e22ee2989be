"""Submissions: one sbatch, and what became of one whose answer was lost."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_gsw.common.files import make_directory
from pytest_gsw.errors import QueueFullError, RefusedError, RunError, SchedulerAwayError, SubmissionError
from pytest_gsw.jobs.directives import check_one_job, cluster_of
from pytest_gsw.jobs.model import Job, JobSpec, JobState, Named
from pytest_gsw.jobs.orphans import PATIENCE_S, SubmissionLock
from pytest_gsw.jobs.reads import STDOUT_BEFORE_23_02
from pytest_gsw.jobs.slurm.answers import Answer, Output, parse_sacct, parse_sbatch, parse_squeue
from pytest_gsw.jobs.slurm.client import LAUNCH_TIMEOUT_S, Client
from pytest_gsw.jobs.slurm.commands import (
    sacct_by_name_command,
    sacct_of_user_command,
    scancel_command,
    squeue_by_name_command,
    squeue_ids_command,
    squeue_of_user_command,
)
from pytest_gsw.jobs.slurm.poll import CLOCK_SKEW_S
from pytest_gsw.jobs.slurm.refusals import (
    full_queue,
    is_away,
    is_certain,
    may_have_been_taken,
    refusal,
    submission_evidence,
    unanswered,
)
from pytest_gsw.jobs.slurm.scripts import SUBMISSION_SKEW_S, LaunchScripts


class Submissions:
    """Submits jobs, and finds them again by their names.

    Args:
        client: Runs Slurm's commands.
        lock: Held by each submission while it is under way.
        directory: Where it is kept what launch scripts say.
    """

    def __init__(self, client: Client, lock: SubmissionLock | None, directory: Path) -> None:
        self._client = client
        self._lock = lock
        self.scripts = LaunchScripts(client, lock, directory, self._by_name, self._all_of)

    def submit(self, spec: JobSpec) -> Job:
        """Start one job.

        Raises:
            SchedulerAwayError: The controller is out of reach, and whether it has the job is not known or not so.
            SubmissionError: Slurm refused it, or gave no answer that makes sense.
        """
        check_one_job(spec)
        if spec.submits_itself:
            return self.scripts.submit(spec)
        command = self._client.sbatch_command(spec)
        submitted_s = time.time()
        # To a directory that is not there srun does not write, and waits until the job's time is over.
        for output in filter(None, (spec.batch_output, spec.environment.get(STDOUT_BEFORE_23_02))):
            with contextlib.suppress(OSError):  # Slurm says it better: of the job's own user, on the job's own node
                make_directory(Path(output).parent)
        try:
            answer = self._client.submit(command, spec, () if self._lock is None else (self._lock.descriptor(),))
        except OSError as error:
            raise SubmissionError(
                f"sbatch could not be run: {error.strerror or error}",
                submission_evidence(spec, command),
                advice="is this a login node of the cluster, with Slurm's commands on the PATH?",
            ) from error
        except KeyboardInterrupt:
            # A session spends its first seconds here, so this is where Ctrl-C hits; a job whose id
            # nobody has read would be cancelled by nobody.
            self._cancel_unread(spec, submitted_s)
            raise
        found = self._submitted(answer, spec, command)
        # Of one that could not even be reached the fleet asks before it submits again.
        if found is None and not is_certain(answer, spec) and (may_have_been_taken(answer) or not is_away(answer)):
            try:
                found = self._find_submission(spec, submitted_s)
            except SchedulerAwayError:
                raise refusal(SchedulerAwayError, spec, command, answer) from None
        if found is None:
            self._check_room(spec, command, answer)
            said_no = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise refusal(SchedulerAwayError if is_away(answer) else said_no, spec, command, answer)
        return Job(found, spec, submitted_s)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec since then, by its name.

        Raises:
            SchedulerAwayError: The controller is out of reach, so that nobody can tell now.
            SubmissionError: An earlier session's sbatch hangs, so that nobody can tell.
        """
        self._wait_for_orphans(spec.row_id, [spec])
        return self.scripts.find(spec, since_s) if spec.submits_itself else self._by_name(spec, since_s)

    def _by_name(self, spec: JobSpec, since_s: float) -> Job | None:
        found = self._find_submission(spec, since_s)
        return None if found is None else Job(found, spec, since_s)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All jobs that bear these rows' own names, whichever attempt they are, with two questions for all of them.

        Args:
            specs: How the rows' first jobs are started.
            since_s: When the first of them may have been submitted, seconds since the epoch.

        Raises:
            SchedulerAwayError: Slurm does not answer, so that nobody can tell.
            SubmissionError: A submission of the session that is resumed hangs, so that nobody can tell.
        """
        self._wait_for_orphans("its rows", specs)
        return self._all_of(specs, since_s)

    def _all_of(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All of the user's jobs since then, but those that a row's own waits for.

        One that goes on when that has ended, or failed when that COMPLETED, is none of these: it was not waited for.
        """
        answers: dict[str, Answer] = {}
        cluster = cluster_of(specs[0])
        for command, parse in (
            (sacct_of_user_command(since_s - CLOCK_SKEW_S, cluster), parse_sacct),
            (squeue_of_user_command(cluster), parse_squeue),
        ):
            asked = self._client.ask(command)
            if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                raise unanswered("the run's rows were", specs[0], command, asked)
            # squeue comes last: what slurmctld says of a job is newer.
            answers |= parse(asked.stdout)
        found = [Named(job_id, told.job_name, told.status) for job_id, told in answers.items()]
        before = self.scripts.all_before(
            {spec.launch.name: spec.launch for spec in specs}.values()
        )  # as scripts have said by now
        states = {job.id: job.status.state for job in found}
        ends = {key: states.get(follower or "", JobState.PENDING) for key, follower in before.items()}
        return tuple(job for job in found if _is_counted(job.status.state, ends.get((job.name, job.id))))

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.close()

    def _wait_for_orphans(self, what: str, specs: Sequence[JobSpec]) -> None:
        if self._lock is None:
            return
        script = next((spec.script.name for spec in specs if spec.submits_itself), None)
        if not self._lock.wait_for_orphans(PATIENCE_S if script is None else LAUNCH_TIMEOUT_S):
            what_hangs = script or "an sbatch"
            raise SubmissionError(
                f"{what_hangs} of the session that is resumed still hangs, and may yet submit {what}",
                advice=f"end it (pgrep -a {script or 'sbatch'}), and resume again",
            )

    def _check_room(self, spec: JobSpec, command: Sequence[str], answer: Output) -> None:
        """Tell a limit that frees itself from one that never will: some job must be there that counts against it.

        Raises:
            QueueFullError: The limit frees itself.
        """
        limit = full_queue(answer)
        if limit is None:
            return
        asked = self._client.ask(squeue_ids_command(cluster_of(spec), mine=limit[1]))
        if asked.returncode != 0 or asked.stdout.strip():
            raise refusal(QueueFullError, spec, command, answer, f"the queue takes no more jobs ({limit[0]})")

    def _submitted(self, answer: Output, spec: JobSpec, command: Sequence[str]) -> str | None:
        """The job that sbatch names; ``None`` if it names none.

        Raises:
            SubmissionError: It is on a cluster that nobody would ask about it.
        """
        found = parse_sbatch(answer.stdout) if answer.returncode == 0 else None
        if found is None:
            return None
        cluster, job_id = found
        if cluster.lower() not in {"", cluster_of(spec).lower()}:
            self._client.act(scancel_command([job_id], cluster))
            raise SubmissionError(
                f"sbatch sent the job to the cluster {cluster}, which is not the session's: cancelled",
                submission_evidence(spec, command),
                advice=f"name it in the cluster file: sbatch: [--clusters={cluster}]",
            )
        return job_id

    def _find_submission(self, spec: JobSpec, submitted_s: float) -> str | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unseen.

        Raises:
            SchedulerAwayError: The controller does not answer: no word of a job is not the word that there is none.
        """
        cluster = cluster_of(spec)
        command = squeue_by_name_command(spec.name, cluster)
        asked = self._client.ask(command)
        if asked.returncode != 0:
            raise unanswered(f"{spec.row_id} was", spec, command, asked)
        answers = parse_squeue(asked.stdout)
        if not answers:
            # It may have ended, and slurmctld forgets such jobs soon.
            command = sacct_by_name_command(spec.name, submitted_s - CLOCK_SKEW_S, cluster)
            asked = self._client.ask(command)
            if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                raise unanswered(f"{spec.row_id} was", spec, command, asked)
            answers = parse_sacct(asked.stdout)
        named = {job: told.status.submit_s or 0 for job, told in answers.items() if told.job_name == spec.name}
        if spec.unique_name:
            if len(named) > 1:
                raise SubmissionError(
                    f"{len(named)} jobs have the name that only one can have: {spec.name}",
                    (("jobs", ", ".join(sorted(named))),),
                    advice=shlex.join(scancel_command(sorted(named), cluster)),
                )
            return _only(named)
        # An earlier session's job may have the name as well. One by this machine's clock comes before
        # one that is ours only if the controller's clock is behind; Slurm's times are whole seconds.
        by_our_clock = [job for job, submit_s in named.items() if submit_s >= submitted_s - 1]
        return _only(
            by_our_clock or [job for job, submit_s in named.items() if submit_s >= submitted_s - SUBMISSION_SKEW_S]
        )

    def _cancel_unread(self, spec: JobSpec, submitted_s: float) -> None:
        try:
            found = self._find_submission(spec, submitted_s)
        except RunError:
            return  # out of reach; the journal has the row, and --gsw-resume asks again
        if found is not None:
            self._client.act(scancel_command([found], cluster_of(spec)))


def _is_counted(state: JobState, follower: JobState | None) -> bool:
    """Whether a job counts as the row's: by its state, and by that of the one which waits for it, if any does."""
    if follower is None:
        return True
    return follower is JobState.COMPLETED and state is not follower if state.ended else follower.ended


def _only(jobs: Collection[str]) -> str | None:
    return next(iter(jobs)) if len(jobs) == 1 else None
