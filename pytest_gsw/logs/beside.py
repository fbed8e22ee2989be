"""What counts in a file beside a log that is whole, such as its stderr, which has no steps that give a line its place.

The log has shown that training came to its last step. So a program's own word (an exception, no memory, a process that
was killed) counts only where it is the last of its process: who logs an exception and goes on has got over it. What
machines, the fabric or Slurm did counts wherever it stands.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from pytest_gsw.logs.endings import LAST_WORDS, WHEREVER
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.text import without_escapes

#: How much of the file's end is looked at for what was logged last, bytes.
_TAIL_BYTES = 1 << 18
#: Whose line it is, as ``srun --label`` writes it.
_TASK = re.compile(rb"\A {0,8}\d{1,7}: ")
#: PyTorch writes this before an exception that nobody has caught. The process ends by it, whatever others print.
_UNCAUGHT = re.compile(rb"\[rank\d{1,7}\]: ")
#: What an elastic launcher says of a rank that failed, and that it starts all ranks again.
_FAILED_RANK = b"failed (exitcode: "
_RESTART = b"will restart worker group"
#: What the shell says of a command that was killed; scripts end their monitors so.
_KILLED_COMMAND = re.compile(
    rb"line \d{1,7}: {1,8}\d{1,9} (?:Killed|Aborted|Bus error|Illegal instruction|Segmentation fault)\b(.{0,2000})"
)
_TRAINS = re.compile(rb"python|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|ft_launcher")
#: What a program logs that runs: a time, a level, a warning, a bar. A message of several lines is mostly none of it.
_LOGGED = re.compile(
    rb"\d\d:\d\d:\d\d|\b(?:INFO|DEBUG|WARN|WARNING)\b|Warning: |\d{1,3}%\||\[NeMo [IWD] |\A(?:\d{1,7}: )?[IW]\d{4} "
)
#: DeepSpeed's launcher as it ends; why it did, it says at a higher level, or a rank says.
_LAUNCHER = re.compile(rb"\bINFO\b[^\n]{0,40}\blaunch\.py")
#: What ranks and launchers print when they end, so that it does not show that a process went on.
_TEARDOWN = re.compile(
    rb"\b(?:ERROR|FATAL|CRITICAL)\b|\[[EF]\d{3,6} |\[rank\d{1,7}\]|resource_tracker|destroy_process_group|leaked"
    rb"|\b(?:SIG|sig)(?:TERM|KILL|term|kill)|Killing subprocess|launch(?:er)?\.py"
    rb"|torch[./]distributed|elastic|srun: |slurmstepd: |wandb|[Ss]hut(?:ting)? ?down|disconnect"
)


class Beside:
    """The rule for one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged_by: dict[bytes, int] = {}

    def counts(self, cause: str, line: bytes, label: bytes, end: int) -> bool:
        """Whether a cause counts.

        Args:
            cause: Its name.
            line: The line that tells of it, or with which its traceback begins.
            label: What the lines of its process begin with, where it is a traceback; else the line itself.
            end: Where the line or the traceback ends, in bytes.

        Raises:
            OSError: The file cannot be read.
        """
        if cause == LAST_WORDS and _LAUNCHER.search(line):
            return False
        if cause in WHEREVER and _FAILED_RANK not in line:
            return True
        if _FAILED_RANK in line or _UNCAUGHT.search(label) is not None:
            return end > self._restarted
        command = _KILLED_COMMAND.search(line)
        if command is not None:
            return not command[1].strip() or _TRAINS.search(command[1]) is not None
        task = _TASK.search(label)
        return end > self._logged(task[0] if task else b"")

    @cached_property
    def _restarted(self) -> int:
        """Where the launcher says for the last time that it starts all ranks again; -1 where it does not."""
        return max((offset for offset, _ in matching_records(self._path, (_RESTART,))), default=-1)

    def _logged(self, label: bytes) -> int:
        """Where the last line begins that a process logged as it ran; -1 where there is none."""
        if label not in self._logged_by:
            found = [
                offset
                for offset, line in self._tail
                if line.startswith(label)
                and not line[len(label) :].startswith((b" ", b"\t"))
                and _LOGGED.search(line)
                and not _TEARDOWN.search(line)
            ]
            self._logged_by[label] = max(found, default=-1)
        return self._logged_by[label]

    @cached_property
    def _tail(self) -> list[tuple[int, bytes]]:
        """The last lines, each with its place."""
        with self._path.open("rb") as file:
            at = max(0, file.seek(0, 2) - _TAIL_BYTES)
            file.seek(at)
            data = file.read(_TAIL_BYTES)
        places = [at, *(at + match.end() for match in re.finditer(rb"[\r\n]", data))]
        lines = (without_escapes(line) for line in re.split(rb"[\r\n]", data))
        return [(place, line[:4000]) for place, line in zip(places, lines, strict=True)]
