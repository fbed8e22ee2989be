"""The manifest of a run: its rows as JUnit names them, and those that were never judged."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from pytest_gsw.common import files, typed_json
from pytest_gsw.common.text import command
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import COPY, RunState, read_journal, run_state_of
from pytest_gsw.jobs.run_lock import RunLock
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.results.runs_directory import RUNS
from pytest_gsw.tables.model import Baseline

# -- Names of rows in JUnit, and the properties of a suite: the same in each file of a run ---------
#
# A session notes next to its records what these lack: the rows that may never have a record, with their names and
# facts, and the versions that ran the session.


#: The file in a run's directory.
_NAME = "junit.json"
#: The facts of a row without a record, as metrics name them.
FACTS = ("workload", "framework", "dtype", "accelerator", "gpus")


@dataclass(frozen=True)
class RunManifest:
    """A session's notes on its rows."""

    cluster: str = ""
    #: The release of the recipes; empty for the rows of the documents, and of other tables.
    release: str = ""
    #: Versions of the software that ran the session, by name.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: By node id, why rows cannot run that never have a record: a cell of theirs is blank.
    errors: Mapping[str, str] = field(default_factory=dict)
    #: The run that was replayed, or the place of logs that were; empty if the session ran jobs of its own.
    replay_of: str = ""
    #: By node id, the facts of each row: all of :data:`FACTS`, or workload and framework of one that cannot run.
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: By node id, why rows were skipped while their session ran.
    left_out: Mapping[str, str] = field(default_factory=dict)

    def class_of(self, node_id: str) -> str:
        """The class name of a row without a record; by the path of its table if it was not noted."""
        table = PurePosixPath(node_id.partition("::")[0])
        facts = {"framework": table.parent.name, "workload": table.stem, **self.rows.get(node_id, {})}
        return class_name(self.cluster or NO_CLUSTER, facts["framework"], facts["workload"])


def facts_of(row: Baseline) -> dict[str, str]:
    """The facts of a row by name: all of :data:`FACTS`."""
    workload = row.workload
    facts = (workload.name, workload.framework, workload.dtype, row.accelerator, str(row.gpus))
    return dict(zip(FACTS, facts, strict=True))


def class_name(cluster: str, framework: str, workload: str) -> str:
    """The class name of a row's test case, ``eos.nemo.llama3_1_405b``: Jenkins parts it at its dots."""
    return ".".join([(part or "unknown").replace(".", "_") for part in (cluster, framework, workload)])


def class_of(record: Record) -> str:
    """The class name of a row that has a record."""
    return class_name(record.run.cluster, record.row.framework, record.row.workload)


#: The prefixes of node ids that are of no row: of a whole cluster, and of its nodes.
OF_CLUSTER, OF_NODES = "cluster::", "nodes::"


@dataclass(frozen=True)
class CaseBesideRows:
    """A test case that is of no row: the incident of a cluster, or nodes by their tiles."""

    node_id: str
    cluster: str
    #: Its name in JUnit.
    name: str
    #: Its subject and word on the screen: ``node n017``, ``SLOW``.
    subject: str
    word: str
    #: The outcome in pytest, and the exit status of a session with it.
    outcome: Literal["passed", "failed", "skipped"]
    status: int
    #: The fact in one line, and the name of the property that has it.
    fact: str
    property_name: str
    #: The whole text; the fact by default.
    text: str = ""

    @property
    def class_name(self) -> str:
        """The class name in JUnit: ``eos.cluster``, ``eos.nodes``."""
        return f"{self.cluster.replace('.', '_')}.{self.node_id.partition('::')[0]}"


def suite_properties(noted: RunManifest, run_id: str, records: Iterable[Record]) -> list[tuple[str, str]]:
    """The properties of a run's suite: its cluster, its id, the release of its recipes, and software versions."""
    rows = list(records)
    slurm = next((version for record in rows if (version := record.run.environment.get("slurm"))), "")
    versions = {**noted.versions, "slurm": slurm}
    properties = {
        "gsw_cluster": noted.cluster or next((record.run.cluster for record in rows), ""),
        "gsw_run": run_id,
        "gsw_release": noted.release,
        **{f"gsw_version_{name.replace('-', '_')}": version for name, version in versions.items()},
    }
    return [(name, value) for name, value in properties.items() if value]


