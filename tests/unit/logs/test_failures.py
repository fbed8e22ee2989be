from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.signatures import SIGNATURES, find_cause
from tests.endless import it_ends
from tests.messages import wording
from tests.unit.logs.lines import NOISE, maxtext

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import WriteLog

CAUSES = [
    ("CUDA out of memory", b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3"),
    ("CUDA out of memory", b"RuntimeError: CUDA error: out of memory"),
    ("XLA out of memory", b"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to"),
    ("XLA out of memory", b"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error."),
    ("host out of memory", b"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0. Some of your processes"),
    ("host out of memory", b"slurmstepd: error: Detected 2 oom_kill events in StepId=77.0. Some of the step tasks"),
    ("host out of memory", b"RuntimeError: [enforce fail at c.cpp:127] DefaultCPUAllocator: can't allocate memory"),
    ("gloo time-out", b"RuntimeError: [gloo/pair.cc:81] Timed out waiting 15000ms for recv operation to complete"),
    ("host out of memory", b"srun: error: node3: task 0: Out Of Memory"),
    ("host out of memory", b"RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed."),
    ("shared memory exhausted", b"ERROR: Unexpected bus error encountered in worker. This might be caused by"),
    ("shared memory exhausted", b"RuntimeError: DataLoader worker (pid 42) is killed by signal: Bus error. It is"),
    ("NCCL time-out", b"[Rank 9] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE"),
    ("NCCL error", b"RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:911, unhandled system error"),
    ("GPU error (Xid)", b"kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=4242, GPU has fallen off the bus."),
    ("ECC error", b"RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("ECC error", b"amdgpu 0000:dd:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"),
    ("GPU hang", b"HW Exception by GPU node-4 (Agent handle: 0x1ebc04e0) reason :GPU Hang"),
    ("GPU hang", b"kernel: amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!"),
    ("GPU memory fault", b"Memory access fault by GPU node-4 (Agent handle: 0x55d) on address 0x7f. Reason: Unknown."),
    ("node failure", b"srun: error: Node failure on node7"),
    ("node failure", b"slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO NODE FAILURE,"),
    ("node failure", b"srun: error: Nodes node[7-9] are still not ready"),
    ("time limit", b" 0: slurmstepd: error: *** STEP 7.1 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO TIME LIMIT"),
    ("preemption", b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO PREEMPTION ***"),
    ("requeued", b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO JOB REQUEUE ***"),
    ("cancelled", b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 ***"),
    ("container import", b"slurmstepd: error: pyxis: child 4242 failed with error code: 1"),
    ("container import", b"slurmstepd: error: pyxis: failed to import docker image"),
    ("container import", b'srun: error: pyxis: mount source must be a relative path, an absolute path, "tmpfs"'),
    ("container import", b"srun: error: Invalid --container-mounts argument: a:/b"),
    ("container import", b"slurmstepd-n7: error: pyxis: container start failed with error code: 1"),
    ("no container plugin", b"srun: unrecognized option '--container-image=/x.sqsh'"),
    ("no container plugin", b"srun: unrecognized option '--no-container-mount-home'"),
    ("no container plugin", b'slurmstepd: error: Warning: SPANK plugin "pyxis" option "container-image" not found'),
    ("MPI plugin not found", b"srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types"),
    ("MPI plugin not found", b"srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files"),
    ("MPI plugin not found", b"srun: error: Couldn't load specified plugin name for mpi/pmix: Plugin init() failed"),
    ("MPI plugin not found", b"srun: error: MPI: Unable to load any plugin"),
    ("MPI plugin not found", b'srun: error: "--mpi=pmix" -- long invalid MPI type, --mpi=list for acceptable types.'),
    ("task layout refused", b"srun: error: Unable to create step for job 7: More processors requested than permitted"),
    ("model access refused", b"OSError: You are trying to access a gated repo."),
    ("model access refused", b"huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url: x"),
    ("GPUs not requested", b"srun: error: Unable to create step for job 77: Invalid generic resource (gres) spec"),
    ("no GPU found", b"RuntimeError: No CUDA GPUs are available"),
    ("no GPU found", b"RuntimeError: CUDA error: no CUDA-capable device is detected"),
    ("no GPU found", b"RuntimeError: Unable to initialize backend 'cuda': PRECONDITION: No visible GPU devices."),
    ("submission refused", b"sbatch: error: Batch job submission failed: Invalid account"),
    ("submission refused", b"sbatch: error: Cannot submit batch jobs to gpu_interactive"),
    ("port in use", b"torch.distributed.DistNetworkError: The server socket has failed to listen, name: EADDRINUSE"),
    ("port in use", b"OSError: [Errno 98] Address already in use"),
    ("rendezvous failed", b"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 2/4"),
    ("rendezvous failed", b"torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"),
    ("coordination service lost", b"E0203 x.cc:1] task:15 is set to ERROR [tensorflow.CoordinationServiceError='']"),
    ("NaN loss", b"AssertionError: Rank 1: found NaN in local forward loss calculation. Device: 1, node: n7"),
    ("segmentation fault", b"[n7:42:0:42] Caught signal 11 (Segmentation fault: address not mapped to object at 0x8)"),
    ("segmentation fault", b"srun: error: node7: task 3: Segmentation fault"),
    ("segmentation fault", b"traceback : Signal 11 (SIGSEGV) received by PID 4242"),
    ("module not found", b"ModuleNotFoundError: No module named 'megatron'"),
    ("module not found", b"[rank0]: ModuleNotFoundError: No module named 'megatron'"),
    ("script not found", b"python: can't open file '/opt/train.py': [Errno 2] No such file or directory"),
    ("script not found", b"slurmstepd: error: execve(): /spool/job77/slurm_script: No such file or directory"),
    ("command not found", b"srun: error: n7: tasks 0-7: Exited with exit code 127"),
    ("disk full", b"OSError: [Errno 28] No space left on device"),
    ("disk full", b"cp: cannot create directory: Disk quota exceeded"),
]

BENIGN = [
    b"srun: error: Unable to create step for job 77: Job/step already completing or completed",
    b"python: unrecognized option '--container-image'",
    b"srun: error: node7: task 0: Exited with exit code 1",
    b"srun: error: node7: tasks 0-3: Terminated",
    b"W0203 04:05:06.7 4242 emitter.cc:6] Unsuccessful retry: error: RESOURCE_EXHAUSTED: Ran out of memory in vmem",
    b"n7:42:43 [3] NCCL INFO comm 0x7f rank 3 nranks 8 cudaDev 3 busId 3 - Abort COMPLETE",
    b"n7:42:43 [3] NCCL WARN Error: ncclSystemError: Connection closed by remote peer",
    b"[1770000000.1] [n7:42:0] ucp_context.c:1 UCX WARN error: network device is not available",
    b"number of nan iterations:   0 | grad norm: 1.0",
    b"[rank0]:[W203 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called",
    b"check_for_nan_in_loss_and_grad .................. True",
    b"WARNING: apex is not installed: ModuleNotFoundError: No module named 'apex'",
    b"    raise RuntimeError('found NaN in loss')",
    b"cuda_executor.cc: failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    b"INFO:2031-02-03 04:05:06,7:jax._src.xla_bridge:9: Unable to initialize backend 'cuda': No visible GPU devices.",
    b"I0203 04:05:06.7 42 xla_bridge.py:9] Unable to initialize backend 'cuda': No visible GPU devices.",
    b"W0203 pjrt_client.cc:1] WatchTasks failed for task 1 [type.googleapis.com/tensorflow.CoordinationServiceError='']",
    b"    ECC errors                       : 0",
    b"pyxis: imported docker image: a.example/train:1",
    b"slurmstepd: error: pyxis:     [INFO] Authentication succeeded",
    b"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids running out of memory",
    b"slurmstepd: error: _xgetaddrinfo: getaddrinfo(ctl:6817) failed: Temporary failure in name resolution",
]


@pytest.mark.parametrize(("name", "line"), CAUSES)
def test_cause(write_log: WriteLog, name: str, line: bytes) -> None:
    cause = find_cause(write_log(NOISE + maxtext(0, "4.0") + b"12: \x1b[31m" + line + b"\x1b[0m\nmore\n"))
    assert cause is not None
    assert (cause.name, cause.line) == (name, 3)
    assert line.decode().strip()[:60] in cause.text
    assert cause.advice
    assert cause.out_of_memory == ("out of memory" in name)
    assert cause.infrastructure == (name in INFRASTRUCTURE)
    assert not (cause.infrastructure and cause.out_of_memory)


@pytest.mark.parametrize("line", BENIGN)
def test_benign(write_log: WriteLog, line: bytes) -> None:
    assert find_cause(write_log(b"0: " + line + b"\n" + line + b"\n")) is None


def test_every_signature_is_tested() -> None:
    assert {name for name, _ in CAUSES} == {signature.name for signature in SIGNATURES}


#: Machines or the fabric failed, so that the same run may succeed elsewhere; all other causes are the run's own.
INFRASTRUCTURE = {
    "NCCL time-out",
    "gloo time-out",
    "NCCL error",
    "ECC error",
    "GPU hang",
    "coordination service lost",
    "GPU error (Xid)",
    "node failure",
    "preemption",
    "requeued",
    "container import",
    "port in use",
    "rendezvous failed",
}


@pytest.mark.parametrize("number", [13, 31])
def test_xids_of_the_program(write_log: WriteLog, number: int) -> None:
    cause = find_cause(write_log(b"NVRM: Xid (PCI:0000:41:00): %d, pid=42, name=python\n" % number))
    assert cause is not None
    assert (cause.name, cause.infrastructure) == ("GPU error (Xid)", False)
    assert cause.advice.startswith("Xid 13 and 31 are mostly the program's fault")


@pytest.mark.parametrize("number", [1, 3, 48, 63, 64, 74, 79, 94, 95, 119, 130, 131, 310])
def test_xids_of_the_machine(write_log: WriteLog, number: int) -> None:
    cause = find_cause(write_log(b"NVRM: Xid (PCI:0000:41:00): %d, pid=42, name=python\n" % number))
    assert cause is not None
    assert (cause.name, cause.infrastructure) == ("GPU error (Xid)", True)


def test_the_root_cause_is_the_earliest(write_log: WriteLog) -> None:
    path = write_log(
        b"7: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n" + NOISE * 99
        + b"3: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)\n"
        + b"slurmstepd: error: *** STEP 77.0 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO TIME LIMIT ***\n"
    )  # fmt: skip
    cause = find_cause(path)
    assert cause is not None
    assert cause.name == "CUDA out of memory"
    # A later start.
    first = b"srun: error: Node failure on node7\n"
    cause = find_cause(write_log(first + b"RuntimeError: CUDA out of memory. Tried\n"), len(first))
    assert cause is not None
    assert (cause.name, cause.line) == ("CUDA out of memory", 2)


def test_a_command_that_is_not_there_is_named_and_counts_only_where_a_task_ended_by_it(write_log: WriteLog) -> None:
    shell = b"module: command not found\n0: /usr/bin/bash: line 1: numactl: command not found\n"
    srun = b"srun: error: n001: task 0: Exited with exit code 127\nslurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2031-02-03T04:05:06 ***\n"
    cause = find_cause(write_log(shell + srun))
    assert cause is not None
    assert (cause.name, cause.line) == ("command not found", 2)
    assert "numactl: command not found" in cause.text
    assert find_cause(write_log(shell)) is None
    other = find_cause(write_log(shell + b"RuntimeError: CUDA out of memory. Tried\n" + srun))
    assert other is not None
    assert other.name == "CUDA out of memory"


@pytest.mark.parametrize("status", [b"success", b"aborted"])
def test_what_follows_the_end_of_an_mlperf_run_is_a_cause(write_log: WriteLog, status: bytes) -> None:
    stop = b':::MLLOG {"key": "run_stop", "value": null, "metadata": {"file": "a.py", "status": "%s"}}\n'
    assert find_cause(write_log(stop % status + b"RuntimeError: NCCL error in: x.cpp\n")) is not None


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(
        LogError,
        match=wording("cannot be read", what="\\Athe log", why="run\\.log: ") + wording("no such file") + "\\n",
    ):
        find_cause(tmp_path / "run.log")


def test_no_line_makes_a_pattern_slow(write_log: WriteLog) -> None:
    hostile = [
        b"Error: error: " * 60_000,
        b"RuntimeError: " * 60_000,
        b"error: pyxis:" + b" " * 900_000,
        b"[" * 900_000 + b"Error: ",
        b"*** STEP " + b"x" * 900_000 + b" CANCELLED AT ",
        b"tasks " + b"1,2-" * 200_000 + b"error: ",
        b" " * 900_000 + b"ModuleNotFoundError: ",
    ]
    with it_ends():
        find_cause(write_log(b"\n".join(hostile) + b"\n"))


IMPORTED = b"""\
pyxis: importing docker image: nvcr.io/nvidia/nemo:24.09
slurmstepd: error: pyxis: child 4242 failed with error code: 1
slurmstepd: error: pyxis: failed to import docker image
slurmstepd: error: pyxis: printing enroot log file:
slurmstepd: error: pyxis:     [INFO] Querying registry for permission grant
%s
slurmstepd: error: pyxis: couldn't start container
slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
srun: error: n7: task 0: Exited with exit code 1
"""


@pytest.mark.parametrize(
    ("reason", "line", "advice"),
    [
        (b"pyxis:     [ERROR] URL https://nvcr.io/auth returned error code: 401", 6, "the registry refused"),
        (b"pyxis:     [ERROR] URL https://nvcr.io/v2/x returned error code: 404", 6, "there is no such"),
        (b"pyxis:     [ERROR] No such file or directory: /lustre/x.sqsh", 6, "there is no such image"),
        (b"pyxis:     tar: ./x: Cannot write: No space left on device", 6, "enroot has no room"),
        (b"pyxis:     [ERROR] URL https://nvcr.io/v2/x returned error code: 500", 6, "check the image's name"),
        (b"pyxis:     [INFO] Authenticating with user: <anonymous>", 2, "check the image's name"),
    ],
)
def test_a_container_that_does_not_start_is_told_by_what_enroot_says(
    write_log: WriteLog, reason: bytes, line: int, advice: str
) -> None:
    cause = find_cause(write_log(IMPORTED % (b"slurmstepd: error: " + reason)))
    assert cause is not None
    assert (cause.name, cause.line, cause.infrastructure) == ("container import", line, True)
    assert cause.advice.startswith(advice)
    assert (reason.decode() in cause.text) == (line == 6)


def test_another_cause_far_below_a_container_is_not_its_reason(write_log: WriteLog) -> None:
    head = b"slurmstepd: error: pyxis: failed to import docker image\n"
    for rest in (
        b"x\n" * 5000 + b"slurmstepd: error: pyxis:     [ERROR] 401\n",
        b"RuntimeError: CUDA error: out of memory\nslurmstepd: error: pyxis:     [ERROR] 401\n",
    ):
        cause = find_cause(write_log(head + rest))
        assert cause is not None
        assert (cause.name, cause.line) == ("container import", 1)
