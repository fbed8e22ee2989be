"""Every exception that pytest-gsw raises on purpose.

::

    GswError
    ├── ConfigurationError        what the user wrote is wrong; nothing has been submitted
    │   └── FileError            a YAML file is wrong: every fault at once, each with line and column
    └── RunError                  one row could not be measured (pytest: ERROR, JUnit: <error>)
        ├── SubmissionError       the scheduler refused the job, or its answer made no sense
        │   ├── RefusedError        it said no, so that there is no job
        │   ├── QueueFullError      it takes no more jobs until some have ended, so that there is no job yet
        │   └── SchedulerUnreachableError  it did not answer, and may have the job all the same
        ├── TableError            the row's own figures contradict each other, so that nothing can be measured by them
        ├── JobError              the job did not end in COMPLETED with exit code 0
        ├── LogError              the log is missing, ambiguous, another run's, too short, or not finite
        │   ├── NoLogError          it is not where the recipe puts it
        │   └── IncompleteLogError       it holds too few steps, or not the run's last one
        ├── LogWarning            the log tells of something that is no fault; an error only where warnings are errors
        └── HookError             a hook of a conftest.py or of a plugin failed
            └── InvalidHookResultError    it returned what it must not

A regression is not an exception: it is a :class:`pytest_gsw.stats.verdict.Verdict`.

Messages start with the fact, give the evidence and end with what to type next. All
exceptions survive pickling.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gsw.common.text import plural

#: How the fact of a row begins whose session ended before its jobs had; ``--gsw-resume`` goes on with it.
INTERRUPTED = "interrupted"


class GswError(Exception):
    """The root of every error that pytest-gsw raises on purpose."""


class ConfigurationError(GswError):
    """An option, a cluster file or a baseline file is wrong. Nothing has been submitted."""


@dataclass(frozen=True, order=True)
class Fault:
    """One fault in a YAML file: where it is (both counted from 1), on which key, and what is wrong."""

    line: int
    column: int
    key: str
    problem: str

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}"
        return f"{place:<7} {self.key}: {self.problem}" if self.key else f"{place:<7} {self.problem}"


class FileError(ConfigurationError):
    """All faults of one YAML file, in the order of their lines.

    Attributes:
        path: The file.
        faults: What is wrong in it; never empty.
    """

    def __init__(self, path: Path, faults: tuple[Fault, ...]) -> None:
        self.path = path
        self.faults = tuple(sorted(faults))
        super().__init__(path, self.faults)

    def __str__(self) -> str:
        lines = [f"{self.path}: {plural(len(self.faults), 'problem')}"]
        # Every line bears the file's name, so that editors and CI servers can jump to it.
        lines += [f"  {self.path}:{fault}" for fault in self.faults]
        return "\n".join(lines)


class RunError(GswError):
    """One row could not be measured.

    Args:
        fact: What happened, one line; it is what pytest's short summary shows.
        evidence: ``(name, value)`` pairs such as ``("log", "/…/log.out:120")``, shown one a line.
        tail: The decisive or the last lines of a log, already made safe to print.
        advice: What to do or type next.
    """

    def __init__(
        self,
        fact: str,
        evidence: tuple[tuple[str, str], ...] = (),
        tail: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        self.fact = fact
        self.evidence = evidence
        self.tail = tail
        self.advice = advice
        super().__init__(fact, evidence, tail, advice)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fact, self.evidence, self.tail, self.advice)

    def __str__(self) -> str:
        lines = [self.fact]
        if self.evidence or self.tail or self.advice:
            lines.append("")
        lines += [f"{name:<10} {value}" for name, value in self.evidence]
        if self.tail:
            lines.append(f"{'last':<10} {self.tail[0]}")
            lines += [f"{'':<10} {line}" for line in self.tail[1:]]
        if self.advice:
            lines.append(f"{'next':<10} {self.advice}")
        return "\n".join(lines)


class SubmissionError(RunError):
    """The scheduler refused the job, or its answer made no sense."""


class RefusedError(SubmissionError):
    """The scheduler said no, so that there is no job."""


class QueueFullError(SubmissionError):
    """The scheduler takes no more jobs until some in the queue have ended; there is no job yet.

    Its fact ends with the limit's name in brackets.
    """


class SchedulerUnreachableError(SubmissionError):
    """The scheduler did not answer. It may have taken the job all the same, and may answer in a while."""


class TableError(RunError):
    """The figures of the row's table contradict each other, so that no measurement can be right by all of them."""


class JobError(RunError):
    """The job did not end in COMPLETED with exit code 0, or its end is not known."""


class LogError(RunError):
    """The log is missing, ambiguous, of another run, too short, or holds numbers that are not finite."""


class NoLogError(LogError):
    """There is no log where the recipe puts it."""


class IncompleteLogError(LogError):
    """The log holds too few steps, or not the run's last one."""


class LogWarning(RunError, UserWarning):  # noqa: N818 - pytest shows it as a warning
    """What a log tells that forbids nothing, and should be known."""


class HookError(RunError):
    """A hook of a conftest.py or of a plugin raised, or returned what it must not."""


class InvalidHookResultError(HookError):
    """What a hook returned is not what its contract says."""
