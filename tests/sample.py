"""Which parameter sets of a test are run: all, unless ``GSW_TESTS`` says otherwise, as tox does where each change is tested.

``GSW_TESTS=sampled`` runs N parameter sets of a test that is marked ``sampled(N)``, and ``GSW_TESTS=one-of-each`` one set of
every test, for what only another Python or pytest can change. Which ones follows from their ids: the same in each run, and
in each worker of pytest-xdist. With either, a set that is marked ``nightly`` is left out, and a test that repeats itself does
so less often (:func:`fewer`). ``tox -m nightly`` runs all.
"""

from __future__ import annotations

import math
import os
import zlib
from collections import defaultdict
from typing import TypeVar

import pytest

VARIABLE = "GSW_TESTS"
_SAMPLES = {"", "sampled", "one-of-each"}

T = TypeVar("T")


def fewer(each_change: T, all_of_them: T) -> T:
    """What a test does where each change is tested, and what it does where all is."""
    return each_change if os.environ.get(VARIABLE) else all_of_them


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"sampled(number): run so many parameter sets where {VARIABLE}=sampled, all of them elsewhere"
    )
    config.addinivalue_line("markers", f"nightly: run this parameter set only where {VARIABLE} is not set")
    if os.environ.get(VARIABLE, "") not in _SAMPLES:
        raise pytest.UsageError(f"{VARIABLE}: got {os.environ[VARIABLE]!r}, wanted sampled, one-of-each or nothing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the parameter sets beyond each test's number."""
    tests = defaultdict(list)
    for item in items:
        if os.environ.get(VARIABLE) and item.get_closest_marker("nightly"):
            continue
        tests[item.nodeid.partition("[")[0]].append(item)
    chosen = {item for sets in tests.values() for item in _chosen(sets)}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that some were left out, and how to run them."""
    if os.environ.get(VARIABLE):
        terminalreporter.write_line(
            f"{VARIABLE}={os.environ[VARIABLE]}: not all parameter sets were run; tox -m nightly runs them"
        )


def _chosen(sets: list[pytest.Item]) -> list[pytest.Item]:
    """The parameter sets of one test that are run, in any order."""
    return sorted(sets, key=lambda item: zlib.crc32(item.nodeid.encode()))[: min(len(sets), _number(sets[0]))]


def _number(item: pytest.Item) -> int:
    """How many parameter sets of its test are run at most."""
    mode, mark = os.environ.get(VARIABLE), item.get_closest_marker("sampled")
    if mode == "one-of-each":
        return 1
    return mark.args[0] if mode == "sampled" and mark else math.inf  # type: ignore[no-any-return]
