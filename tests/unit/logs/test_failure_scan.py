"""Which lines of a log, or of a file beside it, say that a run did not end well, whatever its exit code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.logs import failure_scan
from pytest_gsw.logs.failure_scan import ENDINGS, HARDWARE, HARMLESS, UNNAMED_STEP, WHEREVER, fatal_line, find_fatal
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log
from pytest_gsw.logs.signatures import SIGNATURES
from tests.sample import fewer
from tests.unit.logs.lines import NOISE, maxtext, whole

from .conftest import WriteLog

MAXTEXT = FORMATS["maxtext"]
RAISED = b'Traceback (most recent call last):\n  File "/opt/train.py", line 7, in main\n    step()\nValueError: bad\n'
#: What cannot be reported to a service.
REPORTED = RAISED.replace(b"/opt/train.py", b"/usr/site-packages/wandb/sdk/wandb_run.py")
XID = b"kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n"
TASK = b"srun: error: node7: task 3: Exited with exit code 1\n"
CANCELLED = b"slurmstepd: error: *** STEP 77.0 ON node7 CANCELLED AT 2031-02-03T04:05:06 ***\n"
WATCHDOG = b"[rank3]:[E203 ProcessGroupNCCL.cpp:1] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(\n"
OOM = b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"


REQUEUED = b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO JOB REQUEUE ***\n"


def steps(first: int, end: int) -> bytes:
    return b"".join(maxtext(step, "4.500") for step in range(first, end))


def name(path: Path) -> str | None:
    """The cause that the log of a MaxText run tells of."""
    cause = fatal_line(path, read_log(path, MAXTEXT))
    return cause and cause.name


FATAL = [
    ("GPU error (Xid)", XID),
    ("ECC error", b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"),
    ("ECC error", b"RuntimeError: CUDA error: uncorrectable \x1b[1;31mECC error\x1b[0m encountered\n"),
    ("GPU hang", b"HW Exception by GPU node-4 (Agent handle: 0x1eb) reason :GPU Hang\n"),
    ("GPU hang", b"Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system\n"),
    ("ECC error", b"node7: uncorrectable ECC error count: 10\n"),
    ("GPU memory fault", b"Memory access fault by GPU node-4 (Agent handle: 0x5) on address 0x7f. Reason: Unknown.\n"),
    ("NCCL time-out", b"[rank3]:[E1 x.cpp:1] [PG ID 0 Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds\n"),
    ("NCCL time-out", b"[rank3]: Process group watchdog thread terminated with exception: CUDA error: unspecified\n"),
    ("a failed rank", b"prterun noticed that process rank 3 with PID 1 on node n7 exited on signal 9 (Killed).\n"),
    ("a failed rank", b"mpirun detected that one or more processes exited with non-zero status, thus causing\n"),
    ("a failed rank", b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"),
    ("a killed process", b"*** Check failure stack trace: ***\n"),
    ("a failed rank", b"mpirun has exited due to process rank 3 with PID 42 on node n7 exiting improperly.\n"),
    ("a failed rank", b"ORTE has lost communication with a remote daemon.\n"),
    ("NCCL time-out", WATCHDOG),
    ("CUDA out of memory", OOM),
    ("a failed task", TASK),
    ("a failed task", b"srun: error: task 3: Exited with exit code 127\n"),
    ("a failed task", b"srun: error: node7: tasks 0-3,5: Aborted (core dumped)\n"),
    ("an error", b"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"),
    ("GPU error (Xid)", b"kernel: NVRM: GPU at PCI:0000:41:00: GPU has fallen off the bus.\n"),
    ("segmentation fault", b"srun: error: node7: task 3: Segmentation fault (core dumped)\n"),
    ("segmentation fault", b"Fatal Python error: Segmentation fault\n"),
    ("segmentation fault", b"Segmentation fault"),  # and no line end
    ("cancelled", CANCELLED),
    ("an exception", RAISED),
    ("an exception", b"".join(b"[rank3]: " + line for line in RAISED.splitlines(keepends=True))),
    ("an exception", b"ERROR:root:training failed\n" + RAISED),
    ("CUDA out of memory", RAISED.replace(b"ValueError: bad", b"torch.OutOfMemoryError: CUDA out of memory. Tri")),
    # A directory that is called like a service, and services that wrap the training.
    ("an exception", RAISED.replace(b"/opt/", b"/projects/aim/")),
    (
        "an exception",
        RAISED.replace(
            b'  File "/opt', b'  File "/usr/site-packages/mlflow/utils/safety.py", line 9, in f\n    f()\n  File "/opt'
        ),
    ),
    # What a program makes of an exception that were harmless by itself.
    ("an exception", REPORTED + b"\nDuring handling of the above exception, another exception occurred:\n\n" + RAISED),
    ("an exception", b"Traceback (most recent call last):\n  File "),  # the log ends there
    ("an exception", RAISED.replace(b"ValueError: bad", b"KeyboardInterrupt")),
    ("a failed rank", b"E0203 04:05:06.7 42 api.py:8] failed (exitcode: -9) local_rank: 3 (pid: 77)\n"),
    ("a failed rank", b"[INFO] [launch.py:3:sigkill_handler] ['python'] exits with return code = -11\n"),
    ("a failed rank", b"mpirun noticed that process rank 3 with PID 42 on node n7 exited on signal 9 (Killed).\n"),
    ("a killed process", b"/spool/job77/slurm_script: line 12:  4242 Killed                  python train.py\n"),
    ("a killed process", b"terminate called after throwing an instance of 'c10::Error'\n"),
    ("a killed process", b"Fatal Python error: Aborted\n"),
    ("a killed process", b"F0203 04:05:06.7 42] Terminating process because the JAX distributed service ended\n"),
    ("disk full", b"OSError: [Errno 28] No space left on device\n"),
    ("coordination service lost", b"E0203 x.cc:1] ERROR [tensorflow.CoordinationServiceError='']\n"),
]

#: What names an error, a signal, a fatal word or an abort, and that no more is known of.
LAST_WORDS = [
    b"free(): invalid pointer",
    b"munmap_chunk(): invalid pointer",
    b"malloc(): unaligned tcache chunk detected",
    b"double free or corruption (!prev)",
    b"corrupted size vs. prev_size",
    b"corrupted double-linked list",
    b"*** stack smashing detected ***: terminated",
    b'*** Aborted at 1927855506 (unix time) try "date -d @1927855506" if you are using GNU date ***',
    b"E0203 04:05:06.7 42 cuda_driver.cc:7] could not synchronize: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    b"cuBLAS call failed with CUBLAS_STATUS_EXECUTION_FAILED",
    b"HIP error: the operation cannot be performed in the present state",
    b"std::bad_alloc",
    b"E0203 04:05:06.7 42 client.cc:5] Polled an error from coordination service (this can be an error from any task)",
    b"[enforce fail at inline_container.cc:424] . unexpected pos 64 vs 0",
    b"[INFO] Child process with PID 4242 terminated",
    b"[2031-02-03 04:05:06,600] [ERROR] [launch.py:286:sigkill_handler] Killing subprocess 19338",
    b"Error executing job with overrides: ['model=llama']",
    b"KeyboardInterrupt",
    b"AssertionError",
    b"google.api_core.exceptions.DeadlineExceeded: 504",
    b"Exception: something is wrong",
    b"E0203 04:05:06.7 42 train.py:8] ValueError: bad",
    b"SystemExit: 3",
    b"subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds",
    b"concurrent.futures.process.BrokenProcessPool: A process in the pool was terminated abruptly",
    b"Traceback:",
    b"Main process received SIGTERM, exiting",
    b"Caught signal 15, exiting",
    b"DataLoader worker (pid(s) 42) exited unexpectedly",
    b"Bus error",
    b"Illegal instruction",
    b"Floating point exception",
    b"Killed",
    b"python: src/x.c:12: main: Assertion `n > 0' failed.",
    b"thread '<unnamed>' panicked at src/lib.rs:7:5:",
    b"pure virtual method called",
    b"FATAL: the run is broken",
    b"Fatal error in PMPI_Allreduce: Other MPI error, error stack:",
    b"torchrun exited with code 1",
    b"GPU 3: Xid 79",
    b"nvidia-smi: XID error 48",
    b"slurmstepd: error: *** STEP 77.0 STEPD TERMINATED ON n7 AT 2031-02-03T04:05:06 DUE TO JOB NOT ENDING WITH SIGNALS ***",
    b"Unhandled exception. System.Exception",
    b"CUDA out of memory while saving",
    b"HSA_STATUS_ERROR_EXCEPTION: a hardware exception",
    b"srun: Force Terminated StepId=77.0",
    b"srun: forcing job termination",
    b"panic: invalid memory address",
    b"NVLink error detected on link 3",
    b"nvidia-smi: GPU is lost",
    b"Heartbeat monitor timed out! Process will be terminated",
    # Behind a time, as a representation, of a module of errors, and as C++ shows it.
    b"2031-02-03 04:05:06 OSError: [Errno 107] Transport endpoint is not connected",
    b"04:05:06,789 MemoryError",
    b"RuntimeError('boom')",
    b"torch._dynamo.exc.Unsupported: call",
    b"triton.runtime.errors.OutOfResources: out of resource: shared memory",
    b"Stack trace (most recent call last):",
    # A status, and a level at which programs end.
    b"train.py FAILED",
    b"- Status: FAILED",
    b"Application llama3 finished with state FAILED",
    b"Job llama3_8b-x FAILED",
    b"training failed",
    b"CRITICAL:root:loss is too high",
    b"[rank3]:[F203 04:05:06.7 ProcessGroupNCCL.cpp:8] [PG ID 0 Rank 3] Terminating the process",
    b"F0203 04:05:06.7 42 rendezvous.cc:42] Termination timeout of 40 seconds exceeded.",
    b"2031-02-03 04:05:06.789: F external/xla/xla/x.cc:7] Rendezvous",
    b"  exitcode  : -6 (pid: 42)",
    b"EXIT_CODE=1",
    b"exit_code: 137",
    b"`conda run python train.py` failed. (See above for error)",
    b"exiting program after receiving SIGTERM.",
    b"User defined signal 1",
    b"StopAsyncIteration",
    b"GeneratorExit",
    b"Worker 3 died unexpectedly",
    b"torchrun: error: worker group failed",
    b"Process exited with 139",
    b"returncode=1",
    b"timeout: the monitored command dumped core",
    b"make: *** [Makefile:7: train] Error 1",
    b"slurmstepd: error: task 3: SIGKILL",
    b"slurmstepd: error: Exceeded step memory limit at some point.",
    b"NVRM: nvAssertFailed: Assertion failed: 0 @ g_kernel.c:12",
    b"kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:42]",
    b"srun: error: Timed out waiting for job step to complete",
    b"[rank2]:[E203 04:05:06.7 ProcessGroupNCCL.cpp:1] [Rank 2] Some NCCL operations have failed or timed out.",
    b"CUDA ERROR 700 at kernels.cu:12",
    b"[1927855506.1] [n7:42:0] ib_mlx5_log.c:177 UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB",
    b"Process exited with signal 9",
    b"fatal: unable to continue",
    b"*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
    b"terminate called recursively",
    b"python: symbol lookup error: /usr/lib/libx.so: undefined symbol: f",
    b"Following tasks heartbeat timeout",
    b"Watchdog timeout, exiting",
    b"RankMonitor: did not get subsequent heartbeat. Waited 300.00 seconds.",
    b"[rank3]:[E203 04:05:06.7 ProcessGroupNCCL.cpp:8] [Rank 3] we are taking the entire process down.",
    # Accelerators, the driver and the kernel.
    b"[ERROR] CUDA runtime error in cudaEventSynchronize",
    b"common.cu:123 in function f: cuBLAS Error: an unsupported value",
    b"Execution of replica 0 failed: CANCELLED: by peer",
    b"FAILED_PRECONDITION: Buffer Definition Event: x",
    b"Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error",
    b"GPU 00000000:41:00.0: GPU requires reset",
    b"kernel: NVRM: A GPU crash dump has been created.",
    b"kernel: python[4242]: segfault at 0 ip 00007f error 4 in libcuda.so",
]


@pytest.mark.sampled(40)
@pytest.mark.parametrize("line", LAST_WORDS)
def test_last_words(write_log: WriteLog, line: bytes) -> None:
    for head in (b"", b"[rank5]: ", b"5: ", b"ining-demo/0 [default0]:[rank0]: "):
        said = head + line + b"\n"
        assert name(write_log(NOISE + steps(0, 12) + said + b"done\n")) is not None
        assert name(write_log(NOISE + steps(0, 12) + said[:-1])) is not None  # a line that nothing ends
    # What training went on behind, and what stands before it, was no end.
    for found in (name(write_log(steps(0, 9) + said + steps(9, 12))), name(write_log(said + steps(0, 12)))):
        assert found is None or found in WHEREVER


@pytest.mark.parametrize("cause", [cause for cause, words in WHEREVER.items() if words])
@given(data=st.data())
def test_each_line_of_a_cause_holds_one_of_the_words_by_which_it_is_searched_for(
    cause: str, data: st.DataObject
) -> None:
    patterns = [one.pattern for one in (*SIGNATURES, *ENDINGS) if one.name == cause]
    line = data.draw(st.one_of(map(st.from_regex, patterns)))
    assert any(word.encode() in line for word in (WHEREVER[cause] or "").split("|"))


def test_a_known_cause_behind_last_words_is_named(write_log: WriteLog) -> None:
    aborted = b"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    limit = b"slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO TIME LIMIT ***\n"
    assert name(write_log(steps(0, 12) + aborted + limit)) == "time limit"
    assert name(write_log(steps(0, 12) + b"KeyboardInterrupt\n" + RAISED)) == "an exception"


@pytest.mark.sampled(40)
@pytest.mark.parametrize("line", LAST_WORDS)
def test_last_words_in_the_batch_shells_output(write_log: WriteLog, tmp_path: Path, line: bytes) -> None:
    log, output = write_log(steps(0, 12)), tmp_path / "slurm-77.out"
    output.write_bytes(b"starting\n" + line + b"\n")
    assert find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=output) is not None
    # What the script logs behind an error shows that it went on.
    output.write_bytes(line + b"\n2031-02-03 04:05:06 INFO training has ended\n")
    found = find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=output)
    assert found is None or found.name != "an error"


@pytest.mark.parametrize(("expected", "lines"), FATAL)
def test_behind_the_last_step(write_log: WriteLog, expected: str, lines: bytes) -> None:
    path = write_log(NOISE + steps(0, 12) + lines)
    cause = fatal_line(path, read_log(path, MAXTEXT))
    assert cause is not None
    assert cause.name == expected
    assert cause.line >= 14
    assert cause.advice


def test_the_exception_itself_is_shown(write_log: WriteLog) -> None:
    path = write_log(steps(0, 12) + b"".join(b"3: " + line for line in RAISED.splitlines(keepends=True)) + b"4: more\n")
    cause = fatal_line(path, read_log(path, MAXTEXT))
    assert cause is not None
    assert (cause.text, cause.line) == ("ValueError: bad", 16)
    # The lines of other ranks between those of a traceback.
    lines = b"".join(
        b"[rank3]: " + line + b"[rank4]: other\nn7:1:2 [4] NCCL INFO\n" for line in RAISED.splitlines(True)
    )
    cause = fatal_line(write_log(lines), None)
    assert cause is not None
    assert cause.text == "ValueError: bad"


@pytest.mark.parametrize(("expected", "lines"), FATAL)
def test_training_that_went_on_got_over_what_a_program_tells(write_log: WriteLog, expected: str, lines: bytes) -> None:
    if not lines.endswith(b"\n"):
        lines += b"\n"
    wherever = expected if expected in WHEREVER else None
    assert name(write_log(steps(0, 6) + lines + steps(6, 12))) == wherever
    assert name(write_log(steps(0, 9) + lines + steps(9, 12))) == wherever
    # A rank that died lets the others print what they had done already.
    assert name(write_log(steps(0, 10) + lines + steps(10, 12))) == expected


@pytest.mark.parametrize(("expected", "lines"), FATAL)
def test_before_the_first_step_only_broken_hardware_counts(write_log: WriteLog, expected: str, lines: bytes) -> None:
    hardware = expected if expected in {"GPU error (Xid)", "ECC error", "GPU hang"} else None
    assert name(write_log(lines + b"\n" + steps(0, 12))) == hardware


def test_what_is_the_programs_fault_does_not_count_before_the_first_step(write_log: WriteLog) -> None:
    assert name(write_log(b"NVRM: Xid (PCI:0000:41:00): 31, pid=42, MMU Fault\n" + steps(0, 12))) is None


@pytest.mark.parametrize(
    "border",
    [
        b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO JOB REQUEUE ***\n",
        b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO NODE FAILURE, SEE LOG ***\n",
    ],
)
def test_hardware_that_broke_under_an_earlier_attempt(write_log: WriteLog, border: bytes) -> None:
    assert name(write_log(XID + border + steps(0, 12))) is None
    assert name(write_log(border + XID + steps(0, 12))) == "GPU error (Xid)"


BROKEN = {
    "GPU error (Xid)": [XID, b"kernel: NVRM: GPU 0000:41:00.0 has fallen off the bus.\n"],
    "ECC error": [
        b"node7: uncorrectable ECC error count: 10\n",
        b"Volatile Uncorrectable ECC errors: 3\n",
    ],
}


@pytest.mark.parametrize(("expected", "line"), [(name, line) for name, lines in BROKEN.items() for line in lines])
def test_hardware_that_broke_before_the_recipes_first_line(write_log: WriteLog, expected: str, line: bytes) -> None:
    """It broke under this job as well as what broke behind that line, unless an earlier run has steps before it."""
    said = b"GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b JOB_NUM_NODES=8 GPUS_PER_NODE=8 DTYPE=fp8\n"
    for before in (b"", NOISE, said):
        assert name(write_log(before + line + said + said + steps(0, 12))) == expected
        assert name(write_log(before + line + said + steps(0, 5) + steps(0, 12))) == expected
        assert name(write_log(before + line + REQUEUED + said + steps(0, 12))) is None
    assert name(write_log(said + steps(0, 12) + line + said + said + steps(0, 12))) is None
    assert name(write_log(line + said + steps(0, 12) + said + steps(0, 12))) is None
    assert name(write_log(said + steps(0, 12) + said + line + said + steps(0, 12))) == expected
    path = write_log(line + said + b"{'train_runtime': 12.1, 'train_samples_per_second': 64.0, 'epoch': 1.0}\n")
    cause = fatal_line(path, read_log(path, FORMATS["huggingface"]))
    assert cause is not None
    assert cause.name == expected


@pytest.mark.parametrize(("expected", "lines"), FATAL)
def test_an_earlier_attempt_that_had_steps(write_log: WriteLog, expected: str, lines: bytes) -> None:
    if not lines.endswith(b"\n"):
        lines += b"\n"
    # A job that begins anew by itself has the same machines.
    still = expected if expected in HARDWARE else None
    assert name(write_log(steps(0, 7) + lines + steps(0, 12))) == still
    assert name(write_log(steps(0, 7) + lines + REQUEUED + steps(0, 12))) is None
    assert name(write_log(steps(0, 7) + steps(0, 12) + lines)) == expected


def test_a_run_of_which_one_line_tells(write_log: WriteLog) -> None:
    summary = (
        b"{'train_runtime': 12.1, 'train_samples_per_second': 64.0, 'train_steps_per_second': 1.0, 'epoch': 1.0}\n"
    )
    for lines, expected in (
        (XID, "GPU error (Xid)"),
        (WATCHDOG, "NCCL time-out"),
        (TASK, "a failed task"),
        (RAISED, None),
    ):
        path = write_log(NOISE + lines + summary)
        cause = fatal_line(path, read_log(path, FORMATS["huggingface"]))
        assert (cause and cause.name) == expected


# -- what healthy runs print --------------------------------------------------------------

#: One example for each entry of the list, in its order.
EXAMPLES: list[bytes] = [
    b"Exception ignored in: <function _ConnectionBase.__del__ at 0x7f>\n" + RAISED,
    b"Error in atexit._run_exitfuncs:\n" + RAISED,
    b"--- Logging error ---\n" + RAISED,
    b"Task exception was never retrieved\nfuture: <Task finished name='Task-1'>\n" + RAISED,
    b"Exception in thread Thread-4 (_pin_memory_loop):\n" + RAISED.replace(b"in main", b"in do_one_step"),
    RAISED.replace(b"/opt/train.py", b"/usr/lib/python3.10/multiprocessing/resource_tracker.py"),
    RAISED.replace(b'/opt/train.py", line 7, in main', b'/usr/multiprocessing/util.py", line 300, in _run_finalizers'),
    RAISED.replace(b"/opt/train.py", b"/usr/multiprocessing/connection.py").replace(b"ValueError: bad", b"EOFError"),
    REPORTED,
    RAISED.replace(b"ValueError: bad", b"SystemExit: 0"),
]

HEALTHY = [
    *EXAMPLES,
    b"".join(b"[rank3]: " + line for line in EXAMPLES[0].splitlines(keepends=True)),
    # One exception behind another is of the same kind as the first.
    EXAMPLES[0] + b"\nDuring handling of the above exception, another exception occurred:\n\n" + RAISED,
    # A service that could not be reached, as Python tells it.
    RAISED.replace(b"/opt/train.py", b"/usr/lib/python3.12/site-packages/urllib3/connection.py")
    + b"\nThe above exception was the direct cause of the following exception:\n\n"
    + REPORTED.replace(b"ValueError", b'  File "/usr/lib/python3.12/socket.py", line 3, in f\nConnectionError'),
    # A queue whose reader has gone.
    RAISED.replace(b"/opt/train.py", b"/usr/multiprocessing/queues.py").replace(
        b"ValueError: bad", b"OSError: [Errno 9] Bad file descriptor"
    ),
    # A health check's word.
    b"node7: Uncorrectable ECC error count: 0\nDouble bit ECC error count = 0\nno uncorrectable ECC error found\n",
    # A cause within a harmless traceback.
    EXAMPLES[0].replace(b"ValueError: bad", b"OSError: [Errno 98] Address already in use"),
    b"[rank0]:[W203 04:05:06.1 ProcessGroupNCCL.cpp:1] Warning: WARNING: destroy_process_group() was not called before\n",
    b"[rank3]:[W203 04:05:06.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4): Error: Broken pipe\n",
    b"/opt/x.py:7: UserWarning: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate, retrying\n",
    b"WARNING:urllib3.connectionpool:Retrying after OSError: [Errno 98] Address already in use\n",
    b"[rank0]:[W522 04:05:06.1 CUDACachingAllocator.cpp:495] expandable_segments: memory mapping failed with OOM\n",
    b"    raise RuntimeError('CUDA out of memory')\n",
    b"resource_tracker.py:254: UserWarning: There appear to be 8 leaked semaphore objects to clean up at shutdown\n",
    b"n7:42:43 [3] NCCL INFO comm 0x7f rank 3 nranks 8 cudaDev 3 busId 3 - Abort COMPLETE\n",
    b"n7:42:43 [3] NCCL WARN Error: ncclSystemError: Connection closed by remote peer\n",
    b"slurmstepd: error: pyxis:     [INFO] Authentication succeeded\n",
    b"pyxis: imported docker image: a.example/train:1\n",
    b"srun: error: node7: task 0: Terminated\n",  # a monitor that the script itself has ended
    b"Killed the monitor\n",
    b"wandb: WARNING Fatal error while uploading data.\n",
    b"E0203 04:05:06.7 42 coordination_service_agent.cc:4] Failed to disconnect from coordination service. Proceeding\n",
    b"[NODE-0] [INFO] torchrun exited with code 0\n",
    b"[INFO] [launch.py:3:main] Process 42 exits successfully.\n",
    b"checkpoint.py: 0 errors, 0 failures\n",
    # What speaks of errors and signals, and is none.
    b"error rate: 0\nnum_errors=0\nvalidation error: 2.31\nerror: 0.0123\nMeanSquaredError: 0.0123\nfatal errors: 0\n",
    b"TestError: 1.5e-3\nRelativeError:  -.25\n  no errors found\nXid errors: 0\nXID count 0\nUncorrectable ECC errors: 0\n",
    b"nan_error_check: False\nerror_injection_rate: 0\nexit_signal_handler: False\nexit_on_error: true\nmax_retries: 3\n",
    b"signal handler installed\nSIGTERM handler\nRegistered handler for signal 15 (SIGTERM)\nexit_signal: SIGTERM\n",
    b"  exit_signal ..................................... Signals.SIGTERM\n  abort_on_nan ............................ False\n",
    b"retry_on: [ConnectionError, TimeoutError]\nexcept ValueError:\n    except (OSError, KeyError) as error:\n",
    b"raise_on_error: RuntimeError\n{'catch': 'ValueError'}\nhttps://a.example/docs/RuntimeError\n",
    b"Failed to import apex, falling back\nCould not import x: ModuleNotFoundError: No module named 'x', falling back\n",
    b"INFO:root:ConnectionError: refused, retrying in 3 s\nIgnored: OSError: [Errno 95] Operation not supported (ignored)\n",
    b"(ImportError: no module named x)\ncaught ValueError while probing, continued\nrecovered from RuntimeError: x\n",
    # Python says it without a traceback where there is none.
    b"Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\nBrokenPipeError: [Errno 32] Broken pipe\n",
    b"[rank3]: Exception ignored in: <function Pool.__del__ at 0x7f>\n[rank3]: ResourceWarning: unclosed running pool\n",
    b"wandb: ERROR Error while calling W&B API: internal error\nwandb: Network error (ConnectionError), entering retry loop\n",
    b"wandb: \nwandb: Run summary:\nwandb:   eval/error 0.25\nwandb: Synced 5 W&B file(s)\n",
    b"[INFO] mlflow: exit code 0, status 200, uploaded 3 artifacts\nexit code: 0\nexited with status 0\n",
    b"E0203 04:05:06.7 42 agent.cc:4] Failed to disconnect, status: DEADLINE_EXCEEDED: late. Proceeding with shutdown.\n",
    b"job aborted: no\naborted steps: 0\n0 aborted, 0 killed\nnot aborted\ntimers: save 1.2 s, exit 0.1 s\n",
    b"CUDA_ERROR_SUCCESS\ncudaErrorSuccess: no error\nCUBLAS_STATUS_SUCCESS\nCUDA errors: 0\nno CUDA error\nlog_level: FATAL\n",
    b"Killed: 0\nout of memory events: 0\nPCIe bus error: 0\nbus error count 0\ncorrupted samples: 0\ndetected 8 GPUs\n",
    b"monitor received SIGTERM, stopping\nKilling monitor\nSending SIGTERM to the monitor\ntrap SIGTERM\nTerminated\n",
    b'{"status": "ok", "errors": [], "exception": null, "signal": 0}\nALL assertions passed, 0 failed\n',
    b"process 42 terminated successfully\nRMSError: 3.14\nfull_traceback: True\nKeyboardInterrupt handler restored\n",
    b"faulthandler enabled, dumps on SIGSEGV, SIGFPE, SIGABRT\n*** end of run ***\n***** train metrics *****\n",
    # What a monitor, NCCL's own tear-down and others say of themselves; figures with an exponent, and what there was none of.
    b"nvidia-smi dmon: received SIGINT\ndcgm-exporter: got signal terminated\nprocess 42 terminated with exit code 0\n",
    b"[rank0]:[I203 04:05:06.1 ProcessGroupNCCL.cpp:1] ProcessGroupNCCL aborting communicators, check for 'abort finished'\n",
    b"Exception raised from recvBytes at /x.hpp:8 (most recent call first):\nframe #0: c10::Error::Error(std::string) + 0x98\n",
    b"2031-02-03 04:05:06.789: W external/xla/xla/x.cc:1] UNAVAILABLE: late\n",
    b"RelError: 1e-05\nException: None\nKilled by signal: none\nTraceback: None\nout of memory: False\nGPU is lost: no\n",
    b"0 fatal errors\nno fatal errors\nnot fatal\nfatal errors: 0\nnon-fatal\n{'fatal': 0}\nlog_level: CRITICAL\n",
    b"job failed: 0\nrun failed: False\nJob x finished: SUCCEEDED\nfailed: 0, succeeded: 128\nheartbeat timeout: 600 s\n",
    b"CUDA error check passed\nNCCL error checks: 3\nThe target application terminated. One or more process it created\n",
    b"EXIT_CODE=0\nexit_code: 0\nno job failed\nNo training run failed\nThe training has not failed\n",
    b"if [ $? -ne 0 ]; then echo 'training failed'; fi\nheartbeat timeout set to 600 s\nWatchdog timeout disabled\n",
    b"total time: 12.3 s\nerror_file: <N/A>\nTraining finished successfully\nExit handlers ran: 3\n",
]


def test_every_harmless_kind_is_tested() -> None:
    assert len(EXAMPLES) == len(HARMLESS)


@pytest.mark.parametrize("lines", HEALTHY)
def test_what_healthy_runs_print_behind_their_last_step(write_log: WriteLog, lines: bytes) -> None:
    assert name(write_log(NOISE + steps(0, 12) + lines + b"done\n")) is None
    assert name(write_log(NOISE + steps(0, 12) + lines + RAISED)) == "an exception"


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_each_entry_of_the_list_is_needed(write_log: WriteLog, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    path = write_log(steps(0, 12) + EXAMPLES[number])
    assert name(path) is None
    monkeypatch.setattr(failure_scan, "HARMLESS", (*HARMLESS[:number], *HARMLESS[number + 1 :]))
    assert name(path) == "an exception"


#: By this line MLPerf's runs report their own end. It excuses nothing but the teardown of a run of that format.
STOP = (
    b':::MLLOG {"namespace": "", "time_ms": 1927855506000, "event_type": "INTERVAL_END", "key": "run_stop", '
    b'"value": null, "metadata": {"file": "a.py", "lineno": 9, "status": "success"}}\n'
)
BAD_ENDS = [line.removesuffix(b"\n") + b"\n" for line in (*LAST_WORDS, *(lines for _, lines in FATAL))]
#: What a program raises while it closes what it had used.
IN_TEARDOWN = RAISED.replace(b"in main", b"in _shutdown_workers")


@pytest.mark.parametrize("log_format", FORMATS)
def test_no_format_excuses_a_bad_end(write_log: WriteLog, tmp_path: Path, log_format: str) -> None:
    """A format that is registered is tried here without being named."""
    healthy = whole(log_format)
    path = write_log(healthy)
    log = read_log(path, FORMATS[log_format])
    assert fatal_line(path, log) is None
    assert fatal_line(write_log(healthy + STOP), log) is None
    share = slice([*FORMATS].index(log_format) % 5, None, 5)  # each bad end in three formats
    for line in BAD_ENDS if log_format == "mllog" else fewer(BAD_ENDS[share], BAD_ENDS):
        for said in (STOP + line, line + STOP):
            # A training's last step stands behind what it recovered from, a benchmark's run_stop behind its own.
            assert fatal_line(write_log(healthy + said), log) is not None, said
    errors = tmp_path / "run.err"
    path.write_bytes(healthy + STOP)
    for _, lines in FATAL if log_format == "mllog" else fewer(FATAL[share], FATAL):
        errors.write_bytes(STOP + lines)
        assert find_fatal(path, log, FORMATS[log_format], (errors,)) is not None, lines
        assert find_fatal(path, log, FORMATS[log_format], batch_output=errors) is not None or b" STEP " in lines, lines


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_program_may_raise_in_its_teardown_once_it_has_reported_its_own_end(
    write_log: WriteLog, log_format: str
) -> None:
    healthy = whole(log_format)
    log = read_log(write_log(healthy), FORMATS[log_format])
    own = log_format == "mllog"
    assert (fatal_line(write_log(healthy + STOP + IN_TEARDOWN + b"done\n"), log) is None) is own
    for lines in (
        RAISED,
        IN_TEARDOWN.replace(b"ValueError: bad", b"RuntimeError: NCCL error in: x.cpp"),
        labelled(b"[rank3]: ", IN_TEARDOWN),
        RAISED + b"\nDuring handling of the above exception, another exception occurred:\n\n" + IN_TEARDOWN,
        IN_TEARDOWN + TASK,
    ):
        assert fatal_line(write_log(healthy + STOP + lines), log) is not None, lines


def test_what_failed_before_a_benchmark_began_was_no_part_of_it(write_log: WriteLog) -> None:
    begun = STOP.replace(b"run_stop", b"run_start").replace(b"7855506", b"7855406")

    def name_of(content: bytes) -> str | None:
        path = write_log(content)
        cause = fatal_line(path, read_log(path, FORMATS["mllog"]))
        return cause and cause.name

    assert name_of(TASK + RAISED + begun + STOP) is None
    assert name_of(TASK + XID + begun + STOP) == "GPU error (Xid)"
    assert name_of(begun + TASK + STOP) == "a failed task"
    assert name_of(begun + RAISED + STOP) == "an exception"


def test_steps_behind_an_error_are_counted_and_not_lines(write_log: WriteLog) -> None:
    """Two lines for ten steps each are as many as training needs to show that it got over an error."""

    def lines(*numbers: int) -> bytes:
        return b"".join(maxtext(number, "4.500") for number in numbers)

    assert name(write_log(lines(9, 19, 29) + RAISED + lines(39, 49))) is None
    assert name(write_log(lines(9, 19, 29, 39) + RAISED + lines(49))) == "an exception"
    assert name(write_log(steps(0, 10) + RAISED + steps(10, 12))) == "an exception"


# -- the batch shell's output -------------------------------------------------------------


def test_the_batch_shells_output(write_log: WriteLog, tmp_path: Path) -> None:
    log, output = write_log(steps(0, 12)), tmp_path / "slurm-77.out"

    def found(text: bytes) -> str | None:
        output.write_bytes(text)
        cause = find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=output)
        assert cause is None or cause.path == output
        return cause and cause.name

    assert found(b"") is None
    assert found(b"starting\n") is None
    assert found(TASK) == "a failed task"
    assert found(RAISED) == "an exception"
    assert found(XID + b"starting\n") == "GPU error (Xid)"
    # What keeps a training from its beginning did not.
    assert (
        found(b"slurmstepd: error: pyxis: failed to import docker image\nOSError: [Errno 98] Address already in use\n")
        is None
    )
    # A script that shows what it logs.
    assert found(RAISED + steps(0, 12)) is None
    assert found(steps(0, 12) + RAISED) == "an exception"
    assert find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=log) is None
    assert find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=tmp_path / "none.out") is None


@pytest.mark.parametrize("why", [b"PREEMPTION", b"JOB REQUEUE", b"NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"])
def test_the_batch_shells_output_of_a_job_that_slurm_started_again(
    write_log: WriteLog, tmp_path: Path, why: bytes
) -> None:
    log = write_log(steps(0, 10))
    output = tmp_path / "slurm-77.out"
    again = b"slurmstepd: error: *** JOB 77 ON node7 CANCELLED AT 2031-02-03T04:05:06 DUE TO " + why + b" ***\n"
    output.write_bytes(RAISED + TASK + again)
    assert find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=output) is None
    output.write_bytes(again + TASK)
    found = find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, batch_output=output)
    assert found is not None
    assert found.name == "a failed task"


def test_what_is_said_of_helpers(write_log: WriteLog, tmp_path: Path) -> None:
    """Steps that did not end well by Slurm's own word, and that need not."""
    path, output = write_log(steps(0, 12) + CANCELLED), tmp_path / "slurm-77.out"
    log = read_log(path, MAXTEXT)
    assert fatal_line(path, log, frozenset({"1"})) is not None
    assert fatal_line(path, log, frozenset({"0"})) is None
    path.write_bytes(steps(0, 12) + TASK)
    assert fatal_line(path, log) is not None
    assert fatal_line(path, log, frozenset({"1"})) is None
    assert fatal_line(path, log, frozenset({UNNAMED_STEP})) is not None
    path.write_bytes(steps(0, 12) + b"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n")
    assert fatal_line(path, log) is not None
    assert fatal_line(path, log, frozenset({"1"})) is None
    assert fatal_line(path, log, frozenset({UNNAMED_STEP})) is None
    path.write_bytes(steps(0, 12))
    output.write_bytes(CANCELLED)  # what is said to the training's own step is in its log
    assert find_fatal(path, log, MAXTEXT, batch_output=output) is None
    output.write_bytes(CANCELLED.replace(b"STEP 77.0", b"JOB 77"))
    assert find_fatal(path, log, MAXTEXT, batch_output=output) is not None


