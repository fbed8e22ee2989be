"""Which parameter sets of a test are run: of one that is marked ``sampled(N)`` only N, unless ``GSW_TESTS`` says otherwise.

``GSW_TESTS=all`` runs all, as ``tox -m nightly`` does, and ``GSW_TESTS=one-of-each`` one set of every test, for what only
another Python or pytest can change. Which ones follows from their ids: the same in each run, and in each worker of
pytest-xdist. Without ``all``, a set that is marked ``nightly`` is left out, and a test that repeats itself does so less often
(:func:`fewer`).
"""

from __future__ import annotations

import math
import os
import zlib
from collections import defaultdict
from typing import TypeVar

import pytest

VARIABLE = "GSW_TESTS"
_SAMPLES = {"", "one-of-each", "all"}

T = TypeVar("T")


def fewer(each_change: T, all_of_them: T) -> T:
    """What a test does where each change is tested, and what it does where all is."""
    return all_of_them if os.environ.get(VARIABLE) == "all" else each_change


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"sampled(number): run so many parameter sets, all of them where {VARIABLE}=all")
    config.addinivalue_line("markers", f"nightly: run this parameter set only where {VARIABLE}=all")
    if os.environ.get(VARIABLE, "") not in _SAMPLES:
        raise pytest.UsageError(f"{VARIABLE}: got {os.environ[VARIABLE]!r}, wanted one-of-each, all or nothing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the parameter sets beyond each test's number."""
    if os.environ.get(VARIABLE) == "all":
        return
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("nightly"):
            continue
        tests[item.nodeid.partition("[")[0]].append(item)
    chosen = {item for sets in tests.values() for item in _chosen(sets)}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _chosen(sets: list[pytest.Item]) -> list[pytest.Item]:
    """The parameter sets of one test that are run, in any order."""
    return sorted(sets, key=lambda item: zlib.crc32(item.nodeid.encode()))[: min(len(sets), _number(sets[0]))]


def _number(item: pytest.Item) -> int:
    """How many parameter sets of its test are run at most."""
    mark = item.get_closest_marker("sampled")
    if os.environ.get(VARIABLE) == "one-of-each":
        return 1
    return mark.args[0] if mark else math.inf  # type: ignore[no-any-return]
