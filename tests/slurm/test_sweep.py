"""A row on every node of a real Slurm: nodes that are lost, sessions that are killed, and the search for what is slow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.history.store import TOPOLOGY
from pytest_gsw.tables.model import TILE
from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start
from .sessions import Misfortune, Session, Site, sweep

ROW = "tiny_1b_bf16[H100x8]"
#: The run's sweep cannot be written once its tiles have ended.
NO_SWEEP_FILE = """
from pytest_gsw.session import search

def write_sweep(directory, sweep):
    raise OSError("no space left")

search.write_sweep = write_sweep
"""
ROW_OF_2 = "tiny_1b_bf16[H100x16]"
ONE_NODE = ("-k", "H100x8", "--gsw-tile=node")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """16 nodes below four switches."""
    yield from start(16, switches=4)


@pytest.fixture
def site(tmp_path: Path, cluster: SlurmCluster) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    cluster.cancel_all()
    cluster.resume_all()


def with_options(project: Misfortune, *options: str, first: str = "") -> Misfortune:
    """The project, with options of pytest, whose jobs run these lines first."""
    script = project.files["recipes/tiny/launch.sh"].replace("\nexport", f"\n{first}\nexport", 1)
    return replace(project, options=options, files={**project.files, "recipes/tiny/launch.sh": script})


def wait_for(cluster: SlurmCluster, session: Session, text: str) -> None:
    cluster.wait_until(lambda: text in session.output or session.process.poll() is not None, text, 60)


def wait_for_job(cluster: SlurmCluster, session: Session, node: str) -> None:
    """Wait until a job on a node has begun, of which the session has nothing to tell before all have ended."""
    begun = session.directory / "draws" / f"{node}.1"
    cluster.wait_until(lambda: begun.exists() or session.process.poll() is not None, f"a job on {node}", 60)


class Screens(NamedTuple):
    """The nodes that a sweep of single nodes names, by screen; its tiles that are not decided, and its exit status."""

    named: Mapping[str, set[str]]
    open_tiles: set[str]
    status: int

    @property
    def is_green(self) -> bool:
        return self.status == 0


def screens(site: Site, cluster: SlurmCluster, directory: Path, project: Misfortune) -> Screens:
    """What each screen names after a sweep of single nodes."""
    session = site.run(cluster, with_options(project, *ONE_NODE, "--gsw-find", "--gsw-report=report"), directory)
    rows = session.rows()

    def gsw(*arguments: str) -> str:
        command = [sys.executable, "-m", "pytest_gsw.cli", *arguments]
        environ = cluster.environ | {"NO_COLOR": "1", "COLUMNS": "200"}
        return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False).stdout

    report = directory / "report"
    page = re.sub(
        "<[^>]+>", " ", (report / "index.html").read_text().partition('id="slow-tiles"')[2].partition("</ul>")[0]
    )
    named = {
        "junit": {name for name, text in rows.items() if "::" not in text and TILE not in name},
        "tiles": {
            name.partition(TILE)[2] for name, text in rows.items() if text.startswith(("slow ", "intermittent "))
        },
        "screen": {*re.findall(r"^node (n\d+) +(?:SLOW|INTERMITTENT)", session.output, re.MULTILINE)},
        "nodes": {one["nodes"][0] for of in json.loads(gsw("nodes", "--json")) for one in of["slow"]},
        "alarms": {one["subject"] for one in json.loads(gsw("alarms", "--json"))},
        "overview": {*re.findall(r"^slow node +node (n\d+):", gsw(), re.MULTILINE)},
        "page": {*re.findall(r"\b(n\d{3}) *: *(?:slow|intermittent)", page)},
        "summary.md": {*re.findall(r"^\| `node (n\d+)`", (report / "summary.md").read_text(), re.MULTILINE)},
        "openmetrics": {
            *re.findall(r'gsw_sweep_node_slow_change_ratio{.*node="(n\d+)"', (report / "gsw.prom").read_text())
        },
    }
    undecided = {name for name, text in rows.items() if "inconclusive: not decided" in text}
    return Screens(named, undecided, session.process.returncode)


def job_names(cluster: SlurmCluster, run_id: str) -> list[str]:
    """The names of all jobs of a run, without those of Slurm's steps."""
    names = cluster.run("sacct", "-X", "-n", "-P", "-o", "JobName").split()
    return sorted(name for name in names if run_id in name)


