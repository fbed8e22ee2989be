"""Jobs as processes on this machine, under the launch contract that recipes know from Slurm.

For recipes on a single machine with GPUs, and for the simulated cluster. Nothing runs beside the
session: jobs start, time out and are reaped when :meth:`LocalLauncher.poll` is called, and none
outlives :meth:`LocalLauncher.close`.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gsw.common.files import make_directory
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.environment import job_environment, session_environment
from pytest_gsw.jobs.local_ids import next_job_id
from pytest_gsw.jobs.local_run import HOST, KILL_PATIENCE_S, MARK, LocalRun, unkillable
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus


class LocalLauncher:
    """Run launch scripts on this machine.

    Args:
        slots_gpus: How many GPUs the jobs that run at one time may have together.
        work_directory: Where the batch shells' output goes; by default to the directory of each recipe.
        real_gpus: Whether slots are GPUs of this machine, so that each job is shown its own by
            CUDA_VISIBLE_DEVICES.
        max_processes: How many jobs may run at one time, by default twice the number of cores.
        kill_grace_s: How long a job that is asked to end may take before it is killed.
        environ: The session's environment; by default that of this process when the launcher is made.
    """

    name = "local"
    log_wait_s = 2.0
    poll_interval_s = 0.1
    parallel_submissions = 1
    jobs_outlive_session = False
    find_log = staticmethod(layout.log_of)

    def __init__(
        self,
        slots_gpus: int,
        *,
        work_directory: Path | None = None,
        real_gpus: bool = False,
        max_processes: int | None = None,
        kill_grace_s: float = 5.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._slots_gpus = slots_gpus
        self._free = list(range(slots_gpus))
        self._work_directory = work_directory
        self._real_gpus = real_gpus
        self._max_processes = max_processes or 2 * (os.cpu_count() or 1)
        self._kill_grace_s = kill_grace_s
        self._environ = session_environment(environ)
        #: All jobs by their ids, in the order of submission.
        self._runs: dict[str, LocalRun] = {}
        self._session = uuid.uuid4().hex

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that a job runs, in the directory of the recipe."""
        return ("bash", str(spec.script))

    def submit(self, spec: JobSpec) -> Job:
        """Queue a job, which starts at once if its GPUs are free and none waits; a SubmissionError if it never can."""
        if spec.gpus > self._slots_gpus:
            raise SubmissionError(
                f"{spec.row_id} needs {spec.gpus} GPUs, and this machine has {self._slots_gpus}",
                advice="run it on a cluster that is large enough: --gsw-cluster=NAME",
            )
        if not spec.script.is_file():
            raise SubmissionError(
                f"there is no launch script {spec.script}",
                advice=f"is the recipe set up? ls -l {spec.script.parent}",
            )
        submitted_s = time.time()
        directory = self._work_directory or spec.directory
        try:
            job = Job(next_job_id(self._environ), spec, submitted_s)
            make_directory(spec.stage)
            make_directory(directory)
        except OSError as error:
            raise SubmissionError(
                f"{spec.row_id} cannot be started: {error.strerror}: {error.filename}",
                advice="the staging area (`stage:`), the recipe and ~/.local/state must be yours to write to",
            ) from error
        output, mark = directory / f"slurm-{job.id}.out", f"{self._session}-{job.id}"
        self._runs[job.id] = LocalRun(job, output, mark, self._kill_grace_s)
        self._advance()
        return job

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The row's newest job of this session; others have ended with theirs."""
        jobs = (run.job for run in reversed(self._runs.values()))
        return next((job for job in jobs if job.spec.row_id == spec.row_id and job.submitted_s >= since_s), None)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id. Also starts, times out and reaps jobs; never raises."""
        self._advance()
        return {job.spec.row_id: self._status(job) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs and wait until they have; a JobError where one does not end even when it is killed."""
        runs = [self._runs[job.id] for job in jobs if job.id in self._runs]
        for run in runs:
            run.cancel()
        give_up_s = time.monotonic() + self._kill_grace_s + KILL_PATIENCE_S
        while alive := [run for run in runs if run.end is None]:
            for run in alive:
                self._watch(run)
            if time.monotonic() > give_up_s:
                raise unkillable(alive)
            time.sleep(0.01)

    def batch_output(self, job: Job) -> Path | None:
        """The launch script's own output; ``None`` if there is none."""
        run = self._runs.get(job.id)
        output = run.output if run else (self._work_directory or job.spec.directory) / f"slurm-{job.id}.out"
        return output if output.is_file() else None

    def close(self) -> None:
        """End all jobs: a process of this machine cannot be found again by a later session."""
        self.cancel([run.job for run in self._runs.values()])

    def _status(self, job: Job) -> JobStatus:
        run = self._runs.get(job.id)
        if run is None:
            return JobStatus(JobState.UNKNOWN, reason=f"local job {job.id} ended with the session that started it")
        return run.status

    def _advance(self) -> None:
        for run in self._running():
            self._watch(run)
        for run in [run for run in self._runs.values() if run.process is None and run.end is None]:
            # In order: a large job must not wait for ever while small ones pass it.
            if run.job.spec.gpus > len(self._free) or len(self._running()) >= self._max_processes:
                return
            self._start(run)

    def _running(self) -> list[LocalRun]:
        return [run for run in self._runs.values() if run.process is not None and run.end is None]

    def _start(self, run: LocalRun) -> None:
        spec = run.job.spec
        run.slots, self._free = tuple(self._free[: spec.gpus]), self._free[spec.gpus :]
        run.start(self.command(spec), self._environment(run))
        self._free_slots(run)

    def _environment(self, run: LocalRun) -> dict[str, str]:
        environment = job_environment(self._environ, run.job.spec) | _slurm_variables(run.job) | {MARK: run.mark}
        if self._real_gpus:
            visible = self._environ.get("CUDA_VISIBLE_DEVICES")
            devices = visible.split(",") if visible else []
            # A session that was given some of the GPUs gives its jobs some of those.
            mine = [devices[slot] if slot < len(devices) else str(slot) for slot in run.slots]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        return environment

    def _watch(self, run: LocalRun) -> None:
        run.watch()
        self._free_slots(run)

    def _free_slots(self, run: LocalRun) -> None:
        if run.end is not None and run.slots:
            self._free, run.slots = sorted((*self._free, *run.slots)), ()


def _slurm_variables(job: Job) -> dict[str, str]:
    """What Slurm tells a batch script, as far as launch scripts read it."""
    spec = job.spec
    nodes = max(1, spec.nodes)
    return {
        "SLURM_CLUSTER_NAME": "local",
        "SLURM_JOB_NAME": spec.name,
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job.id),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), HOST),
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), str(nodes)),
        **dict.fromkeys(("SLURM_LOCALID", "SLURM_NODEID", "SLURM_PROCID"), "0"),
        "SLURM_NTASKS": str(spec.gpus),
        "SLURM_NTASKS_PER_NODE": str(max(1, spec.gpus // nodes)),
        "SLURM_SUBMIT_DIR": str(spec.directory),
    }