# -- the search ---------------------------------------------------------------------------


@pytest.mark.parametrize("filler", [0, 1 << 19])
def test_a_small_log_is_searched_as_a_large_one(write_log: WriteLog, filler: int) -> None:
    between = NOISE * (filler // len(NOISE))
    assert name(write_log(XID + between + steps(0, 12))) == "GPU error (Xid)"
    assert name(write_log(steps(0, 9) + between + CANCELLED + between + steps(9, 12))) == "cancelled"
    assert name(write_log(steps(0, 12) + between + RAISED + between)) == "an exception"
    assert name(write_log(between + steps(0, 12) + between)) is None


def test_patterns_have_no_unbounded_repetition() -> None:
    for one in (*SIGNATURES, *ENDINGS, *HARMLESS):
        source = one.pattern.decode().replace("[*+]", "").replace("[^*]", "")
        assert not re.search(r"(?<!\\)[*+]", source)


def test_no_log_makes_the_search_slow(write_log: WriteLog) -> None:
    """Each traceback is read once, and no more than some kilobytes of it."""
    path = write_log(
        steps(0, 12) + b"Exception ignored in: x\n" + EXAMPLES[5] * 300 + b"Traceback (most recent call last)" * 9000
    )
    assert name(path) == "an exception"


# ---- What counts in a file beside a log that is whole --------------------------------------------

Found = Callable[[bytes], "str | None"]
#: What a program that trains logs to its stderr.
GOES_ON = (
    b"INFO:root:compiling\n",
    b"2031-02-03 04:05:06 loading the dataset\n",
    b"/opt/x.py:7: UserWarning: deprecated\n",
    b"Epoch 0:  10%|#   | 5/50 [01:00<09:00]\rEpoch 0: 100%|####| 50/50 [10:00<00:00]\n",
    b"[NeMo W 2031-02-03 04:05:06 nemo_logging:349] old\n",
)
APEX = (
    b"ERROR:root:could not load apex\nTraceback (most recent call last):\n"
    b"  File \"/opt/train.py\", line 3, in <module>\n    import apex\nModuleNotFoundError: No module named 'apex'\n"
)
FETCH = (
    b"ERROR:root:Failed to fetch, retrying\nTraceback (most recent call last):\n"
    b'  File "/opt/data.py", line 9, in fetch\n    get(url)\nConnectionError: refused\n'
)
MONITOR = b"/opt/monitor.sh: line 1:  1234 Killed                  nvidia-smi dmon\n"
#: What ranks and launchers print as they end.
ENDS = (
    b"[rank0]:[W203 04:05:06.1 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called\n"
    b"resource_tracker.py:254: UserWarning: There appear to be 8 leaked semaphore objects to clean up\n"
    b"W0203 04:05:06.7 42 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4 closing signal SIGTERM\n"
    b"[2031-02-03 04:05:06,600] [INFO] [launch.py:286:sigkill_handler] Killing subprocess 19338\n"
    b"[2031-02-03 04:05:07,600] [INFO] [launch.py:295:sigkill_handler] Main process received SIGTERM, exiting\n"
)


def labelled(label: bytes, lines: bytes) -> bytes:
    return b"".join(label + line for line in lines.splitlines(keepends=True))


@pytest.fixture
def found(write_log: WriteLog, tmp_path: Path) -> Found:
    log, errors = write_log(b"".join(maxtext(step, "4.500") for step in range(12))), tmp_path / "run.err"

    def of(lines: bytes) -> str | None:
        errors.write_bytes(lines)
        cause = find_fatal(log, read_log(log, MAXTEXT), MAXTEXT, (errors,))
        return cause and cause.name

    return of


@pytest.mark.parametrize("after", GOES_ON)
@pytest.mark.parametrize("caught", [APEX, FETCH, APEX + FETCH, RAISED, MONITOR, b"OSError: No space left on device\n"])
def test_what_a_program_got_over(found: Found, caught: bytes, after: bytes) -> None:
    assert found(b"starting\n" + caught + after) is None
    assert found(b"starting\n" + caught + after + ENDS) is None
    assert found(labelled(b"3: ", caught + after)) is None


@pytest.mark.parametrize("caught", [APEX, FETCH, RAISED])
def test_a_rank_that_raises_at_the_end_is_no_pass(found: Found, caught: bytes) -> None:
    for before in (b"", *GOES_ON, APEX + GOES_ON[0]):
        assert found(before + caught) is not None
        assert found(before + caught + ENDS) is not None
        assert found(before + caught + b"For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n\n") is not None
    # What other processes say does not show that this one went on.
    assert found(labelled(b"3: ", caught) + labelled(b"4: ", GOES_ON[0])) is not None
    # PyTorch's own word that nobody caught it.
    assert found(labelled(b"[rank3]: ", caught) + b"".join(GOES_ON)) is not None
    assert found(labelled(b"0: [rank3]: ", caught) + b"".join(GOES_ON)) is not None


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("GPU error (Xid)", XID),
        ("ECC error", b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"),
        ("NCCL time-out", WATCHDOG),
        ("a failed task", TASK),
        ("cancelled", CANCELLED),
        ("host out of memory", b"slurmstepd: error: Detected 1 oom_kill event in StepId=77.0.\n"),
        ("a killed process", b"/spool/slurm_script: line 12:  4242 Killed                  python train.py\n"),
        ("CUDA out of memory", OOM),
    ],
)
def test_what_no_log_disproves(found: Found, name: str, line: bytes) -> None:
    assert found(b"starting\n" + line + b"".join(GOES_ON)) == name


def test_a_monitor_that_a_script_has_killed_at_its_end(found: Found) -> None:
    assert found(b"starting\n" + MONITOR) is None


@pytest.mark.parametrize(("name", "lines"), FATAL)
def test_what_ends_the_file(found: Found, name: str, lines: bytes) -> None:
    assert found(b"".join(GOES_ON) + lines) == name


def test_ranks_that_their_launcher_started_again(found: Found) -> None:
    failed = (
        labelled(b"[rank3]: ", RAISED)
        + b"[2031-02-03 04:05:06,1] [ERROR] [launcher] failed (exitcode: 1) local_rank: 3 (pid: 7) of binary: python\n"
    )
    again = (
        b"[2031-02-03 04:05:06,2] [INFO] [launcher] Worker group FAILED. 3/3 attempts left; will restart worker group\n"
    )
    assert found(failed + again + GOES_ON[0]) is None
    assert found(failed + GOES_ON[0]) == "an exception"
    assert found(failed + again + GOES_ON[0] + failed) == "an exception"
    assert found(XID + failed + again + GOES_ON[0]) == "GPU error (Xid)"
    assert found(failed + again + TASK) == "a failed task"