def test_a_killed_sweep_and_its_search_go_on_without_a_job_twice(
    site: Site, cluster: SlurmCluster, tmp_path: Path
) -> None:
    project = replace(sweep("n007 1.111\nn014 1.075", sigma=0.005), defaults={"max_jobs": 6})
    directory = tmp_path / "sweep"
    options = [*ONE_NODE, "--gsw-find"]
    for text in ("", "round 2"):
        session = site.run(cluster, with_options(project, *options), directory)
        wait_for(cluster, session, text) if text else wait_for_job(cluster, session, "n003")
        session.process.kill()
        session.process.wait()
        assert f"{ROW}@" not in session.output
        (run_id,) = re.findall(r"run ([0-9]{8}-[0-9a-f-]+),", session.output)[:1]
        options = [f"--gsw-resume={run_id}"]
    session = site.run(cluster, with_options(project, *options), directory)
    rows = session.rows()
    assert sorted(rows) == ["n007", "n014", *(f"{ROW}@{node}" for node in cluster.node_names)]
    wrong = {row: text for row, text in rows.items() if text != "passed"}
    assert sorted(wrong) == ["n007", "n014", f"{ROW}@n007", f"{ROW}@n014"]
    assert all(text.startswith((f"slow {row[-4:]}: -", f"node {row}: slow -")) for row, text in wrong.items())
    assert session.process.returncode == 1
    lines = session.output.splitlines()
    slow = dict(re.findall(r"^slow +(\S+)  (-[0-9.]+) % \(", session.output, re.MULTILINE))
    assert {node: float(change) for node, change in slow.items()} == {
        "n007": pytest.approx(-10, abs=1),
        "n014": pytest.approx(-7, abs=1),
    }
    assert "cleared        14 nodes of a loss of 5 % or more" in lines
    assert [line.partition(" reason=")[0] for line in lines if line.startswith("next: s")] == [
        "next: " + wording("drain", nodes="n007"),
        "next: " + wording("drain", nodes="n014"),
        "next: sbatch --exclude='n[007,014]' ...",
    ]
    names = job_names(cluster, run_id)
    assert len(names) == len(set(names))
    with open_history(directory / ".gsw" / "history.sqlite") as history:
        (switches,) = history.events(kind=TOPOLOGY)  # three sessions of one week
    assert switches.body == {f"switch s{first // 4 + 1}": f"n[{first:03}-{first + 3:03}]" for first in range(1, 17, 4)}
    searched = [name for name in names if "-find" in name]
    assert len(names) == 16 + len(searched)
    times = Counter(name[-4:] for name in searched)
    controls = times.keys() - {"n007", "n014"}
    # Both run in each round until they are named, beside a control that no other round has.
    assert {times[node] for node in controls} == {1}
    assert len(controls) == max(times["n007"], times["n014"]) >= 3
    # A replay has the search's answers without a job of its own, whatever the ini file says of new sweeps.
    replay = (f"--gsw-replay=.gsw/runs/{run_id}", "-ogsw_tile=node", "-ogsw_find=5")
    session = site.run(cluster, with_options(project, *replay), directory)
    assert session.rows() == rows
    told = [line for line in lines if line.startswith(("slow", "cleared"))]
    assert [line for line in session.output.splitlines() if line.startswith(("slow", "cleared"))] == told
    assert job_names(cluster, run_id) == names


