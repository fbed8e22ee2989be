"""Settings and states of sessions, for tests of their parts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.clusters import Cluster
from pytest_gsw.executor.limits import Limits, Policies
from pytest_gsw.session.outcome_counts import OutcomeCounts
from pytest_gsw.session.settings import JobOptions, Judging, Output, Replay, Settings
from pytest_gsw.session.state import Session
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.tables.bundled import bundled_baselines

#: Any cluster of Slurm's.
EOS = Cluster("eos", "slurm", accelerator="H100", gpus=512, gpus_per_node=8)

SETTINGS = Settings(
    run_id="tonight",
    cluster=None,
    baselines=(bundled_baselines(),),
    release=None,
    are_tables_named=False,
    suite=None,
    acceptance=None,
    shared={},
    changed_since=(),
    judging=Judging(tolerance=None, max_gain=None, repeats=Repeats(), strict=False),
    jobs=JobOptions(
        time_limit_s=None,
        poll_interval_s=None,
        limits=Limits(jobs=math.inf, gpus=math.inf, pending=math.inf, queue_s=86400.0),
        retries=0,
        policies=Policies(),
        detach=False,
    ),
    output=Output(results=Path("/nowhere"), history=None, report=None),
    replay=None,
    plan=False,
    tile=None,
    find_gpu_hours=None,
    past=None,
    profile=None,
    faults=(),
)


def replay_of(place: str | Path, *, takes_newest: bool = False) -> Replay:
    """Logs in place of jobs."""
    return Replay(Path(place), takes_newest)


def state_of(settings: Settings = SETTINGS, **changed: Any) -> Session:
    """A session with these settings, of which some are changed."""
    state = Session(replace(settings, **changed))
    state.counts = OutcomeCounts(profiled_on_purpose=False)
    return state
