"""Jobs as processes on this machine, under the launch contract that recipes use on Slurm.

For recipes on a single machine with GPUs, and for the simulated cluster. No helper thread or process runs next to the
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
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from pytest_gsw.common.files import make_directory, open_own
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.text import plural
from pytest_gsw.errors import JobError, RefusedError, SubmissionError
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.spec import job_environment, session_environment
from pytest_gsw.jobs.states import JobState, JobStatus


def next_job_id(last: str) -> str:
    """A number that no local job has had, in any session: the time in microseconds, but more than the session's last.

    Logs of several sessions and users may be in one staging area.
    """
    return str(max(int(last) + 1, time.time_ns() // 1000))


# -- One job as a process of this machine, from the queue to its end --------------------------------


#: Set for every local job: a launch script then runs without srun, and by its value every process of a job is
#: found again, even one that left the job's process group.
MARK = "GSW_LOCAL"

HOST = "localhost"
#: Longest wait for a killed process: one that hangs in a driver survives even SIGKILL.
KILL_PATIENCE_S = 10.0
_MARKED_PATIENCE_S = 2.0
_KILLED_EXIT_CODE = 128 + signal.SIGKILL

# Messages of the kernel and slurmstepd. A kill alone does not prove that memory was the cause.
_OUT_OF_MEMORY = re.compile(
    rb"oom[-_]kill|out of memory: killed process|exceeded (?:job |step )?memory limit", re.IGNORECASE
)
_NODE_FAILURE = re.compile(rb"CANCELLED AT \S{1,40} DUE TO NODE FAILURE")
_OUTPUT_END_BYTES = 1 << 16


@dataclass
class LocalRun:
    """One job from the queue to its end."""

    job: Job
    output: Path
    mark: str
    #: Seconds between SIGTERM and SIGKILL.
    kill_grace_s: float
    process: subprocess.Popen[bytes] | None = None
    slots: tuple[int, ...] = ()
    #: Its nodes as a node list.
    nodes: str = HOST
    start_s: float | None = None
    #: End of its time limit, by the monotonic clock.
    deadline_s: float | None = None
    #: The state that it is being ended with, and the time of SIGKILL.
    ending: JobState | None = None
    kill_at_s: float = 0.0
    #: Its final status, once it has ended.
    end: JobStatus | None = None
    _since_s: float = field(default_factory=time.monotonic)

    @property
    def status(self) -> JobStatus:
        """Its current status."""
        if self.end is not None:
            return self.end
        if self.process is None:
            return JobStatus(JobState.PENDING, "PENDING", reason="Resources", submit_s=self.job.submitted_s)
        submit_s = self.job.submitted_s
        return JobStatus(JobState.RUNNING, "RUNNING", nodes=self.nodes, submit_s=submit_s, start_s=self.start_s)

    @property
    def _now_s(self) -> float:
        """The time by the monotonic clock since its submission: a clock that is set changes no duration."""
        return self.job.submitted_s + time.monotonic() - self._since_s

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start its process; if that fails, the job has FAILED."""
        spec = self.job.spec
        self.start_s = self._now_s
        try:
            with open(open_own(self.output, os.O_WRONLY), "wb") as output:  # noqa: PTH123 - a descriptor has no path
                output.truncate()  # only now is it certain to be the user's own
                self.process = subprocess.Popen(
                    command,
                    cwd=spec.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._finish(JobState.FAILED, exit_code=1, reason=f"{error.strerror}: {error.filename}")
            return
        if spec.time_limit_s is not None:
            self.deadline_s = time.monotonic() + spec.time_limit_s

    def watch(self) -> None:
        """Check it once without waiting: reap, kill or time out."""
        if self.process is None or self.end is not None:
            return
        now_s = time.monotonic()
        if _has_exited(self.process):
            self._reap(self.process)
        elif self.ending is not None and now_s >= self.kill_at_s:
            _signal(self.process, signal.SIGKILL)
        elif self.ending is None and self.deadline_s is not None and now_s >= self.deadline_s:
            self._terminate(self.process, JobState.TIMEOUT)

    def cancel(self) -> None:
        """Terminate it; a pending job ends at once."""
        if self.end is not None:
            return
        if self.process is None:
            self.end = JobStatus(JobState.CANCELLED, "CANCELLED", 0, submit_s=self.job.submitted_s, end_s=self._now_s)
        elif not _has_exited(self.process):
            self._terminate(self.process, JobState.CANCELLED)

    def _terminate(self, process: subprocess.Popen[bytes], state: JobState) -> None:
        self.ending = state
        self.kill_at_s = time.monotonic() + self.kill_grace_s
        _signal(process, signal.SIGTERM)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        # The shell is a zombie until it is waited for, so its group's number cannot be another's yet.
        _signal(process, signal.SIGKILL)
        returncode = process.wait()
        _kill_marked(self.mark)
        killed_by, exit_code = (-returncode, 0) if returncode < 0 else (0, returncode)
        state = self.ending or (JobState.COMPLETED if returncode == 0 else JobState.FAILED)
        was_killed = killed_by == signal.SIGKILL or exit_code == _KILLED_EXIT_CODE
        if state is JobState.FAILED and was_killed and _has_message(self.output, _OUT_OF_MEMORY):
            state = JobState.OUT_OF_MEMORY
        elif state is JobState.FAILED and _has_message(self.output, _NODE_FAILURE):
            state = JobState.NODE_FAIL
        self._finish(state, exit_code, killed_by)

    def _finish(self, state: JobState, exit_code: int, killed_by: int = 0, reason: str = "") -> None:
        self.end = JobStatus(
            state,
            state.value,
            exit_code,
            killed_by,
            reason,
            self.nodes,
            submit_s=self.job.submitted_s,
            start_s=self.start_s,
            end_s=self._now_s,
        )


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """True if the shell has ended; it remains a zombie."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # other code of this process has waited for it
        return True


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill_marked(mark: str) -> None:
    """Kill processes that left the job's process group: torchrun starts its workers in sessions of their own."""
    give_up_s = time.monotonic() + _MARKED_PATIENCE_S
    empty_scans = 0
    # A process has no environment for a moment of its execve(2), so one scan may miss it.
    while empty_scans < 2 and time.monotonic() < give_up_s:
        pids = marked(f"{MARK}={mark}".encode())
        empty_scans = 0 if pids else empty_scans + 1
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def marked(mark: bytes) -> list[int]:
    """The processes whose environment has the mark."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                pids.append(int(place.name))
    return pids


def _has_message(output: Path, message: re.Pattern[bytes]) -> bool:
    with contextlib.suppress(OSError), output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _OUTPUT_END_BYTES))
        return message.search(file.read()) is not None
    return False


@dataclass(eq=False)
class LocalLauncher(Launcher):
    """Runs launch scripts on this machine."""

    name = "local"
    log_wait_s = 2.0
    poll_interval_s = 0.1

    #: GPUs of all jobs that run at one time.
    slots_gpus: int
    _: KW_ONLY
    #: Directory of the batch shells' output; by default that of each recipe.
    work_directory: Path | None = None
    #: The simulated nodes, and those that take no jobs.
    nodes: Sequence[str] = ()
    down: Collection[str] = ()
    #: True if slots are GPUs of this machine: CUDA_VISIBLE_DEVICES then restricts each job to its own.
    real_gpus: bool = False
    #: Jobs that may run at one time, by default twice the number of cores.
    max_processes: int = field(default_factory=lambda: 2 * (os.cpu_count() or 1))
    #: Seconds between SIGTERM and SIGKILL.
    kill_grace_s: float = 5.0
    #: The session's environment; by default that of this process when the launcher is made.
    environ: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._free = list(range(self.slots_gpus))
        self._environ = session_environment(self.environ)
        #: All jobs by their ids, in the order of submission.
        self._runs: dict[str, LocalRun] = {}
        self._session = uuid.uuid4().hex

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command of a job, run in the directory of the recipe."""
        return ("bash", str(spec.script))

    def submit(self, spec: JobSpec) -> Job:
        """Queue a job, which starts at once if its GPUs are free and none waits.

        Raises:
            SubmissionError: The job can never start.
        """
        if spec.gpus > self.slots_gpus:
            raise SubmissionError(
                f"{spec.row_id} needs {spec.gpus} GPUs, and this machine has {self.slots_gpus}",
                advice="run it on a cluster that is large enough: --gsw-cluster=NAME",
            )
        self._nodes_for(spec)
        if not spec.script.is_file():
            raise SubmissionError(
                f"there is no launch script {spec.script}", advice=f"is the recipe set up? ls -l {spec.script.parent}"
            )
        directory = self.work_directory or spec.directory
        try:
            make_directory(spec.stage)
            make_directory(directory)
        except OSError as error:
            raise SubmissionError(
                f"{spec.row_id} cannot be started: {error.strerror}: {error.filename}",
                advice="the staging area (`stage:`) and the recipe must be yours to write to",
            ) from error
        job = Job(next_job_id(next(reversed(self._runs), "0")), spec, time.time())
        output, mark = directory / f"slurm-{job.id}.out", f"{self._session}-{job.id}"
        self._runs[job.id] = LocalRun(job, output, mark, self.kill_grace_s)
        self._advance()
        return job

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The row's newest job of this session; jobs of other sessions have ended with them."""
        jobs = (run.job for run in reversed(self._runs.values()))
        return next((job for job in jobs if job.spec.row_id == spec.row_id and job.submitted_s >= since_s), None)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id. Also starts, times out and reaps jobs; never raises."""
        self._advance()
        return {job.spec.row_id: self._status(job) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End these jobs and wait for their ends; raise a JobError if one survives SIGKILL."""
        runs = [self._runs[job.id] for job in jobs if job.id in self._runs]
        for run in runs:
            run.cancel()
        give_up_s = time.monotonic() + self.kill_grace_s + KILL_PATIENCE_S
        while alive := [run for run in runs if run.end is None]:
            for run in alive:
                self._watch(run)
            if time.monotonic() > give_up_s:
                pids = " ".join(str(run.process.pid) for run in alive if run.process is not None)
                raise JobError(
                    f"local job {alive[0].job.id} does not end even when it is killed",
                    (("processes", pids),),
                    advice=f"ps -o pid,stat,wchan:32,args {pids}: state D is a driver that hangs",
                )
            time.sleep(0.01)

    def batch_output(self, job: Job) -> Path | None:
        """The launch script's own output; ``None`` if there is none."""
        output = (self.work_directory or job.spec.directory) / f"slurm-{job.id}.out"
        return output if output.is_file() else None

    def close(self) -> None:
        """End all jobs: a later session cannot find a process of this machine again."""
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
            spec = run.job.spec
            if spec.gpus > len(self._free) or len(self._running()) >= self.max_processes:
                return
            run.slots, self._free = tuple(self._free[: spec.gpus]), self._free[spec.gpus :]
            run.nodes = compressed(self._nodes_for(spec)) if self.nodes else HOST
            run.start(self.command(spec), self._environment(run))
            self._free_slots(run)

    def _nodes_for(self, spec: JobSpec) -> Sequence[str]:
        """The nodes of a job, those with the fewest jobs; none if it is larger than the cluster.

        Raises:
            RefusedError: It may not have so many.
        """
        if not self.nodes or (spec.nodes > len(self.nodes) and not spec.node_list):
            return ()
        left_out = () if spec.node_list else (*spec.excluded_nodes, *spec.avoided_nodes)
        without = {*self.down, *expand(",".join(left_out))}
        jobs = Counter(node for run in self._running() for node in expand(run.nodes))
        among = expand(spec.node_list) or self.nodes
        nodes = sorted((node for node in among if node in self.nodes and node not in without), key=jobs.__getitem__)
        if len(nodes) < spec.nodes:
            left = f"{plural(len(nodes), 'node')} of {spec.node_list or len(self.nodes)}"
            raise RefusedError(f"{spec.row_id} needs {plural(spec.nodes, 'node')}, and may have {left}")
        return nodes[: spec.nodes]

    def _running(self) -> list[LocalRun]:
        return [run for run in self._runs.values() if run.process is not None and run.end is None]

    def _environment(self, run: LocalRun) -> dict[str, str]:
        environment = job_environment(self._environ, run.job.spec) | _slurm_variables(run) | {MARK: run.mark}
        if self.real_gpus:
            visible = self._environ.get("CUDA_VISIBLE_DEVICES")
            devices = visible.split(",") if visible else []
            # If the session itself is restricted to some GPUs, its jobs share those.
            mine = [devices[slot] if slot < len(devices) else str(slot) for slot in run.slots]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        return environment

    def _watch(self, run: LocalRun) -> None:
        run.watch()
        self._free_slots(run)

    def _free_slots(self, run: LocalRun) -> None:
        if run.end is not None and run.slots:
            self._free, run.slots = sorted((*self._free, *run.slots)), ()


def _slurm_variables(run: LocalRun) -> dict[str, str]:
    """Slurm's variables in a batch script, as far as launch scripts read them."""
    job, spec = run.job, run.job.spec
    nodes = max(1, spec.nodes)
    return {
        "SLURM_CLUSTER_NAME": "local",
        "SLURM_JOB_NAME": spec.name,
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job.id),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), run.nodes),
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), str(nodes)),
        **dict.fromkeys(("SLURM_LOCALID", "SLURM_NODEID", "SLURM_PROCID"), "0"),
        "SLURM_NTASKS": str(spec.gpus),
        "SLURM_NTASKS_PER_NODE": str(max(1, spec.gpus // nodes)),
        "SLURM_SUBMIT_DIR": str(spec.directory),
    }
