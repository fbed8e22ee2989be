"""Bad ends that say no more than an exit code, and the causes that count wherever they stand in a log."""

from __future__ import annotations

from pytest_gsw.logs.causes import Signature, signature

#: How a run ends badly without telling why: what a failed job's exit code says anyhow, and so no cause of one.
ENDINGS: tuple[Signature, ...] = (
    signature(
        "a failed task",
        "srun: error: ",
        # "Terminated" is not among them: so ends what a script itself ends, such as a monitor beside the training.
        r"srun: error: (?:[^\s:]{1,400}: )?tasks? [\d,\-\[\]]{1,400}: (?:Exited with exit code [1-9]|Killed|Aborted"
        r"|Bus error|Segmentation fault|Illegal instruction|Floating point exception|Out Of Memory|Exited with signal)",
        "look at the lines before it, and at sacct -j JOB: a step of the job failed",
    ),
    signature(
        "a failed rank",
        "failed (exitcode: |exits with return code = |exited on signal |MPI_ABORT was invoked"
        "|exited with non-zero status|BAD TERMINATION",
        r"failed \(exitcode: -?[1-9]\d{0,3}\) local_rank|exits with return code = -?[1-9]"
        r"|\b(?:mpi|prte|orte)run noticed that process rank|MPI_ABORT was invoked on rank"
        r"|run detected that one or more processes exited with non-zero status"
        r"|BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "look at the lines before it: a rank of the training died",
    ),
    signature(
        "a killed process",
        "Killed|Aborted|core dumped|terminate called |Fatal Python error|Terminating process because "
        "|Check failure stack trace",
        r"line \d{1,7}: {1,8}\d{1,9} (?:Killed|Aborted|Bus error|Illegal instruction)\b|\(core dumped\)"
        r"|terminate called (?:after throwing|without an active)|Fatal Python error: "
        r"|Terminating process because the JAX distributed service|\*\*\* Check failure stack trace: \*\*\*",
        "look at the lines before it, and at the node's dmesg: something of the run was killed or crashed",
    ),
)

#: What machines, the fabric or Slurm did: it counts whatever follows.
WHEREVER = frozenset(
    {
        *(
            "ECC error",
            "GPU hang",
            "GPU error (Xid)",
            "GPU memory fault",
            "NCCL time-out",
            "NCCL error",
            "gloo time-out",
        ),
        *("coordination service lost", "node failure", "host out of memory", "a failed task", "a failed rank"),
        *("time limit", "preemption", "requeued", "cancelled"),
    }
)
