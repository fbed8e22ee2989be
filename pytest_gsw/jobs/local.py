"""Jobs as processes on this machine, under the launch contract that recipes know from Slurm.

For recipes on a single machine with GPUs, and for the simulated cluster. Nothing runs beside the
session: jobs start, time out and are reaped when :meth:`LocalLauncher.poll` is called, and none
outlives :meth:`LocalLauncher.close`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.common.files import make_directory, open_own
from pytest_gsw.errors import JobError, SubmissionError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.environment import job_environment, session_environment
from pytest_gsw.jobs.local_ids import next_job_id
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus

#: Set for every local job, so that a launch script can tell and does without srun; and by its value
#: every process of a job is found again, even one that left the job's process group.
MARK = "GSW_LOCAL"

_HOST = "localhost"
#: A process that hangs in a driver survives even SIGKILL; nobody should wait for it for ever.
_KILL_PATIENCE_S = 10.0
_KILLED_EXIT_CODE = 128 + signal.SIGKILL

# What the kernel and slurmstepd say. Being killed alone does not tell who did it, and why.
_OUT_OF_MEMORY = re.compile(
    rb"oom[-_]kill|out of memory: killed process|exceeded (?:job |step )?memory limit", re.IGNORECASE
)
_OUTPUT_END_BYTES = 1 << 16


@dataclass
class _Run:
    """One job's way from the queue to its end."""

    job: Job
    output: Path
    mark: str
    process: subprocess.Popen[bytes] | None = None
    slots: tuple[int, ...] = ()
    start_s: float | None = None
    #: When its time limit is up, by the monotonic clock.
    deadline_s: float | None = None
    #: As what it is being ended, and when asking turns into killing.
    ending: JobState | None = None
    kill_at_s: float = 0.0
    #: How it ended, once it has.
    end: JobStatus | None = None

    @property
    def status(self) -> JobStatus:
        if self.end is not None:
            return self.end
        if self.process is None:
            return JobStatus(JobState.PENDING, "PENDING", reason="Resources", submit_s=self.job.submitted_s)
        return JobStatus(JobState.RUNNING, "RUNNING", nodes=_HOST, submit_s=self.job.submitted_s, start_s=self.start_s)


