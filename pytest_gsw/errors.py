"""Every exception that pytest-gsw raises on purpose.

::

    GswError
    ├── TakenOverError            another session has taken the run over; its rows are open
    ├── ConfigurationError        the user's input is invalid; nothing has been submitted
    │   └── FileError            a YAML file is invalid: every fault at once, each with line and column
    └── RunError                  one row could not be measured (pytest: ERROR, JUnit: <error>)
        ├── SubmissionError       the scheduler refused the job, or its answer is invalid
        │   ├── RefusedError        it refused the job: there is none
        │   ├── QueueFullError      it accepts no more jobs until some have ended: there is no job yet
        │   └── SchedulerUnreachableError  it did not answer, and may have the job nevertheless
        │       └── NotListedError         it answers by now, and may list the job later
        ├── TableError            the row's own figures contradict each other, and allow no measurement
        ├── JobError              the job did not end in COMPLETED with exit code 0
        ├── LogError              the log is missing, ambiguous, another run's, too short, or not finite
        │   ├── NoLogError          it is not where the recipe puts it
        │   ├── NotFetchedError     it is on a login node, and not here as a whole
        │   └── IncompleteLogError       it lacks steps, figures or its end
        ├── NotJudgedError        a command has nothing to judge it by
        ├── LogWarning            a note on the log that is no fault; an error only if warnings are errors
        └── HookError             a hook of a conftest.py or of a plugin failed
            └── InvalidHookResultError    it returned an invalid result

A regression is not an exception: it is a :class:`pytest_gsw.stats.verdict.Verdict`.

Messages start with the fact, give the evidence and end with the next command. All
exceptions survive pickling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pytest_gsw.common.text import plural

#: Prefix of the fact of a row whose session ended before its jobs; ``--gsw-resume`` continues it.
INTERRUPTED = "interrupted"
#: Prefix of the advice to a row with the same finding as another one, whose id follows.
AS_OF = "as of "


class GswError(Exception):
    """The root of every error that pytest-gsw raises on purpose."""


class ConfigurationError(GswError):
    """An option, a cluster file or a baseline file is invalid. Nothing has been submitted."""


def refuse_empty(name: str, given: object) -> None:
    """Refuse an empty value of an option, a key or a variable: it is no absent one.

    Args:
        name: The name of what has the value, for the message.
        given: The value, or several.

    Raises:
        ConfigurationError: It is empty or blank, or one of several is.
    """
    several = given if isinstance(given, list | tuple) else (given,)
    if not several or any(isinstance(one, str) and not one.strip() for one in several):
        raise ConfigurationError(
            f"{name} is empty, perhaps by a variable that is not set\nnext: give it a value, or leave it out"
        )


@dataclass(frozen=True, order=True)
class Fault:
    """One fault in a YAML file: its place (counted from 1), its key, and the problem."""

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
        faults: Its faults; never empty.
    """

    def __init__(self, path: Path, faults: tuple[Fault, ...]) -> None:
        self.path = path
        self.faults = tuple(sorted(faults))
        super().__init__(path, self.faults)

    def __str__(self) -> str:
        problems = plural(len(self.faults), "problem")
        # Every line has the file's name, for links in editors and CI servers.
        return "\n".join([f"{self.path}: {problems}", *(f"  {self.path}:{fault}" for fault in self.faults)])


Failed = TypeVar("Failed", bound="RunError")


class RunError(GswError):
    """One row could not be measured.

    Args:
        fact: The event in one line, for pytest's short summary.
        evidence: ``(name, value)`` pairs such as ``("log", "/…/log.out:120")``, shown one a line.
        tail: The decisive or the last lines of a log, already made safe to print.
        advice: The next step or command.
    """

    def __init__(
        self, fact: str, evidence: tuple[tuple[str, str], ...] = (), tail: tuple[str, ...] = (), advice: str = ""
    ) -> None:
        self.fact = fact
        self.evidence = evidence
        self.tail = tail
        self.advice = advice
        super().__init__(fact, evidence, tail, advice)

    def with_texts(self: Failed, change: Callable[[str], str]) -> Failed:  # noqa: PYI019 - typing.Self is Python 3.11's
        """The same error with each of its texts changed, but for the lines of a log."""
        evidence = tuple((name, change(value)) for name, value in self.evidence)
        return type(self)(change(self.fact), evidence, self.tail, change(self.advice))

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


class TakenOverError(GswError):
    """Another session has taken the run over: this one gave no sign of life for a whole lease."""


class SubmissionError(RunError):
    """The scheduler refused the job, or its answer is invalid."""


class RefusedError(SubmissionError):
    """The scheduler refused the job: there is none."""


class QueueFullError(SubmissionError):
    """The scheduler accepts no more jobs until some in the queue have ended; there is no job yet.

    Its fact ends with the limit's name in brackets.
    """


class SchedulerUnreachableError(SubmissionError):
    """The scheduler did not answer. It may have accepted the job nevertheless, and may answer later."""


class NotListedError(SchedulerUnreachableError):
    """The scheduler has not answered a submission, and does not list its job; it may do so later."""


class TableError(RunError):
    """The figures of the row's table contradict each other: no measurement can match all of them."""


class JobError(RunError):
    """The job did not end in COMPLETED with exit code 0, or its end is unknown."""


class LogError(RunError):
    """The log is missing, ambiguous, of another run, too short, or has numbers that are not finite."""


class NoLogError(LogError):
    """There is no log where the recipe puts it."""


class NotFetchedError(LogError):
    """The log of an ended job is on a login node, and is not here as a whole."""


class IncompleteLogError(LogError):
    """The log lacks what a run that ends well has written by then: steps, figures, the last line."""


class LogWarning(RunError, UserWarning):  # noqa: N818 - pytest shows it as a warning
    """A note on a log that does not prevent a verdict."""


class NotJudgedError(RunError):
    """A command has nothing by which it could judge: the outcome is open."""


class HookError(RunError):
    """A hook of a conftest.py or of a plugin raised, or returned an invalid result."""


class InvalidHookResultError(HookError):
    """A hook's result violates its contract."""
