"""What a launch script asks of sbatch itself, as far as one row could become several jobs by it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from pytest_gsw.errors import RefusedError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.sbatch_options import options_in, seconds_of, value_of
from pytest_gsw.jobs.script_text import script_text

#: The place of what no script says.
OPTIONS = "the options of sbatch"
#: The variables of a job that name the Slurm cluster it goes to, in the order in which sbatch reads them.
CLUSTER_VARIABLES = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")

#: Any line that is neither blank nor a comment.
_COMMAND = re.compile(r"\s*[^\s#]")
_HETEROGENEOUS = frozenset({"hetjob", "packjob"})


def check_one_job(spec: JobSpec) -> None:
    """Raise a RefusedError where the launch script, or an option, makes several jobs of one submission."""
    place, words = next(_several(spec), (None, ""))
    if place is not None:
        raise RefusedError(
            f"{words} makes several jobs of one row",
            (("said at", place),),
            advice="take it out: each row is one job, which the session watches and judges",
        )


def _several(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """What makes several jobs of a submission, and where it stands."""
    for words in _arrays(spec.options):
        yield OPTIONS, words
    for number, line in directives_of(spec.script):
        several = [*(word for word in line[:1] if word in _HETEROGENEOUS), *_arrays(line)]
        yield from ((f"{spec.script}:{number}", f"#SBATCH {words}") for words in several)


def cluster_of(spec: JobSpec) -> str:
    """The Slurm cluster that a job goes to by its name; empty if none is named."""
    return next(named_clusters(spec), ("", ""))[0]


def named_clusters(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """The clusters that are named for a job, each with its place; sbatch takes the first."""
    named = value_of(spec.options, "clusters")
    if named:
        yield named, OPTIONS
    for variable in CLUSTER_VARIABLES:
        if value := spec.environment.get(variable):
            yield value, variable
    for number, words in reversed(directives_of(spec.script_path)):
        if value := value_of(words, "clusters"):
            yield value, f"{spec.script_path}:{number}"


def directives_of(script: Path) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The numbers and the words of a script's lines for sbatch; none of one that cannot be read: sbatch says it."""
    return _in_text(script_text(script) or "")


def directive_words(script: Path) -> tuple[str, ...]:
    """The words of all of a script's lines for sbatch."""
    return _words_in(script_text(script) or "")


@lru_cache(maxsize=64)
def _words_in(text: str) -> tuple[str, ...]:
    return tuple(word for _, words in _in_text(text) for word in words)


@lru_cache(maxsize=64)
def _in_text(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The same of a script's text; many rows have one script."""
    lines = directive_lines(text)
    return tuple((number, tuple(_words(line.removeprefix("#SBATCH")))) for number, line in lines)


def directive_lines(text: str) -> Iterator[tuple[int, str]]:
    """A script's directives, by number: sbatch reads no further than to the first command."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#SBATCH"):
            yield number, line
        elif _COMMAND.match(line):
            return


def time_asked_s(script: Path) -> float | None:
    """The limit on the run time that a launch script asks for; ``None`` where it asks for none, or has no limit."""
    asked = value_of(directive_words(script), "time")
    limit_s = None if asked is None else seconds_of(asked)
    return None if limit_s == math.inf else limit_s


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _arrays(words: Iterable[str]) -> list[str]:
    """Options that make an array, as they are written."""
    return [option.written for option in options_in(words) if option.name == "array"]
