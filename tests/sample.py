"""Which parameter sets of a test are run: all, unless ``GSW_TESTS`` says otherwise, as tox does where each change is tested.

``GSW_TESTS=sampled`` runs N parameter sets of a test that is marked ``sampled(N)``, and ``GSW_TESTS=one-of-each`` one set of
every test, for what only another Python or pytest can change. Which ones follows from their ids: the same in each run, and
in each worker of pytest-xdist. ``tox -m nightly`` runs all.
"""

from __future__ import annotations

import math
import os
import zlib
from collections import defaultdict

import pytest

VARIABLE = "GSW_TESTS"
_SAMPLES = {"", "sampled", "one-of-each"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"sampled(number): run so many parameter sets where {VARIABLE}=sampled, all of them elsewhere"
    )
    if os.environ.get(VARIABLE, "") not in _SAMPLES:
        raise pytest.UsageError(f"{VARIABLE}: got {os.environ[VARIABLE]!r}, wanted sampled, one-of-each or nothing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the parameter sets beyond each test's number."""
    tests = defaultdict(list)
    for item in items:
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
