"""Bad ends that say no more than an exit code, and the causes that count wherever they stand in a log."""

from __future__ import annotations

import re

from pytest_gsw.logs.causes import Signature, signature

#: The name of an end that no other signature knows.
LAST_WORDS = "an error"
_LOOK = "look at the lines before it: a program that ends so has not ended well"
#: Where a line names an exception: behind labels, times and levels, and not in a sentence or in code that is shown.
_BEGIN = r"\A {0,2}(?:\d{1,7}: {1,2})?|[\]>]:? {0,2}|/\d{1,5} |\bERROR\W{1,3}|\d:\d\d(?:[.,]\d{1,9})?Z? "
_CLASS = (
    r"(?:(?:\w{1,40}\.){0,6}(?:_?[A-Z]\w{0,60}Error|(?:[A-Z]\w{0,60})?Exception|TimeoutExpired|BrokenProcessPool)"
    r"|(?:\w{1,40}\.){0,6}(?:exc|exceptions|errors)\.[A-Z]\w{1,60}|KeyboardInterrupt|Stop(?:Async)?Iteration|GeneratorExit"
    r"|SystemExit(?!: (?:0|None|False)\b))"
)
#: The last words of a program that did not end well, by what they speak of: a pattern, and its markers.
_LAST_WORDS = {
    # An exception; what is logged as MeanSquaredError: 0.01 is none.
    rf"(?:{_BEGIN}|[:|)] | - ){_CLASS}(?:\(\w{{1,60}}\))?:(?! {{0,4}}[-\+]?\d{{0,9}}(?:\.\d|e[-\+]\d))"
    rf"|(?:{_BEGIN}){_CLASS}(?:\(['\"]|\s{{0,4}}\Z)"
    r"": "Error|xception|exc.|errors.|Interrupt|Exit: |GeneratorExit|Iteration|Expired|ProcessPool",
    r"\bTraceback\b|\bStack trace \(most|Error executing job|\b[Uu]n(?:handled|caught) (?:ex|[\w ]{0,20}error)"
    r"|(?:[Ss]tat(?:e|us)\W{1,3}|\.py`? |\b(?:[Tt]raining|[Jj]ob|[Rr]un|[Ee]xperiment|[Ww]orker)\b[\w .-]{0,60} )"
    r"(?:FAILED|failed|crashed)\b(?!\W{1,3}\d|['\"])": "Trace|trace (|rror| except|FAILED|failed|crashed",
    # A signal that came, and what the shell says of it.
    r"(?:\b[Rr]eceiv(?:ed|ing)|\b[Cc]aught|\b[Gg]ot|\b[Rr]aised|ed by|[Ee]xited on"
    r"|(?:[Dd]i|[Ff]ail|[Ee]xit)ed (?:with|from))\b[^\n]{0,30}?\b(?:[Ss]ignals?\b(?!-)|SIG[A-Z]{2,6}\b)"
    r"|\bSIG[A-Z]{2,6}\b[^\n]{0,12}\b(?:received|caught)|\*\*\* SIG[A-Z]|\bSignal: |\bUser defined signal": "SIG|ignal",
    r"\b(?:[Bb]us error|[Ss]egmentation fault|Illegal instruction|Floating point exc)|Killing subprocess"
    rf"|(?:{_BEGIN})Killed(?:: \d)?\s{{0,4}}\Z": "us error|egmentation fault|llegal|point exc|Kill",
    # A process that ended, or gave up.
    r"\b(?:[Pp]rocess|[Ww]orker) [^\n]{0,24}\d[^\n]{0,24}\b(?:killed|terminated|died|crashed)\b"
    r"(?! (?:success|normal|clean|with exit code 0))|DataLoader worker [^\n]{0,80}exited unexpectedly"
    r"|\b(?i:exit(?:ed|s)?[ _]?(?:with )?(?:an? )?(?:non-?zero )?(?:exit )?(?:code|status)\W{1,6}[1-9]"
    r"|exited with [1-9]|return ?code\W{1,6}[1-9])|\bdumped core\b|\bmake: \*\*\* "
    r"": "killed|terminate|died|crashed|unexpectedly|xit code|xit status|xitcode|xit_code|XIT|xited|xit with|xits with"
    "|eturncode|eturn code|dumped core|make: ***",
    r"(?<!\b0 )(?<!\bnot )(?<!\bno )(?<!['\"])\b(?:[Aa]bort(?:ed|ing)|ABORT(?:ED|ING)?)\b"
    r"(?!(?: \w{1,12})? {0,3}[:=] {0,3}(?:0|[Nn]o(?:ne)?|[Ff]alse)\b)|\bAbort\(\d|\bMPI_A(?:bort|BORT)\b": "bort|ABORT",
    r"(?<!\b[Nn]o )(?<!\b0 )(?<!\b[Nn]o[nt][ -])\b[Ff]atal\b(?!['\"=])|(?:FATAL|\bCRITICAL)(?=[\]:|]| {1,4}\S)"
    r"|(?:\A|[\s\[:>\]])F\d{3,4} \d\d:\d\d|\d: F [a-z]": "atal|FATAL|CRITICAL|F0|F10|F11|F12|[F|: F ",
    r"slurmstepd: error: (?:\*\*\* |task \d{1,7}: SIG|Exceeded)"
    r"|srun: (?:Force Terminated|forcing job|error: Timed out waiting for job step)"
    r"|NCCL operations have failed|entire process down|subsequent heartbeat"
    r"|\b(?:[Mm]onitor|[Ww]atchdog|[Hh]eartbeat) time(?:d |-)?out(?=[,.!;]|\s{0,4}\Z)"
    r"": "slurmstepd: error: |srun: |NCCL operations|process down|heartbeat|imed out|timeout|time-out",
    # The C library, C++, Rust and glog.
    r"\b(?:free|\w{0,9}alloc|munmap_chunk|malloc_consolidate|what)\(\): |\bcorrupted (?:size|top|double)"
    r"|\bdouble free\b|detected \*\*\*": "(): |corrupted|double free|detected ***",
    r"\bbad_alloc\b|pure virtual method|Assertion [^\n]{1,400} failed|\b[Pp]anic(?:ked at|:| -) "
    r"|enforce fail at |Check failed: |Non-OK-status: |symbol lookup error"
    r"": "bad_alloc|virtual|ssertion|anic|enforce|Check failed|Non-OK|symbol lookup",
    # Accelerators, drivers and the fabric.
    r"\bCUDA_ERROR_(?!SUCCESS)|\b(?:CU[A-Z]{2,8}|HSA)_STATUS_(?!SUCCESS)|\b(?:cuda|hip)Error(?!Success)[A-Z]"
    r"|\bnccl[A-Z][A-Za-z]{0,30}Error"
    r"|(?<!\b[Nn]o )\b(?:CUDA|HIP|[NR]CCL|NVSHMEM|UCX|XLA|NVLink|cu[A-Z]{3,4}) {1,2}(?:runtime )?"
    r"(?:[Ee]rror|ERROR|failure)\b(?! check)"
    r"|illegal memory access|device-side assert|GPU is lost|GPU requires reset|\bNVRM: (?:(?:A )?GPU|nvAssert)"
    r"|\bsegfault at |\bsoft lockup\b"
    r"": "rror|ERROR|_STATUS_|failure|llegal|device-side|GPU is lost|requires reset|NVRM: |segfault|soft lockup",
    r"\b(?:INTERNAL|DATA_LOSS|UNAVAILABLE|CANCELLED|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION): "
    r"|Polled an error from ": "INTERNAL: |LOSS: |UNAVAILABLE: |ED: |PRECONDITION: |Polled an error",
    r"(?<!\b0 )\b[Oo]ut of memory\b(?!['\"]|\W{1,3}0\b)|\bmlx5_core [^\n]{0,80}(?:[Ff]atal|[Ee]rror)"
    r"|\bX[Ii][Dd]\b(?: errors?)?[ :=]{1,3}[1-9]": "ut of memory|mlx5_core|Xid|XID",
}

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
        "|exited with non-zero status|BAD TERMINATION|has exited due to|lost communication",
        r"failed \(exitcode: -?[1-9]\d{0,3}\) local_rank|exits with return code = -?[1-9]"
        r"|\b(?:mpi|prte|orte)run noticed that process rank|MPI_ABORT was invoked on rank"
        r"|run detected that one or more processes exited with non-zero status"
        r"|BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|run has exited due to process rank"
        r"|has lost communication with a",
        "look at the lines before it: a rank of the training died",
    ),
    signature(
        "a killed process",
        "Killed|Aborted|(core dumped)|terminate|Fatal Python error|Terminating process because "
        "|Check failure stack trace",
        r"line \d{1,7}: {1,8}\d{1,9} (?:Killed|Aborted|Bus error|Illegal instruction)\b|\(core dumped\)"
        r"|terminate called (?:after throwing|without an active|recursively)|Fatal Python error: "
        r"|Terminating process because the JAX distributed service|\*\*\* Check failure stack trace: \*\*\*",
        "look at the lines before it, and at the node's dmesg: something of the run was killed or crashed",
    ),
    *(signature(LAST_WORDS, markers, pattern, _LOOK) for pattern, markers in _LAST_WORDS.items()),
)

#: Such a line that tells of what was got over, of what shall be done, or of no part of the training.
CLEAN_UP = re.compile(
    rb"(?i:\b(?:fall(?:ing|s)? ?back|retrying|retried|will retry|ignor(?:ed|ing)|skipp(?:ed|ing)|proceeding|non-fatal"
    rb"|graceful(?:ly)?|(?:signal|SIG[A-Z]{2,6}) handlers?|no (?:\w{1,12} ){1,2}failed|not failed)\b)"
    rb"|NCCL (?:INFO|WARN)|\bwandb: |\[I\d{3,6} |\b(?:monitor|exporter|nvidia-smi)\b[^\n]{0,20}(?:received|got|caught)"
    rb"|(?:(?<!Error)[:=]|\bcount) {0,4}(?:0|[Nn]o(?:ne)?|[Ff]alse|null)\s{0,4}\Z"
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
