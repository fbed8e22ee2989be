"""Under pytest-xdist: all rows go to one worker, so that each is submitted once, and by one session's limits.

The other tests are spread over the workers as ``--dist`` says. The rows' worker submits all of them when
the first is to run; a worker that replaces one that crashed finds their jobs in the journal of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_gsw.errors import ConfigurationError

#: Under which name the workers are told the run's id.
RUN_ID = "gsw_run_id"
_MESSAGES = "gsw_messages"
_CLUSTER = "gsw_cluster"
_FAILED = "gsw_failed"
#: The rows that workers have collected.
_COLLECTED = pytest.StashKey["tuple[str, ...]"]()


def is_worker(config: pytest.Config) -> bool:
    """Whether this session is one of pytest-xdist's workers."""
    return hasattr(config, "workerinput")


def is_first_worker(config: pytest.Config) -> bool:
    """Whether this session is the one of pytest-xdist's workers that tells what all of them find."""
    return getattr(config, "workerinput", {}).get("workerid") == "gw0"


def run_id(config: pytest.Config) -> str | None:
    """The id of the run that this worker is part of, ``None`` in any other session."""
    told: str | None = getattr(config, "workerinput", {}).get(RUN_ID)
    return told


def tell_worker(node: Any, run: str) -> None:
    """Give a worker that is about to start the id of the run."""
    node.workerinput[RUN_ID] = run


def messages(config: pytest.Config) -> list[str]:
    """Lines that this worker sends at its end to the session that has the screen."""
    output: dict[str, list[str]] = config.workeroutput  # type: ignore[attr-defined]
    return output.setdefault(_MESSAGES, [])


def messages_of(node: Any) -> list[str]:
    """The lines that a worker has sent; none where it crashed."""
    lines: list[str] = getattr(node, "workeroutput", {}).get(_MESSAGES, [])
    return lines


def fail(config: pytest.Config) -> None:
    """Let the session that has the screen fail whatever this worker's rows came to."""
    config.workeroutput[_FAILED] = True  # type: ignore[attr-defined]


def has_failed(node: Any) -> bool:
    """Whether a worker has failed whatever its rows came to."""
    return _FAILED in getattr(node, "workeroutput", {})


def hand_over(config: pytest.Config, told: tuple[str, str | None]) -> None:
    """Send what the nights of the cluster say to the session that has the screen."""
    config.workeroutput[_CLUSTER] = told  # type: ignore[attr-defined]


def handed_over(node: Any) -> tuple[str, str | None] | None:
    """What the nights of the cluster say, ``None`` where a worker had too few rows or crashed."""
    told: tuple[str, str | None] | None = getattr(node, "workeroutput", {}).get(_CLUSTER)
    return told


def note_rows(config: pytest.Config, node_ids: Iterable[str]) -> None:
    """Remember the rows among the tests that a worker has collected."""
    config.stash[_COLLECTED] = tuple(node_id for node_id in node_ids if is_row(node_id))


def rows_of(config: pytest.Config) -> tuple[str, ...]:
    """The node ids of the rows that workers are to judge; none in any other session."""
    return config.stash.get(_COLLECTED, ())


def is_row(node_id: str) -> bool:
    """Whether a node id is a row's."""
    return node_id.partition("::")[0].endswith((".yaml", ".yml"))


def check_distribution(config: pytest.Config) -> None:
    """Make sure that no row would be run by every worker.

    Raises:
        ConfigurationError: ``--dist=each`` was given.
    """
    if config.getoption("dist", "no") == "each":
        raise ConfigurationError("--dist=each would submit every row once for each worker; leave it out")
