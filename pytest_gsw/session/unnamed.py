"""What ``-k`` and ``-m`` name that nothing is called: a session that runs nothing is to say which word was misspelt."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import pytest

from pytest_gsw.common.words import enumerated, listed_some
from pytest_gsw.session.chosen import tell_of_selection
from pytest_gsw.session.item import BaselineItem, BlankItem
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.of_release import bundled_elsewhere

#: The words of an expression, as pytest takes it apart.
_WORD = re.compile(r"[\w:+\-.\[\]\\/]+")
_OPERATORS = frozenset({"and", "or", "not", "True", "False", "None"})
#: What is not to be there need not be there.
_NEGATED = re.compile(r"\bnot\s+(?:\([^()]{0,999}\)|[\w:+\-.\[\]\\/]+)")
#: ``gsw(gpus=64, dtype='fp8')``, and what stands in it.
_CALL = re.compile(r"\bgsw\s*\(([^()]{0,999})\)")
_ANY_CALL = re.compile(r"\w+\s*\([^()]{0,999}\)")
_FACT = re.compile(r"(\w+)\s*=\s*('[^']*'|\"[^\"]*\"|[\w.+-]+)")


def select(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Let pytest select, and note what is to be told of that.

    Raises:
        pytest.UsageError: A keyword of ``-m "gsw(gpus=64)"`` is no fact of rows.
    """
    every = list(items)
    wrong = _unknown_facts(config, every)
    if wrong:
        raise pytest.UsageError(wrong)
    yield
    tell_of_selection(config, unnamed(config, every, items))


def _unknown_facts(config: pytest.Config, items: Sequence[pytest.Item]) -> str:
    """Which keyword of ``-m "gsw(gpus=64)"`` is no fact of rows; a ``not`` before it would select all of them."""
    asked = [name for call in _CALL.findall(config.option.markexpr or "") for name, _ in _FACT.findall(call)]
    known = _facts(items) if asked and _has_rows(items) else {}
    for name in asked:
        if known and name not in known:
            return f"-m: the marker gsw has no '{name}'{nearest(name, known)}\nknown: {', '.join(known)}"
    return ""


def unnamed(config: pytest.Config, every: Sequence[pytest.Item], selected: Sequence[pytest.Item]) -> Iterator[str]:
    """A line for each word of ``-k`` that nothing is called; where no row is left, for what of ``-m`` no row has, too.

    Args:
        config: The session's.
        every: All items, before any was left out.
        selected: Those that are left.
    """
    if not _has_rows(every):
        return  # pytest's own affair
    words = _words(config.option.keyword or "")
    for word in _in_nothing(words, every):
        known = bundled_elsewhere(word).items()
        options = (
            f"{name} ({f'--gsw-release={one}' if one else 'without --gsw-release'})" for name, one in sorted(known)
        )
        near = f"; it is bundled for {enumerated(options)}" if known else nearest(word, names_of_rows(every))
        yield f"gsw: -k: nothing is called '{word}'{near}"
    if _has_rows(selected):
        return
    marked = _ANY_CALL.sub("", config.option.markexpr or "")
    marks = {mark.name for item in every for mark in item.iter_markers()} if marked else set()
    for word in _words(marked):
        if word not in marks:
            yield f"gsw: -m: nothing is marked '{word}'{nearest(word, sorted(marks | {'gsw', 'proxy', 'canary'}))}"
    calls = _CALL.findall(_NEGATED.sub("", config.option.markexpr or ""))
    yield from _no_such_facts([fact for call in calls for fact in _FACT.findall(call)], every)


def _has_rows(items: Iterable[pytest.Item]) -> bool:
    return any(isinstance(item, (BaselineItem, BlankItem)) for item in items)


def _words(expression: str) -> list[str]:
    found = _WORD.findall(_NEGATED.sub("", expression))
    return [word for word in dict.fromkeys(found) if word not in _OPERATORS]


def _in_nothing(words: Sequence[str], items: Sequence[pytest.Item]) -> list[str]:
    """The words that are in no name of an item or of what it is in, and in none of their keywords."""
    parents = {id(item.parent): item.parent for item in items if item.parent is not None}
    names = {item.name for item in items} | {node.name for one in parents.values() for node in one.listchain()}
    left = [word for word in words if not _is_in(word, names)]
    if not left:
        return []  # keywords of ten thousand rows are worth a look only where names do not tell
    keywords = {str(keyword) for item in items for keyword in item.keywords}
    return [word for word in left if not _is_in(word, keywords)]


def _is_in(word: str, names: Iterable[str]) -> bool:
    return any(word.lower() in name.lower() for name in names)


def names_of_rows(items: Iterable[pytest.Item]) -> list[str]:
    """What rows are called, whole and in part, as ``-k`` finds them."""
    names: dict[str, None] = {}
    for row in (item.baseline for item in items if isinstance(item, BaselineItem)):
        stated = (row.workload, row.model, row.framework, row.dtype, row.accelerator)
        sizes = (f"{row.accelerator}x{row.gpus}", f"x{row.gpus}", f"x{row.gpus}]")
        names.update(dict.fromkeys((*stated, *sizes, row.id)))
    return list(names)


def _facts(items: Iterable[pytest.Item]) -> dict[str, set[Any]]:
    """By name, what the markers ``gsw`` of all items say: rows', and what a site's own have besides."""
    facts: dict[str, set[Any]] = {}
    for item in items:
        for mark in item.iter_markers("gsw"):
            for name, value in mark.kwargs.items():
                facts.setdefault(name, set()).add(value)
    return facts


def _no_such_facts(asked: Iterable[tuple[str, str]], items: Sequence[pytest.Item]) -> Iterator[str]:
    facts = _facts(items) if asked else {}
    for name, text in asked:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            continue  # pytest says what is wrong with it
        there = facts.get(name, set()) - {None}
        if there and value not in there:
            near = nearest(str(value), sorted(map(str, there))) if isinstance(value, str) else ""
            shown = [repr(one) for one in sorted(there, key=lambda one: (isinstance(one, str), one))]
            yield f"gsw: -m: no row has {name}={text}{near or ';'} rows have {listed_some(shown)}"
