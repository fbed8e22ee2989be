"""Names of rows in JUnit, and the properties of a suite: the same in each file of a run.

A session notes next to its records what these lack: the rows that may never have a record, with their names and
facts, and the versions that ran the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pytest_gsw.common.files import PRIVATE, write_whole
from pytest_gsw.common.typed_json import read
from pytest_gsw.results.record import NO_CLUSTER, Record, RowFacts
from pytest_gsw.tables.model import Baseline

#: The test case of an incident.
INCIDENT = "incident"
_OF_CLUSTER = "cluster"
_UNKNOWN = "unknown"
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

    def class_of(self, node_id: str) -> str:
        """The class name of a row without a record; by the path of its table if it was not noted."""
        table = PurePosixPath(node_id.partition("::")[0])
        facts = {"framework": table.parent.name, "workload": table.stem, **self.rows.get(node_id, {})}
        return class_name(self.cluster or NO_CLUSTER, facts["framework"], facts["workload"])


def facts_of(row: Baseline | RowFacts) -> dict[str, str]:
    """The facts of a row by name: all of :data:`FACTS`."""
    return {name: str(getattr(row, name)) for name in FACTS}


def class_name(cluster: str, framework: str, workload: str) -> str:
    """The class name of a row's test case, ``eos.nemo.llama3_1_405b``: Jenkins parts it at its dots."""
    return ".".join([(part or _UNKNOWN).replace(".", "_") for part in (cluster, framework, workload)])


def class_of(record: Record) -> str:
    """The class name of a row that has a record."""
    return class_name(record.run.cluster, record.row.framework, record.row.workload)


def class_of_incident(cluster: str) -> str:
    """The class name of the test case of a cluster's incident, ``eos.cluster``."""
    return f"{cluster.replace('.', '_')}.{_OF_CLUSTER}"


def suite_properties(noted: RunManifest, run_id: str, records: Iterable[Record]) -> list[tuple[str, str]]:
    """The properties of a run's suite: its cluster, its id, the release of its recipes, and software versions."""
    rows = list(records)
    slurm = next((version for one in rows if (version := one.run.environment.get("slurm"))), "")
    versions = {**noted.versions, "slurm": slurm}
    found = {
        "gsw_cluster": noted.cluster or next((one.run.cluster for one in rows), ""),
        "gsw_run": run_id,
        "gsw_release": noted.release,
        **{f"gsw_version_{name.replace('-', '_')}": version for name, version in versions.items()},
    }
    return [(name, value) for name, value in found.items() if value]


def write_noted(directory: Path, noted: RunManifest) -> None:
    """Write the notes to a run's directory; those of an earlier session on other rows stay.

    Raises:
        OSError: Nothing can be written there.
    """
    before = read_noted(directory)
    of_rows = {name: {**getattr(before, name), **getattr(noted, name)} for name in ("errors", "rows")}
    write_whole(directory / _NAME, f"{json.dumps({**vars(noted), **of_rows})}\n", PRIVATE)


def read_noted(directory: Path) -> RunManifest:
    """The notes of a run's sessions; empty if there are none that can be read."""
    try:
        return read(RunManifest, json.loads((directory / _NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return RunManifest()
