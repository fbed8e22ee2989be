"""The state of a session of rows: one value, made once, which the session's modules fill as it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gsw.common.text import command
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.session.settings import Settings, read_settings

if TYPE_CHECKING:
    from pytest_gsw.executor.executor import Executor
    from pytest_gsw.history.comparison import ClusterText
    from pytest_gsw.jobs.journal import RunState
    from pytest_gsw.jobs.run_lock import RunLock
    from pytest_gsw.results.record import Record
    from pytest_gsw.results.suites import SuiteRows
    from pytest_gsw.results.sweep import Sweep
    from pytest_gsw.session.live_file import LiveFile
    from pytest_gsw.session.node_probes import NodeProbes
    from pytest_gsw.session.outcome_counts import OutcomeCounts
    from pytest_gsw.session.row import SessionRow
    from pytest_gsw.session.session_alarms import SessionAlarms
    from pytest_gsw.session.session_history import ClusterPeers, SessionHistory
    from pytest_gsw.session.stages import Stages
    from pytest_gsw.session.tiles import Tiling


@dataclass(eq=False)
class Session:
    """One session of rows."""

    settings: Settings
    #: The suite that selects the rows, and its criterion for the session; ``None`` without one.
    suite: SuiteRows | None = None

    # -- its collection
    #: Tables that are collected without a walk through the file system, by node id; ``None`` if pytest walks.
    tables: Mapping[str, Path] | None = None
    #: Selected rows by table; a missing table means all of its rows.
    selected: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    tiling: Tiling | None = None
    #: The stages of an acceptance; ``None`` without one.
    stages: Stages | None = None
    #: Lines on the selection: words that match no row, and that rows are not rerun.
    notes: list[str] = field(default_factory=list)
    #: The line on jobs of a resumed run that are left alone on purpose; empty if there are none.
    left_alone: str = ""

    # -- its run; ``None`` before it begins
    lock: RunLock | None = None
    #: The rows by their ids, those of the search among tiles, too.
    rows: dict[str, SessionRow] = field(default_factory=dict)
    executor: Executor | None = None
    #: Results of earlier runs.
    history: SessionHistory | None = None
    #: The effect of the cluster on the session's rows.
    peers: ClusterPeers | None = None
    #: The probes of running jobs' nodes, if the cluster has any.
    probes: NodeProbes | None = None
    sweep: Sweep | None = None
    #: The live file, once a row has begun.
    live: LiveFile | None = None
    #: True once the table of open rows is asked for.
    is_table_wanted: bool = False

    # -- its end
    #: The outcomes of the rows; a session that only collects has none.
    counts: OutcomeCounts = field(init=False)
    #: True if the session fails whatever its rows' outcomes: a plan has rows that cannot be submitted.
    is_unready: bool = False
    #: Lines on the criteria of a suite, or of a plan of acceptance.
    criterion: tuple[str, ...] = ()
    #: The cluster's state by its runs.
    cluster_text: ClusterText | None = None
    alarms: SessionAlarms | None = None

    @cached_property
    def environ(self) -> Mapping[str, str]:
        """The environment of jobs; read once, when the first job is planned, after conftests could change it.

        It is that of the login node, if the cluster has one, and else this process's.

        Raises:
            pytest.UsageError: There is no connection to the login node.
        """
        from pytest_gsw.jobs.spec import environment_of

        try:
            return environment_of(self.settings.cluster)
        except ConfigurationError as error:
            raise pytest.UsageError(str(error)) from None

    @cached_property
    def recorded(self) -> dict[str, Record] | None:
        """The records in a replayed run's directory, by row, read once; ``None`` if it is no such directory."""
        if self.settings.replay is None:
            return None
        place = self.settings.replay.place
        from pytest_gsw.results.record import read_records

        try:
            if not (place / "records").is_dir():
                return None
            records = read_records(place)
        except ValueError as error:
            raise pytest.UsageError(f"--gsw-replay: {error}") from None
        except OSError as error:
            raise pytest.UsageError(f"--gsw-replay: {error.filename}: {error.strerror}") from None
        _check_cluster(self.settings, records)
        return {record.row.id: record for record in records}

    @cached_property
    def run_before(self) -> RunState | None:
        """The run that is replayed or resumed; for a replayed one with its rows only, judged or not."""
        settings = self.settings
        if self.recorded is None or settings.replay is None:
            return settings.past
        from pytest_gsw.jobs.journal import RunState
        from pytest_gsw.results.manifest import read_noted

        node_ids = [*read_noted(settings.replay.place).rows, *(record.row.node_id for record in self.recorded.values())]
        return RunState("", tuple(dict.fromkeys(node_ids)))

    def run_records(self) -> tuple[Record, ...]:
        """The records of the session's run, with those of sessions before it; each file is read once."""
        from pytest_gsw.results.junit import read_run

        return read_run(self.settings.run_directory, self.counts.records)[0]


SESSION = pytest.StashKey[Session]()


def settings_of(config: pytest.Config) -> Settings:
    """The settings of a session; those that it would have if it has no rows.

    Raises:
        ConfigurationError: Options, ini file or cluster file are invalid.
    """
    return config.stash[SESSION].settings if SESSION in config.stash else read_settings(config)


def _check_cluster(settings: Settings, records: Iterable[Record]) -> None:
    """Check that a replayed run is not judged by the figures of another cluster."""
    if settings.cluster is None:
        return
    from pytest_gsw.results.record import NO_CLUSTER

    name = settings.cluster.name
    # A replay without a cluster does not record the origin of its logs.
    other = next((record for record in records if record.run.cluster not in {name, NO_CLUSTER}), None)
    if other is not None:
        raise pytest.UsageError(
            f"--gsw-replay: the run {other.run.id} was of the cluster '{other.run.cluster}', not '{name}'\n"
            f"next: give {command(*other.run.cluster_options)}, or leave it out to judge by the document"
        )
