"""The search for jobs that Slurm has: by name, by id, and by the time of their submission."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import CLOCK_SKEW_S
from pytest_gsw.jobs.model import FoundJob, Job, JobSpec
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Answer, Client
from pytest_gsw.jobs.slurm.sbatch_errors import unanswered
from pytest_gsw.jobs.states import JobState

#: Largest clock difference if only a name or a script's output, and the time of submission, identify a job.
SUBMISSION_SKEW_S = 60.0


class JobSearch:
    """Finds the user's jobs in squeue and in accounting."""

    def __init__(self, slurm: Client) -> None:
        self._client = slurm
        #: True if Slurm answered the last query for jobs from its accounting.
        self.has_accounting = True

    def since(self, specs: Sequence[JobSpec], since_s: float) -> dict[str, Answer]:
        """All jobs of the user since then, by their ids.

        Raises:
            SchedulerUnreachableError: Slurm does not answer.
        """
        what, cluster = "the run's rows were", cluster_of(specs[0])
        # In this order: what slurmctld has purged is recorded by then.
        queued = self._query(client.squeue_command(cluster, mine=True), what, specs[0])
        recorded = self._query(
            client.sacct_jobs_command(cluster, user_id=self._client.user_id, since_s=since_s - CLOCK_SKEW_S),
            what,
            specs[0],
        )
        # All states are of the time of squeue, where it has the job: accounting may lag behind it.
        return client.parse_sacct(recorded) | client.parse_squeue(queued)

    def by_name(self, spec: JobSpec, submitted_s: float) -> Job | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unmonitored."""
        what, cluster, user_id = f"{spec.row_id} was", cluster_of(spec), self._client.user_id
        queued = self._query(client.squeue_command(cluster, name=spec.name, mine=True), what, spec)
        answers = accepted_jobs(client.parse_squeue(queued))
        if not answers:
            # It may have ended, and slurmctld purges such jobs soon.
            since_s = submitted_s - CLOCK_SKEW_S
            command = client.sacct_jobs_command(cluster, user_id=user_id, name=spec.name, since_s=since_s)
            answers = accepted_jobs(client.parse_sacct(self._query(command, what, spec)))
        own = {job_id: answer for job_id, answer in answers.items() if answer.job_name == spec.name}
        submit_times = {job_id: answer.status.submit_s or 0 for job_id, answer in own.items()}
        if spec.unique_name and len(submit_times) > 1:
            raise SubmissionError(
                f"{len(submit_times)} jobs have the name that only one can have: {spec.name}",
                (("jobs", ", ".join(sorted(submit_times))),),
                advice=shlex.join(client.scancel_command(sorted(submit_times), cluster)),
            )
        # An earlier session's job may have the name as well. A match by this machine's clock takes precedence over one
        # that requires the controller's clock to be behind; Slurm's times are whole seconds.
        by_our_clock = [job for job, submit_s in submit_times.items() if submit_s >= submitted_s - 1]
        by_any_clock = [job for job, submit_s in submit_times.items() if submit_s >= submitted_s - SUBMISSION_SKEW_S]
        ours = list(submit_times) if spec.unique_name else by_our_clock or by_any_clock
        return Job(ours[0], spec, submitted_s) if len(ours) == 1 else None

    def by_id(self, spec: JobSpec, job_id: str, *, mine: bool = True) -> FoundJob | None:
        """The job with an id, of this user or of any; an id alone may belong to another job."""
        cluster = cluster_of(spec)
        for command, parse in (
            (client.squeue_command(cluster, ids=[job_id], mine=mine), client.parse_squeue),
            (
                client.sacct_jobs_command(cluster, user_id=self._client.user_id if mine else None, job_id=job_id),
                client.parse_sacct,
            ),
        ):
            answer = self._client.ask(command)
            job = parse(answer.stdout).get(job_id) if answer.returncode == 0 else None
            if job is not None:
                return FoundJob(job_id, job.job_name, job.status)
        return None

    def process_sessions(self, spec: JobSpec, job_ids: Sequence[str], since_s: float) -> dict[str, str]:
        """The process session of each of these jobs that slurmctld still has and that was submitted since then."""
        command, given = client.scontrol_command(cluster_of(spec)), client.scontrol_requests(job_ids)
        answers = client.parse_scontrol(self._client.ask(command, given=given).stdout)
        return {
            job_id: answer.session_id
            for job_id, answer in answers.items()
            if job_id in job_ids and answer.session_id and (answer.status.submit_s or 0) >= since_s - SUBMISSION_SKEW_S
        }

    def _query(self, command: tuple[str, ...], what: str, spec: JobSpec) -> str:
        """Slurm's answer to a query for jobs.

        Raises:
            SchedulerUnreachableError: There is no answer, which does not mean that there is no job.
        """
        answer = self._client.ask(command)
        if answer.returncode != 0 and not answer.is_accounting_off:
            raise unanswered(what, spec, command, answer)
        if command[0] == "sacct":
            self.has_accounting = not answer.is_accounting_off
        return answer.stdout


def accepted_jobs(answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """The jobs without those whose submission Slurm refused: it records them as failed, without nodes and a run.

    They start when they end on Slurm 22.05, and never since 24.11.
    """
    return {
        job_id: answer
        for job_id, answer in answers.items()
        if answer.status.state is not JobState.FAILED or answer.status.nodes or answer.status.run_s
    }