def write_noted(directory: Path, noted: RunManifest) -> None:
    """Write the notes to a run's directory; those of an earlier session on other rows stay.

    Raises:
        OSError: Nothing can be written there.
    """
    before = read_noted(directory)
    of_all = replace(
        noted,
        errors={**before.errors, **noted.errors},
        rows={**before.rows, **noted.rows},
        left_out={**before.left_out, **noted.left_out},
    )
    files.write_whole(directory / _NAME, f"{json.dumps(typed_json.facts(RunManifest, of_all))}\n", files.PRIVATE)


def read_noted(directory: Path) -> RunManifest:
    """The notes of a run's sessions; empty if there are none that can be read."""
    return typed_json.read_file(RunManifest, directory / _NAME) or RunManifest()


# -- Rows of a run that were never judged: those of its journal without a record -------------------


#: Why a row has no record while its session runs, in formats that have no open rows.
WAITS = "this row is not judged yet: its session goes on"


def is_owned(directory: Path) -> bool:
    """True if a session still owns a run; false if that is unknown."""
    try:
        return not RunLock(directory).is_free()
    except OSError:
        return False


def resume_command(directory: Path) -> str:
    """The command that resumes a run whose session ended before all its rows were judged."""
    return command("pytest", f"--gsw-resume={directory.name}")


def left_text(directory: Path) -> str:
    """The reason for a missing record after the end of its session."""
    return f"the session ended before this row was judged; {resume_command(directory)} goes on with it"


def never_judged(directory: Path, judged: Container[str]) -> dict[str, str]:
    """Rows of a run's journal without a record, by node id, with the reason.

    Args:
        directory: The run's.
        judged: The node ids of its records.
    """
    try:
        past = read_journal(directory)
    except ConfigurationError:
        return {}  # a replay keeps no journal: it submits nothing
    why, noted = left_text(directory), read_noted(directory)
    left = (node_id for node_id in past.rows if node_id not in judged and node_id not in noted.left_out)
    return {node_id: noted.errors.get(node_id, why) for node_id in left}


def begun(directory: Path) -> RunState | None:
    """A run as its first session planned it; ``None`` if unknown."""
    path = directory / COPY
    try:
        return run_state_of(b"", path.read_bytes() if path.is_file() else b"", directory)
    except (ConfigurationError, OSError):
        return None


def newest_begun(runs: Path, last: int) -> tuple[RunState, ...]:
    """The last runs in a directory of runs as planned, the oldest first; none of a directory of another name.

    A run may have been copied to a directory with other contents.
    """
    if runs.name != RUNS.name:
        return ()
    newest = sorted((path.parent for path in runs.glob(f"*/{COPY}")), key=lambda path: path.name)[-last:]
    return tuple(run for directory in newest if (run := begun(directory)) is not None)


def newest_run(runs: Path, *holding: str) -> Path | None:
    """The newest run in a directory of runs with a non-empty file of one of these names; ``None`` if there is none.

    A replay is no run of a cluster and counts only if all are replays. A run without permission to read counts: the
    caller reports it and does not take an older one. A session that fails at its start leaves a directory with an
    empty file, which does not count.
    """
    newest_replay = None
    for run in sorted(runs.glob("*"), key=lambda path: path.name, reverse=True):
        if any(_is_filled(run, name) for name in holding):
            if not read_noted(run).replay_of:
                return run
            newest_replay = newest_replay or run
    return newest_replay


def _is_filled(run: Path, name: str) -> bool:
    if not os.access(run, os.R_OK | os.X_OK):
        return True
    return any(path.is_file() and path.stat().st_size for path in run.glob(name))
