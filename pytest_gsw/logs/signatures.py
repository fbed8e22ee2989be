"""Causes of failed runs, found in the log or the batch shell's output.

The cause is the earliest fatal line: when one rank runs out of memory, the others wait for it and print time-outs for
ten minutes. Lines that only resemble a failure are excluded: a task's exit code 1, which adds nothing to the job's own,
and warnings before a retry. :mod:`pytest_gsw.logs.failure_scan` has the signs of
failure in jobs that ended well.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.logs.reader import line_number, reading
from pytest_gsw.logs.scan import matching_records, quoted_text

# -- A cause of a failure, and its signature in a log ----------------------------------------------


#: Bytes of a line that are searched and shown.
LINE_BYTES = 4000
_SHOWN_CHARACTERS = 240

#: Start of the message for a run that diverged, and the advice.
NOT_FINITE = "the loss or a step time is not finite"
DIVERGED = "a diverged run is no measure of performance: find out why before measuring"


@dataclass(frozen=True)
class Cause:
    """Why a run failed."""

    #: The failure in a few words: ``CUDA out of memory``.
    name: str
    #: The line, safe to display.
    text: str
    #: The file that shows it, and the line's number, from 1.
    path: Path
    line: int
    #: The remedy.
    advice: str
    #: True if a GPU or a host lacked memory.
    out_of_memory: bool = False
    #: True if machines or the fabric failed: the same run may succeed elsewhere.
    infrastructure: bool = False


@dataclass(frozen=True)
class Signature:
    """The form of a cause in a log.

    Attributes:
        name: The failure.
        markers: Byte strings of which its lines hold at least one. The file is searched for these: the fewer different
            ones, the faster, and most are just ``Error: `` and ``error: ``.
        pattern: Pattern of the line; without nested or unbounded repetition. It is compiled when a line needs it.
        advice: The remedy.
        out_of_memory: True if memory was lacking.
        infrastructure: True if machines or the fabric were at fault, not the program or its set-up.
    """

    name: str
    markers: tuple[bytes, ...]
    pattern: bytes
    advice: str
    out_of_memory: bool = False
    infrastructure: bool = False

    def find(self, line: bytes) -> re.Match[bytes] | None:
        """The match of this cause in a line; ``None`` if there is none."""
        for mark in self.markers:  # a generator takes three times as long
            if mark in line:
                return re.search(self.pattern, line)
        return None


class CauseLine(NamedTuple):
    """A line that matches a cause."""

    signature: Signature
    offset: int
    text: bytes
    #: The part of it that matches.
    found: bytes

    def cause(self, path: Path) -> Cause:
        """The cause, with the line's number in the file, which reads all lines before it.

        Raises:
            LogError: The file cannot be read.
        """
        known, text, number = self.signature, _quote(self.text, self.found), line_number(path, self.offset)
        return Cause(known.name, text, path, number, known.advice, known.out_of_memory, known.infrastructure)


def cause_line(offset: int, line: bytes, signatures: Iterable[Signature]) -> CauseLine | None:
    """The match of the first signature that a line fits."""
    for signature in signatures:
        if (match := signature.find(line)) is not None:
            return CauseLine(signature, offset, line, match[0])
    return None


def signature(
    name: str, markers: str, pattern: str, advice: str, *, out_of_memory: bool = False, infrastructure: bool = False
) -> Signature:
    """A signature from markers separated by ``|``."""
    words = tuple(marker.encode() for marker in markers.split("|"))
    return Signature(name, words, pattern.encode(), advice, out_of_memory, infrastructure)


def _quote(line: bytes, found: bytes) -> str:
    """The part of a line around a match; secrets are hidden first, in the whole line, since half of one would show."""
    text = quoted_text(line)
    start = max(0, text.find(quoted_text(found)) - _SHOWN_CHARACTERS // 2)
    return text[start : start + _SHOWN_CHARACTERS].strip()


#: Cause of a container that did not start. Pyxis prints the reason, from enroot's output, below it.
CONTAINER = "container import"
_REASON_WITHIN_BYTES = 8000
#: Cause of a task that ended with 127. The command's name is in an earlier line, often of another file.
COMMAND = "command not found"
_COMMAND_MESSAGE = b": command not found"

#: In the order in which they are tried on a line.
SIGNATURES: tuple[Signature, ...] = (
    signature(
        "XLA out of memory",
        "Error: ",
        # XLA warns when it retries a compilation with less memory; only the exception is fatal.
        r"(?:JaxRuntimeError|XlaRuntimeError|InternalError): RESOURCE_EXHAUSTED",
        "the model, batch or XLA_PYTHON_CLIENT_MEM_FRACTION does not fit the accelerator's memory",
        out_of_memory=True,
    ),
    signature(
        "CUDA out of memory",
        "Error: |error: ",
        r"(?:OutOfMemoryError|RuntimeError|AcceleratorError): (?:(?:CUDA|HIP) (?:error: )?)?out of memory"
        r"|(?:CUDA|HIP) error: out of memory|(?:CUDA|HIP) out of memory\. Tried to allocate",
        "check that the GPUs were free, then batch size, parallelism and activation checkpointing of the row",
        out_of_memory=True,
    ),
    signature(
        "host out of memory",
        "error: |Error: |Out of memory: Kill",
        r"Detected \d{1,9} oom[-_]kill event|: tasks? [\d,\-]{1,200}: Out Of Memory"
        r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
        r"|is killed by signal: Killed|Out of memory: Kill",
        "ask Slurm for the whole node's memory with --mem=0, or use fewer data loading workers",
        out_of_memory=True,
    ),
    signature(
        "shared memory exhausted",
        "Error: |Unexpected bus error",
        r"is killed by signal: Bus error|Unexpected bus error encountered in worker",
        "give the container more shared memory (/dev/shm), or use fewer data loading workers",
    ),
    signature(
        "NCCL time-out",
        "Watchdog caught collective|watchdog got stuck|watchdog thread terminated",
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL's watchdog got stuck for "
        r"|watchdog thread terminated with exception: ",
        "a rank stopped or the fabric hung: find the rank that did not take part, rerun with NCCL_DEBUG=INFO",
        infrastructure=True,
    ),
    signature(
        "gloo time-out",
        "Error: ",
        r"Timed out waiting \d{1,9}ms for (?:send|recv) operation to complete",
        "a rank stopped or the network hung: find the rank that did not take part in the log",
        infrastructure=True,
    ),
    signature(
        "ECC error",
        "ECC error|uncorrectable hardware error",
        # Health checks count such errors, or report that there are none.
        r"(?<!\b[Nn]o )(?<!\b0 )(?:[Uu]ncorrectable|[Dd]ouble[- ]bit) ECC error"
        r"(?:s\W{1,12}[1-9]|(?!s| counts?\b[^\n\d]{0,20}0\b))|amdgpu[^\n]{1,200}uncorrectable hardware error",
        "the GPU's memory is broken: drain the node, exclude it with --exclude, and rerun",
        infrastructure=True,
    ),
    signature(
        "GPU hang",
        "GPU Hang|GPU reset begin|Unable to determine the device",
        r"HW Exception by GPU [^\n]{1,200}GPU Hang|amdgpu[^\n]{1,200}GPU reset begin"
        r"|Unable to determine the device handle for GPU",
        "see dmesg and rocm-smi on the node; drain the node, exclude it with --exclude, and rerun",
        infrastructure=True,
    ),
    signature(
        "GPU memory fault",
        "Memory access fault by GPU",
        r"Memory access fault by GPU ",
        "mostly the program's fault: look for an illegal memory access, and for a node on which it comes again",
    ),
    signature(
        "GPU error (Xid)",
        "NVRM: Xid",
        r"NVRM: Xid \([^)]{1,40}\): (?:13|31)\b",
        "Xid 13 and 31 are mostly the program's fault: look for an illegal memory access in the log",
    ),
    signature(
        "GPU error (Xid)",
        "NVRM: Xid|fallen off the bus",
        r"NVRM: Xid \(|fallen off the bus",
        "look the Xid number up in NVIDIA's list: 48, 63, 64, 74, 79, 94 and 95 are the hardware's fault; "
        "then drain the node, exclude it with --exclude, and rerun",
        infrastructure=True,
    ),
    signature(
        "node failure",
        "error: |CANCELLED AT",
        r"error: Node failure on|DUE TO NODE FAILURE|Nodes? \S{1,400} are still not ready",
        "exclude the node with --exclude and rerun; sinfo -R shows why nodes are down",
        infrastructure=True,
    ),
    signature(
        "time limit",
        "CANCELLED AT",
        r"CANCELLED AT \S{1,40} DUE TO TIME LIMIT",
        "give the job more time (sbatch --time), or find out what made it slow or hang",
    ),
    signature(
        "preemption",
        "CANCELLED AT",
        r"CANCELLED AT [^*]{1,400}DUE TO PREEMPTION",
        "a job of higher priority took the nodes: rerun, or use a partition or QOS that is not preempted",
        infrastructure=True,
    ),
    signature(
        "requeued",
        "CANCELLED AT",
        r"CANCELLED AT \S{1,40} DUE TO JOB REQUEUE",
        "Slurm or an administrator put the job back into the queue: rerun, or submit with --no-requeue",
        infrastructure=True,
    ),
    signature(
        "cancelled",
        "CANCELLED AT",
        r"\*\*\* (?:JOB|STEP) \S{1,80} ON \S{1,200} CANCELLED AT ",
        "a user cancelled it, or Slurm did because a task had failed: see sacct and the lines above",
    ),
    signature(
        CONTAINER,
        "error: ",
        r"pyxis: {1,8}\[ERROR\][^\n]{0,600}\b(?:401|403)\b",
        "the registry refused: write its credentials into ~/.config/enroot/.credentials (machine nvcr.io login "
        "$oauthtoken password KEY), seen by the nodes, or correct the image's name, which may be private or misspelt",
        infrastructure=True,
    ),
    signature(
        CONTAINER,
        "error: ",
        r"pyxis: {1,8}\[ERROR\][^\n]{0,600}(?:\b404\b|No such file or directory|Invalid image (?:reference|format))",
        "there is no such image: correct its name and tag, or, of a file, look for it on a node: ls -l IMAGE.sqsh",
        infrastructure=True,
    ),
    signature(
        CONTAINER,
        "error: ",
        r"pyxis: [^\n]{0,600}(?:No space left on device|Disk quota exceeded)",
        "enroot has no room: free it where ENROOT_CACHE_PATH, ENROOT_DATA_PATH and ENROOT_TEMP_PATH point, or import "
        "the image once to a file on the shared file system and name that",
        infrastructure=True,
    ),
    signature(
        CONTAINER,
        "error: ",
        r"pyxis: (?:child \d{1,9} failed|container start failed|failed to |couldn't |could not |mount source must"
        r"| {0,8}\[ERROR\])|error: Invalid --container-",
        "check the image's name and mounts, the registry's credentials (~/.config/enroot/.credentials), "
        "and that enroot's cache and run directories can be written",
        infrastructure=True,
    ),
    signature(
        "no container plugin",
        "unrecognized option|SPANK plugin",
        r"(?:srun|sbatch|salloc): unrecognized option '--(?:no-)?container-"
        r"|SPANK plugin \"pyxis\" option \S{1,60} not found",
        "Slurm's plugin pyxis is missing: with it, srun --help lists --container-image, on nodes as well; ask for it, "
        "or name a partition whose nodes have it",
    ),
    signature(
        "MPI plugin not found",
        "error: ",
        r"error: (?:Invalid MPI type '|MPI: (?:Cannot create context for|Unable to load any) "
        r"|cannot (?:find mpi plugin|create mpi context) for "
        r"|Couldn't (?:find the|load) specified plugin name for mpi/)|long invalid MPI type",
        "srun --mpi=list shows what this cluster has: export SLURM_MPI_TYPE=pmi2, or what it lists, or set it under "
        "`environment` of the cluster",
    ),
    signature(
        "model access refused",
        "Error: ",
        r"access a gated repo|40[13] Client Error|Invalid user token",
        "set HF_TOKEN to a token whose owner has accepted the model's licence",
    ),
    signature(
        "GPUs not requested",
        "error: ",
        r"Invalid generic resource \(gres\)|[Cc]annot submit \S{0,80} {0,4}without GPU resources",
        "the partition requires GPUs to be requested by name: submit with --gres=gpu:8 (SBATCH_GPUS_PER_NODE=8)",
    ),
    signature(
        "task layout refused",
        "error: ",
        # While a job ends or the controller restarts, srun prints it without a fault of the script.
        r"error: Unable to create step for job \d{1,18}: (?:Requested node configuration is not available"
        r"|More processors requested than permitted|Memory required by task is not available"
        r"|Task count specification invalid|Node count specification invalid)",
        "srun requests more than its job has: compare --ntasks-per-node, --cpus-per-task, --gres and --mem of the "
        "launch script with scontrol show node",
    ),
    signature(
        "no GPU found",
        "Error: |No visible GPU devices",
        r"(?:RuntimeError|AcceleratorError): (?:[^:\n]{1,80}: ){0,2}(?:No (?:CUDA|HIP) GPUs are available"
        r"|no CUDA-capable device|Found no NVIDIA driver)"
        # JAX looks for devices, and reports missing ones at level INFO.
        r"|\A(?![^\n]{0,200}(?:INFO|\bI\d{4} ))[^\n]{0,2000}No visible GPU devices",
        "ask for GPUs with --gres=gpu:8, and check nvidia-smi on the node",
    ),
    signature(
        "submission refused",
        "error: ",
        r"sbatch: error: (?:Batch job submission failed|Cannot submit|Unable to)",
        "the line names what the cluster requires: account, partition, QOS, time or GPUs",
    ),
    signature(
        "port in use",
        "Error: ",
        r"(?:DistNetworkError|RuntimeError|OSError|Errno 98\])[^\n]{0,400}(?:EADDRINUSE|[Aa]ddress already in use)"
        r"|\[Errno 98\] Address already in use",
        "another job on the node has the port: choose another MASTER_PORT, or ask for the node alone (--exclusive)",
        infrastructure=True,
    ),
    signature(
        "rendezvous failed",
        "Error: |RendezvousTimeoutError",
        r"Timed out after \d{1,9} seconds waiting for clients|Rendezvous(?:Timeout|Connection)Error"
        r"|DEADLINE_EXCEEDED: Barrier timed out",
        "some ranks never started: look for the nodes whose tasks printed nothing, and at MASTER_ADDR",
        infrastructure=True,
    ),
    signature(
        "coordination service lost",
        "CoordinationServiceError",
        # At level W, a client reports a service that ended before it, as in each run.
        r"\A(?![^\n]{0,200}(?:WARN|\bW\d{4} |: W ))[^\n]{0,3000}CoordinationServiceError",
        "another task of JAX died or was not reached: look for the task that the line names, and at its node",
        infrastructure=True,
    ),
    signature(
        "NaN loss",
        "Error: ",
        # With the exception's name: a traceback also shows the source line that raises it.
        r"(?:Assertion|Runtime|Value)Error: [^\n]{0,120}found (?:NaN|Inf) in",
        "the run diverged: its numbers are no measure of performance",
    ),
    signature(
        "NCCL error",
        "Error: |error: ",
        # NCCL also prints INFO and WARN lines about errors that it recovers from.
        r"\A(?![^\n]{0,400}NCCL (?:INFO|WARN))[^\n]{0,2000}"
        r"(?:NCCL error|nccl(?:UnhandledCuda|System|Internal|Remote)Error)",
        "rerun with NCCL_DEBUG=INFO; check the fabric and that all nodes have the same driver and image",
        infrastructure=True,
    ),
    signature(
        "segmentation fault",
        "egmentation fault|(SIGSEGV)|Caught signal 11",
        # The shell's own line is "job.sh: line 7: 4242 Segmentation fault      (core dumped) python train.py".
        r"Caught signal 11|Fatal Python error: Segmentation fault|\(SIGSEGV\)"
        r"|[Ss]egmentation fault(?: {1,12}\(core dumped\)|$)|\d Segmentation fault {2,12}",
        "the last Python and C frames in the log show where; often a library built for another driver",
    ),
    signature(
        "module not found",
        "Error: ",
        # Missing optional modules are reported in the middle of a line.
        r"\A(?: {0,8}\d{1,7}: )?(?:\S{1,20}/\d{1,5} )?(?:\[[^\]]{1,40}\][:<>a-z ]{0,12})?ModuleNotFoundError: ",
        "the image lacks the module: check the image's version and PYTHONPATH",
    ),
    signature(
        "script not found",
        "error: |can't open file|Script not found",
        r"can't open file '|error: execve\(\): [^\n]{1,400}: No such file|Script not found: ",
        "check the path of the script, and that the node sees the same file system as the submit host",
    ),
    signature(
        COMMAND,
        "Exited with exit code 127|: command not found",
        # The shell's line alone is no cause: scripts go on after it.
        r"srun: error: (?:[^\s:]{1,400}: )?tasks? [\d,\-\[\]]{1,400}: Exited with exit code 127\b"
        r"|\S{1,200}: command not found",
        "the node or the image lacks a command that the launch script calls: install it, or name another image",
    ),
    signature(
        "disk full",
        "No space left on device|Disk quota exceeded",
        r"No space left on device|Disk quota exceeded",
        "free space or raise the quota where results, checkpoints and caches are written",
    ),
)

#: srun's line on the end of a task. It adds nothing to a failed job's exit code, unless a signal ended the task.
FAILED_TASK = signature(
    "a failed task",
    "srun: error: ",
    # "Terminated" is not among them: that is the end of a process that the script itself ends, such as a monitor.
    r"srun: error: (?:[^\s:]{1,400}: )?tasks? [\d,\-\[\]]{1,400}: (?:Exited with exit code [1-9]|Killed|Aborted"
    r"|Bus error|Segmentation fault|Illegal instruction|Floating point exception|Out Of Memory|Exited with signal)",
    "look at the lines before it, and at sacct -j JOB: a step of the job failed",
)

#: Enroot's reason for a container that did not start, not the bare failure.
_CONTAINER_REASON = re.compile(
    rb"pyxis: {1,8}\[ERROR\]|pyxis: [^\n]{0,600}(?:No space left|quota exceeded)|--container-|mount source"
)
_MARKERS = tuple(dict.fromkeys(marker for known in SIGNATURES for marker in known.markers))


def command_line(path: Path) -> Cause | None:
    """The shell's last line about a missing command, which alone is no cause.

    Raises:
        LogError: The file cannot be read.
    """
    with reading(path):
        last = deque(matching_records(path, (_COMMAND_MESSAGE,)), maxlen=1)
    signatures = [signature for signature in SIGNATURES if signature.name == COMMAND]
    causes = [cause_line(offset, record[:LINE_BYTES], signatures) for offset, record in last]
    return causes[0].cause(path) if causes and causes[0] is not None else None


def killed_task(path: Path) -> Cause | None:
    """The line of srun on the first task that failed, if a signal ended it; its name has node, task and signal.

    Raises:
        LogError: The file cannot be read.
    """
    with reading(path):
        records = matching_records(path, FAILED_TASK.markers)
        lines = (cause_line(offset, record[:LINE_BYTES], (FAILED_TASK,)) for offset, record in records)
        first = next(filter(None, lines), None)
    if first is None or b"Exited with exit" in first.found:
        return None
    return replace(first.cause(path), name=quoted_text(first.found).removeprefix("srun: error: "))


def find_cause(path: Path, start: int = 0) -> Cause | None:
    """The earliest fatal line of a log; ``None`` if there is no known one.

    Args:
        path: The log, or the batch shell's output.
        start: Byte offset of the start, such as the first step of the last attempt.

    Raises:
        LogError: The file cannot be read.
    """
    with reading(path):
        records = matching_records(path, _MARKERS, start=start)
        lines = (cause_line(offset, record[:LINE_BYTES], SIGNATURES) for offset, record in records)
        line = _choose_line(filter(None, lines))
    return None if line is None else line.cause(path)


def _choose_line(lines: Iterable[CauseLine]) -> CauseLine | None:
    """The first of the lines, or the line with the reason of the first."""
    first: CauseLine | None = None
    command: CauseLine | None = None
    for line in lines:
        if first is not None and line.offset - first.offset > _REASON_WITHIN_BYTES:
            break
        if line.found.endswith(_COMMAND_MESSAGE):
            command = line  # no cause before a task has ended by it
        elif line.signature.name != CONTAINER:
            return first or (command if line.signature.name == COMMAND else None) or line
        elif _CONTAINER_REASON.search(line.text):
            return line
        else:
            first = first or line
    return first
