"""Options of sbatch as sbatch reads them: a long one by any beginning that only it has, short ones together in a word.

So ``--part=batch``, ``--partition batch``, ``-p batch`` and ``-Hpbatch`` are the same to all who look for a partition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

#: Options with a value, in this word or the next, each with its short one in front: those of Slurm 22.05 by its own
#: answers, and later ones by the manuals up to 25.05.
_WITH_VALUE = """
    A/account acctg-freq a/array batch bb bbf b/begin D/chdir cluster cluster-constraint M/clusters comment
    C/constraint container container-id context S/core-spec cores-per-socket cpu-freq cpus-per-gpu c/cpus-per-task
    deadline delay-boot d/dependency m/distribution e/error x/exclude export export-file extra B/extra-node-info gid
    gpu-bind gpu-freq G/gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint i/input J/job-name
    kill-on-invalid-dep L/licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus
    network F/nodefile w/nodelist N/nodes n/ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    ntasks-per-tres open-mode o/output p/partition power prefer priority profile q/qos reservation segment signal
    sockets-per-node switches tasks-per-node thread-spec threads-per-core t/time time-min tmp tres-bind
    tres-per-task uid wait-all-nodes wckey wrap
"""
#: Options that stand alone, or with a value in the same word.
_ALONE = """
    consolidate-segments contiguous exclusive external get-user-env h/help H/hold ignore-pbs nice k/no-kill
    no-requeue oom-kill-step O/overcommit s/oversubscribe parsable propagate Q/quiet reboot requeue resv-ports
    spread-job spread-segments stepmgr test-only u/usage use-min-nodes v/verbose V/version W/wait
"""


def _table(text: str) -> dict[str, str]:
    """Long names by short ones, and by themselves."""
    words = [word.rpartition("/") for word in text.split()]
    return {name: long for short, _, long in words for name in (short, long) if name}


_VALUED, _BARE = _table(_WITH_VALUE), _table(_ALONE)
_LONG = [name for name in (*_VALUED, *_BARE) if len(name) > 1]
#: Two names of one option.
_ALSO = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}

#: Times as Slurm writes them: ``90`` minutes, ``90:30``, ``1:30:00``, ``2-12``, ``2-12:30``, ``2-12:30:00``.
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?")
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "-1"})


@dataclass(frozen=True)
class Option:
    """One option."""

    #: Its long name, whole where it is known; empty of a word that is no option, or a short one that nobody knows.
    name: str
    #: ``None`` where it has none.
    value: str | None
    #: As it was written, with its value.
    written: str


def options_in(words: Iterable[str]) -> tuple[Option, ...]:
    """The options among these words, in their order, and the words that are none."""
    return _in_words(tuple(words))


@lru_cache(maxsize=64)
def _in_words(words: tuple[str, ...]) -> tuple[Option, ...]:
    """The same; many rows have the same options."""
    return tuple(_each(iter(words)))


def _each(rest: Iterator[str]) -> Iterator[Option]:
    for word in rest:
        if word.startswith("--") and word != "--":
            yield _long(word, rest)
        elif word.startswith("-") and word not in {"-", "--"}:
            yield from _short(word, rest)
        else:
            yield Option("", None, word)


def value_of(words: Iterable[str], name: str) -> str | None:
    """What an option is given last among these words, as sbatch takes it; empty of one that stands alone."""
    return _last_value(tuple(words), name)


@lru_cache(maxsize=256)
def _last_value(words: tuple[str, ...], name: str) -> str | None:
    given = [option.value or "" for option in _in_words(words) if option.name == name]
    return given[-1] if given else None


def _long(word: str, rest: Iterator[str]) -> Option:
    given, has_value, value = word[2:].partition("=")
    name = _whole(given)
    if name is None:  # of another release, or a site's plugin has added it
        return Option(given, value if has_value else None, word)
    if has_value:
        return Option(name, value, word)
    return _with_next(name, word, rest) if name in _VALUED else Option(name, None, word)


def _whole(given: str) -> str | None:
    """The one option that has this name, or begins so."""
    found = [given] if given in _LONG else [name for name in _LONG if name.startswith(given)]
    return _ALSO.get(found[0], found[0]) if len(found) == 1 else None


def _short(word: str, rest: Iterator[str]) -> Iterator[Option]:
    for number, letter in enumerate(word[1:], 1):
        behind = word[number + 1 :]
        if letter in _VALUED:
            yield Option(_VALUED[letter], behind, word) if behind else _with_next(_VALUED[letter], word, rest)
            return
        yield Option(_BARE.get(letter, ""), None, word)
        if letter not in _BARE or letter == "k":  # the value of -k follows in the word
            return


def _with_next(name: str, word: str, rest: Iterator[str]) -> Option:
    value = next(rest, "")
    return Option(name, value, f"{word} {value}".rstrip())


def seconds_of(text: str) -> float | None:
    """A limit on time as Slurm writes and reads it, infinity for no limit; ``None`` where it is no time."""
    if text.upper() in _UNLIMITED:
        return math.inf
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is None and match[4] is None:
        return first * 60.0 + second
    return ((days * 24 + first) * 60 + second) * 60.0 + third