@dataclass
class _Queue:
    """All jobs of a launcher by their ids, in the order of submission."""

    runs: dict[str, _Run] = field(default_factory=dict)

    @property
    def waiting(self) -> list[_Run]:
        return [run for run in self.runs.values() if run.process is None and run.end is None]

    @property
    def running(self) -> list[_Run]:
        return [run for run in self.runs.values() if run.process is not None and run.end is None]


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
        self._queue = _Queue()
        self._session = uuid.uuid4().hex

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that a job runs, in the directory of the recipe."""
        return ("bash", str(spec.script))

    def submit(self, spec: JobSpec) -> Job:
        """Queue one job; it starts at once if its GPUs are free and nobody waits before it.

        Raises:
            SubmissionError: It can never run here.
        """
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
        mark = f"{self._session}-{job.id}"
        self._queue.runs[job.id] = _Run(job, directory / f"slurm-{job.id}.out", mark)
        self._advance()
        return job

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """None: its jobs do not outlive their session."""
        return None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id. Also starts, times out and reaps jobs; never raises."""
        self._advance()
        return {job.spec.row_id: self._status(job) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs and wait until they have; those that have ended already are no error.

        Raises:
            JobError: One does not end even when it is killed.
        """
        runs = [self._queue.runs[job.id] for job in jobs if job.id in self._queue.runs]
        for run in runs:
            if run.process is None and run.end is None:
                run.end = JobStatus(JobState.CANCELLED, "CANCELLED", 0, submit_s=run.job.submitted_s, end_s=time.time())
            elif run.end is None and not _has_exited(run):
                self._ask_to_end(run, JobState.CANCELLED)
        give_up_s = time.monotonic() + self._kill_grace_s + _KILL_PATIENCE_S
        while alive := [run for run in runs if run.end is None]:
            for run in alive:
                self._watch(run)
            if time.monotonic() > give_up_s:
                raise _unkillable(alive)
            time.sleep(0.01)

    def find_log(self, job: Job) -> Path:
        """The one log that belongs to this job.

        Raises:
            LogError: There is none (yet), or more than one.
        """
        spec = job.spec
        return layout.find_log(spec.stage, spec.log_glob, job.id, layout.is_nccl_traced(spec.environment))

    def batch_output(self, job: Job) -> Path | None:
        """The launch script's own output; ``None`` if there is none."""
        run = self._queue.runs.get(job.id)
        output = run.output if run else (self._work_directory or job.spec.directory) / f"slurm-{job.id}.out"
        return output if output.is_file() else None

    def close(self) -> None:
        """End all jobs: a process of this machine cannot be found again by a later session."""
        self.cancel([run.job for run in self._queue.runs.values()])

    def _status(self, job: Job) -> JobStatus:
        run = self._queue.runs.get(job.id)
        if run is None:
            return JobStatus(JobState.UNKNOWN, reason=f"local job {job.id} ended with the session that started it")
        return run.status

    def _advance(self) -> None:
        for run in self._queue.running:
            self._watch(run)
        for run in self._queue.waiting:
            # In order: a large job must not wait for ever while small ones pass it.
            if run.job.spec.gpus > len(self._free) or len(self._queue.running) >= self._max_processes:
                return
            self._start(run)

    def _start(self, run: _Run) -> None:
        spec = run.job.spec
        run.slots, self._free = tuple(self._free[: spec.gpus]), self._free[spec.gpus :]
        run.start_s = time.time()
        try:
            with open(open_own(run.output, os.O_WRONLY), "wb") as output:  # noqa: PTH123 - a descriptor has no path
                output.truncate()  # only now is it known to be the user's own
                run.process = subprocess.Popen(
                    self.command(spec),
                    cwd=spec.directory,
                    env=self._environment(run),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._finish(run, JobState.FAILED, exit_code=1, reason=f"{error.strerror}: {error.filename}")
            return
        if spec.time_limit_s is not None:
            run.deadline_s = time.monotonic() + spec.time_limit_s

    def _environment(self, run: _Run) -> dict[str, str]:
        environment = job_environment(self._environ, run.job.spec) | _slurm_variables(run.job) | {MARK: run.mark}
        if self._real_gpus:
            visible = self._environ.get("CUDA_VISIBLE_DEVICES")
            devices = visible.split(",") if visible else []
            # A session that was given some of the GPUs gives its jobs some of those.
            mine = [devices[slot] if slot < len(devices) else str(slot) for slot in run.slots]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        return environment

    def _watch(self, run: _Run) -> None:
        """Take one step of a running job's life, without waiting."""
        if run.process is None or run.end is not None:
            return
        now_s = time.monotonic()
        if _has_exited(run):
            self._reap(run, run.process)
        elif run.ending is not None and now_s >= run.kill_at_s:
            _signal(run, signal.SIGKILL)
        elif run.ending is None and run.deadline_s is not None and now_s >= run.deadline_s:
            self._ask_to_end(run, JobState.TIMEOUT)

    def _ask_to_end(self, run: _Run, state: JobState) -> None:
        run.ending = state
        run.kill_at_s = time.monotonic() + self._kill_grace_s
        _signal(run, signal.SIGTERM)

    def _reap(self, run: _Run, process: subprocess.Popen[bytes]) -> None:
        # The shell is a zombie until it is waited for, so its group's number cannot be another's yet.
        _signal(run, signal.SIGKILL)
        returncode = process.wait()
        _kill_marked(run.mark)
        killed_by, exit_code = (-returncode, 0) if returncode < 0 else (0, returncode)
        state = run.ending or (JobState.COMPLETED if returncode == 0 else JobState.FAILED)
        was_killed = killed_by == signal.SIGKILL or exit_code == _KILLED_EXIT_CODE
        if state is JobState.FAILED and was_killed and _tells_of_memory(run.output):
            state = JobState.OUT_OF_MEMORY
        self._finish(run, state, exit_code, killed_by)

    def _finish(self, run: _Run, state: JobState, exit_code: int, killed_by: int = 0, reason: str = "") -> None:
        self._free = sorted((*self._free, *run.slots))
        run.end = JobStatus(
            state,
            state.value,
            exit_code,
            killed_by,
            reason,
            _HOST,
            submit_s=run.job.submitted_s,
            start_s=run.start_s,
            end_s=time.time(),
        )


def _unkillable(runs: Sequence[_Run]) -> JobError:
    pids = " ".join(str(run.process.pid) for run in runs if run.process is not None)
    return JobError(
        f"local job {runs[0].job.id} does not end even when it is killed",
        (("processes", pids),),
        advice=f"ps -o pid,stat,wchan:32,args {pids}: state D is a driver that hangs",
    )


def _slurm_variables(job: Job) -> dict[str, str]:
    """What Slurm tells a batch script, as far as launch scripts read it."""
    spec = job.spec
    nodes = max(1, spec.nodes)
    return {
        "SLURM_CLUSTER_NAME": "local",
        "SLURM_JOB_ID": job.id,
        "SLURM_JOBID": job.id,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_NODELIST": _HOST,
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_LOCALID": "0",
        "SLURM_NNODES": str(nodes),
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": _HOST,
        "SLURM_NTASKS": str(spec.gpus),
        "SLURM_NTASKS_PER_NODE": str(max(1, spec.gpus // nodes)),
        "SLURM_PROCID": "0",
        "SLURM_SUBMIT_DIR": str(spec.directory),
    }


def _has_exited(run: _Run) -> bool:
    """Whether the shell has ended, which stays a zombie all the same."""
    assert run.process is not None
    try:
        return os.waitid(os.P_PID, run.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else in this process has waited for it
        return True


def _signal(run: _Run, number: signal.Signals) -> None:
    assert run.process is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(run.process.pid, number)


def _kill_marked(mark: str, patience_s: float = 2.0) -> None:
    """Kill what left the job's process group: torchrun gives its workers sessions of their own."""
    give_up_s = time.monotonic() + patience_s
    while (pids := _marked(f"{MARK}={mark}".encode())) and time.monotonic() < give_up_s:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> list[int]:
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                pids.append(int(place.name))
    return pids


def _tells_of_memory(output: Path) -> bool:
    with contextlib.suppress(OSError), output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _OUTPUT_END_BYTES))
        return _OUT_OF_MEMORY.search(file.read()) is not None
    return False
