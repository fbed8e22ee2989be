"""What a session keeps for its parts, beside pytest's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from pytest_gsw.session.settings import Settings

if TYPE_CHECKING:
    from pytest_gsw.fleet.fleet import Fleet
    from pytest_gsw.history.texts import ClusterTold
    from pytest_gsw.results.record import Record
    from pytest_gsw.session.alarming import SessionAlarms
    from pytest_gsw.session.nights import Nights
    from pytest_gsw.session.others import Others

SETTINGS = pytest.StashKey[Settings]()
FLEET: pytest.StashKey[Fleet] = pytest.StashKey()
#: What earlier nights measured.
NIGHTS: pytest.StashKey[Nights] = pytest.StashKey()
#: What the rows of the session say together.
OTHERS: pytest.StashKey[Others] = pytest.StashKey()
#: What the nights of the cluster say, at the session's end.
CLUSTER_TOLD: pytest.StashKey[ClusterTold] = pytest.StashKey()
#: Ids of the canary rows that were too slow in this session.
CANARIES = pytest.StashKey[list[str]]()
#: A row's record, once it has been run.
RECORD: pytest.StashKey[Record] = pytest.StashKey()
#: Whether the session fails whatever its rows came to: by a plan with rows that cannot be submitted, or by a worker.
NOT_READY = pytest.StashKey[bool]()
#: Set once all rows have run.
FINISHED = pytest.StashKey[bool]()
#: What is told of the suite's criterion at the end.
CRITERION = pytest.StashKey["tuple[str, ...]"]()
#: The alarms of the session's night.
ALARMS: pytest.StashKey[SessionAlarms] = pytest.StashKey()
#: What is told of the selection, a line each: words that nothing is called, and who runs no row again.
OF_SELECTION = pytest.StashKey["list[str]"]()
_ENVIRON = pytest.StashKey["Mapping[str, str]"]()


def environment_of(config: pytest.Config) -> Mapping[str, str]:
    """The session's environment: read once, when its first job is about to be planned, so that conftests may set it."""
    from pytest_gsw.jobs.environment import session_environment

    if _ENVIRON not in config.stash:
        config.stash[_ENVIRON] = session_environment()
    return config.stash[_ENVIRON]
