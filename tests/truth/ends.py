"""Jobs that did not end well, by Slurm's own facts or by what stands in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_gsw.demo.writers import damage
from pytest_gsw.jobs.states import JobState, JobStatus, JobStep
from pytest_gsw.results import outcomes
from tests.truth.logs import as_bytes
from tests.truth.model import ENDED_WELL, Case
from tests.truth.trial import Trial

#: What is wrong with the steps of a job whose script ended with 0, as Slurm tells it, and what is to be said.
_FAILED_STEPS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    (
        "its step failed",
        {"steps": (JobStep("0", "train", JobState.FAILED, "FAILED", 1),), "derived_exit_code": "1:0"},
        "{job} completed, but its step 0 (train) failed with exit code 1*",
    ),
    (
        "a rank was killed",
        {"steps": (JobStep("0", "train", JobState.CANCELLED, "CANCELLED", 0, 9),), "derived_exit_code": "0:9"},
        "{job} completed, but its step 0 (train) ended CANCELLED by signal 9*",
    ),
    (
        "without accounting, a step failed",
        {"derived_exit_code": "1:0"},
        "{job} completed, but one of its steps failed (DerivedExitCode 1:0)*",
    ),
    (
        "another job is behind its submission",
        {"siblings": ("1",)},
        "2 jobs are behind the one submission of {job}, and one row is one job",
    ),
)
#: Lines behind the last step of a job that is said to have ended well, and what they tell of.
_FATAL = (
    ("xid", b"kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n", "GPU error (Xid)"),
    ("ecc", b"[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n", "ECC error"),
    ("gpu-hang", b"HW Exception by GPU node-4 (Agent handle: 0x1eb) reason :GPU Hang\n", "GPU hang"),
    ("gpu-reset", b"kernel: amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!\n", "GPU hang"),
    ("no-gpu", b"RuntimeError: Unable to initialize backend 'cuda': No visible GPU devices.\n", "no GPU found"),
    ("coordination", b"E0203 04:05:06 CoordinationServiceError: task 3 is gone\n", "coordination service lost"),
    ("watchdog", b"[Rank 9] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)\n", "NCCL time-out"),
    ("oom", b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n", "CUDA out of memory"),
    ("task", b"srun: error: n7: task 3: Exited with exit code 1\n", "a failed task"),
    ("cancelled", b"slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2031-02-03T04:05:06 ***\n", "cancelled"),
    ("segfault", b"bash: line 1:  4242 Segmentation fault      (core dumped) python train.py", "segmentation fault"),
    ("exception", b'Traceback (most recent call last):\n  File "t.py", line 7, in f\nValueError: x\n', "an exception"),
)
#: Lines that healthy runs end with.
_HARMLESS = (
    (
        "teardown",
        b"Exception ignored in: <function Pool.__del__>\nTraceback (most recent call last):\nOSError: closed\n",
    ),
    ("process-group", b"[rank0]:[W203 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called\n"),
    ("abort", b"n7:42:43 [3] NCCL INFO comm 0x7f rank 3 nranks 8 cudaDev 3 busId 3 - Abort COMPLETE\n"),
)


def not_ended_well(trial: Trial) -> Iterator[Case]:
    """A whole log of a job that failed, and a log that tells of a bad end of a job that did not."""
    job, healthy = f"job {trial.job.id}", trial.events(trial.run)
    ends = [
        (JobStatus(JobState.FAILED, exit_code=3), f"{job} failed with exit code 3"),
        (JobStatus(JobState.COMPLETED, exit_code=3), f"{job} ended with exit code 3"),
        (JobStatus(JobState.COMPLETED, exit_code=0, signal=9), f"{job} ended by signal 9"),
        (JobStatus(JobState.COMPLETED), f"the exit code of {job} is not known"),
        (JobStatus(JobState.UNKNOWN, reason="no answer"), f"the end of {job} is not known: no answer"),
    ]
    with_words = {JobState.COMPLETED, JobState.FAILED, JobState.REPLAYED, JobState.UNKNOWN}
    ends += [(JobStatus(s, exit_code=0), f"{job} ended {s.value}") for s in JobState if s not in with_words]
    for status, fact in trial.random.sample(ends, 4):
        code = "unknown" if status.exit_code is None else status.exit_code
        done = f"the log is whole, the job {status.state.value} with exit code {code}, signal {status.signal}"
        name = f"job-{status.state.value.lower()}-{code}-{status.signal}"
        yield trial.failed(name, done, as_bytes(healthy), status, fact)
    what, told, fact = _FAILED_STEPS[len(healthy) % len(_FAILED_STEPS)]
    done = f"the log is whole, the job COMPLETED with exit code 0, and {what}"
    yield trial.failed("job-step", done, as_bytes(healthy), replace(ENDED_WELL, **told), fact.format(job=job))
    failed, killed = JobStatus(JobState.FAILED, exit_code=1), JobStatus(JobState.OUT_OF_MEMORY, exit_code=0)
    for word, status, fact in (
        ("fail", failed, f"{job} failed with exit code 1"),
        ("oom", failed, f"{job} failed with exit code 1: * out of memory"),
        ("oom-kill", killed, f"{job} ended OUT_OF_MEMORY: host out of memory"),
        ("stall", JobStatus(JobState.TIMEOUT, exit_code=0), f"{job} ended TIMEOUT"),
    ):
        log = as_bytes(damage(healthy, trial.run, word))
        if status is killed:
            fact_of_log = f"{job} completed, but its log shows a failure: host out of memory"
            if trial.one_number:
                fact_of_log = trial.no_steps
            yield trial.broken(f"{word}-lost", f"the demo's fault {word}, exit code 0", log, fact_of_log)
        yield trial.failed(word, f"the demo's fault {word}", log, status, fact)
    name, line, text = trial.random.choice(_FATAL)
    fact_of_log = f"{job} completed, but its log shows a failure: {text}"
    yield trial.broken(f"then-{name}", f"{name} behind the last step", as_bytes(healthy) + line, fact_of_log)
    name, line = trial.random.choice(_HARMLESS)
    yield trial.judged(
        f"then-{name}", f"{name} behind the last step", trial.run, outcomes.PASSED.word, log=as_bytes(healthy) + line
    )