def test_nodes_that_are_lost_before_a_sweep_in_it_and_in_its_search(site: Site, cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "nodename=n001", "state=drain", "reason=NHC: ib0 | down")
    hold = ("sbatch", "--exclusive", "--output=/dev/null")
    cluster.run(*hold, "--nodelist=n002", "--wrap=sleep 100")
    project = with_options(
        sweep("n004 1.25"),
        *("-k", "H100x8", "--gsw-tile=node:n[001-010]", "--gsw-find", "--gsw-retries=1"),
        first="if [[ $SLURM_JOB_NAME == *-find1-* ]]; then scontrol update nodename=n004 state=drain reason=fan; exit 4; fi",
    )
    session = site.run(cluster, project)
    wait_for_job(cluster, session, "n010")
    cluster.run("scontrol", "update", "nodename=n002", "state=drain", "reason=fan 2")
    rows = session.rows()
    assert rows == {
        f"{ROW}@n002": "not covered: n002 (draining: fan 2)",
        f"{ROW}@n004": rows[f"{ROW}@n004"],
        "n001": "nodes::n001:None: node n001: not covered: drained: NHC: ib0 | down",
        "n002": "nodes::n002:None: node n002: not covered: n002 (draining: fan 2)",
        **dict.fromkeys([f"{ROW}@n{number:03}" for number in (3, 5, 6, 7, 8, 9, 10)], "passed"),
    }
    assert " inconclusive: not decided n004: -20" in rows[f"{ROW}@n004"]
    assert session.process.returncode == 1
    lines = session.output.splitlines()
    assert "gsw: 9 tiles of 1 node: 9 of 16 nodes of the partition batch" in lines
    assert "gsw: not covered: n001 (drained: NHC: ib0 | down)" in lines
    assert "not covered    n001  drained: NHC: ib0 | down" in lines
    assert "not covered    n002  n002 (draining: fan 2)" in lines
    assert sum(line.startswith("not measured   n004  round 1: job") for line in lines) == 1
    assert sum(line.startswith("not decided    n004  -20") for line in lines) == 1
    # A row of a session is not left to any nodes because its own take no job.
    session = site.run(cluster, with_options(sweep(), "-k", "H100x8", "--gsw-tile=node:n[001-002]"))
    assert session.rows() == {}
    assert session.process.returncode == 5
    assert f"gsw: 1 row left out, no tile takes jobs: {ROW}" in session.output.splitlines()


def test_rows_of_several_sizes_wait_for_each_others_nodes(site: Site, cluster: SlurmCluster) -> None:
    project = with_options(sweep("n016 1.25"), "--gsw-tile=switch")
    session = site.run(cluster, replace(project, conftest=NO_SWEEP_FILE))
    rows = session.rows()
    assert len(rows) == 16 + 8 + 4, session.output
    assert {row.partition("@")[2] for row, text in rows.items() if text != "passed"} == {
        "n016",
        "n[015-016]",
        "n[013-016]",
    }
    assert session.process.returncode == 1
    assert wording("missing sweep") in session.output
    assert "16 tiles of" in session.output
    assert wording("page counts", counts="4 tiles", rows="tiny_1b_bf16[H100x32]", cluster="eos") in session.output


def test_a_slow_switch_is_named_and_none_of_its_nodes(site: Site, cluster: SlurmCluster) -> None:
    project = replace(sweep("switch n[009-012] 1.1", sigma=0.005), defaults={"max_jobs": 6})
    project = with_options(project, "-k", "H100x16", "--gsw-tile=2", "--gsw-find")
    session = site.run(cluster, project)
    session.process.wait()
    answers = re.findall(r"^(slow|between|intermittent|not decided|once) {2,}(.+)$", session.output, re.MULTILINE)
    ((kind, text),) = answers
    assert (kind, text.partition(" ")[0], "switch s3" in text) == ("between", "n[009-012]", True)
    assert "cleared        12 nodes of a loss of 5 % or more" in session.output.splitlines()
    wrong = {row: text for row, text in session.rows().items() if text != "passed"}
    assert sorted(wrong) == ["s3", f"{ROW_OF_2}@n[009-010]", f"{ROW_OF_2}@n[011-012]"]
    assert wrong["s3"].startswith("switch s3: between -")
    assert session.process.returncode == 1


#: Slow nodes with the noise of a job: of tenths of a per cent, a slow node is always found.
PLANTED = {"n003 1.042": 0.006, "n005 1.111\nn012 1.075": 0.01, "": 0.03, "n009 1.111\nn010 1.111": 0.03}


@pytest.mark.parametrize(("slow", "sigma"), PLANTED.items())
def test_all_screens_name_the_same_nodes(
    site: Site, cluster: SlurmCluster, tmp_path: Path, slow: str, sigma: float
) -> None:
    seen = screens(site, cluster, tmp_path / "sweep", sweep(slow, sigma=sigma, seed=len(slow)))
    assert len({*map(frozenset, seen.named.values())}) == 1, seen
    assert seen.is_green == (not seen.named["junit"] and not seen.open_tiles)
    if sigma == 0.006:
        assert seen.named["junit"] == {"n003"}
        assert seen.status == 1
