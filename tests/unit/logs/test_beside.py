"""What counts in a file beside a log that is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_gsw.logs.failure_scan import find_fatal
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log
from tests.unit.logs.lines import maxtext
from tests.unit.logs.test_failure_scan import CANCELLED, FATAL, OOM, RAISED, TASK, WATCHDOG, XID

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import WriteLog

Found = Callable[[bytes], "str | None"]
MAXTEXT = FORMATS["maxtext"]
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
        return cause and cause.cause.name

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
