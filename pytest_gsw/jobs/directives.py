"""What a launch script asks of sbatch itself, as far as one row could become several jobs by it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from pytest_gsw.errors import RefusedError
from pytest_gsw.jobs.model import JobSpec

#: sbatch reads directives up to the script's first command; scripts have them at their head.
_MOST_BYTES = 256 << 10
#: ``--array=1-2``, by any beginning of the word that only it has; ``-a1-2``, perhaps behind flags without a value.
_ARRAY = re.compile(r"--ar(?:r(?:ay?)?)?(?:=.{0,200})?|-[HIOQVhksuv]{0,10}a.{0,200}")
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
    for words in _array_options(spec.options):
        yield "the options of sbatch", words
    for number, line in directives_of(spec.script):
        several = [*(word for word in line[:1] if word in _HETEROGENEOUS), *_array_options(line)]
        yield from ((f"{spec.script}:{number}", f"#SBATCH {words}") for words in several)


def directives_of(script: Path) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The numbers and the words of a script's lines for sbatch; none of one that cannot be read: sbatch says it."""
    try:
        facts = script.stat()
        return _in_script(script, facts.st_mtime_ns, facts.st_size)
    except OSError:
        return ()


@lru_cache(maxsize=64)
def _in_script(script: Path, _mtime_ns: int, _size: int) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The same of a script that is as it was; many rows have one script."""
    with script.open("rb") as file:
        text = file.read(_MOST_BYTES).decode(errors="replace")
    lines = directive_lines(text)
    return tuple((number, tuple(_words(line.removeprefix("#SBATCH")))) for number, line in lines)


def directive_lines(text: str) -> Iterator[tuple[int, str]]:
    """A script's directives, by number: sbatch reads no further than to the first command."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#SBATCH"):
            yield number, line
        elif _COMMAND.match(line):
            return


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _array_options(words: Iterable[str]) -> Iterator[str]:
    """Options that make an array, as they are written; what follows a blank is a value of its own."""
    words = list(words)
    for number, word in enumerate(words):
        if _ARRAY.fullmatch(word):
            value = words[number + 1] if re.fullmatch(r"--ar\w*|-\w*a", word) and number + 1 < len(words) else ""
            yield f"{word} {value}".rstrip()
