"""The nodes of a partition and the tiles on them, as a real Slurm has them."""

from __future__ import annotations

import contextlib
import math
import re
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster, Submission
from pytest_gsw.common.node_lists import expand
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.client import Client, parse_version
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.slurm.nodes import ClusterNodes, ask_nodes, tiles
from tests.messages import wording
from tests.requirements import require

from .cluster import PATH, ClusterError, SlurmCluster, missing_requirements
from .conftest import start
from .sessions import Site, sweep, sweep_project

#: A job that has nodes for itself, and leaves no file.
TRUE = ("--exclusive", "--output=/dev/null", "--wrap=true")

#: Seconds of a step of the row of so many nodes, as documented.
DOCUMENTED_S = {1: 4.0, 2: 2.05, 4: 1.1}


@pytest.fixture(scope="module")
def switched() -> Iterator[SlurmCluster]:
    """32 nodes below eight switches, five of which take no jobs or other users' alone."""
    for cluster in start(32, switches=4, accounting=False, preemption=True):
        cluster.run("scontrol", "update", "nodename=n002", "state=drain", "reason=NHC: ib0 | down")
        cluster.run("scontrol", "update", "nodename=n007", "state=down", "reason=fan\nn007|idle|batch*|\x1b[31m|none")
        cluster.run(
            *("scontrol", "create", "reservation", "reservationname=maintenance", "starttime=now", "duration=60"),
            *("users=root", "nodes=n[010-012]"),
        )
        cluster.run("scontrol", "update", "partitionname=low", "hidden=yes", "nodes=n[001-004]")
        yield cluster


@pytest.fixture
def blocks() -> Iterator[SlurmCluster]:
    """16 nodes in four blocks, one of them drained."""
    require("GSW_REQUIRE_SLURM", missing_requirements())
    version = subprocess.run(["slurmctld", "-V"], env={"PATH": PATH}, capture_output=True, text=True, check=True).stdout
    if parse_version(version) < "23.11":
        pytest.skip(f"topology/block is of Slurm 23.11, and this is {version.strip()}")
    for cluster in start(16, blocks=4, accounting=False):
        cluster.run("scontrol", "update", "nodename=n002", "state=drain", "reason=x")
        yield cluster


def ask(cluster: SlurmCluster, partition: str | None = None, *sbatch: str) -> ClusterNodes:
    ask = Client(cluster.environ | {"SINFO_PARTITION": "high", "SINFO_FORMAT": "%n"}).ask
    return ask_nodes(
        ask, Cluster("eos", "slurm", submission=Submission(partition=partition, sbatch=sbatch)), cluster.environ
    )


def switches(cluster: SlurmCluster) -> Mapping[str, str]:
    """What a session keeps of them."""
    spec = JobSpec("row", "row", Path("launch.sh"), Path(), Path(), nodes=1, gpus=8, environment={})
    return SlurmLauncher(cluster.environ).switches(spec) or {}


def test_nodes_and_switches(switched: SlurmCluster) -> None:
    there = ask(switched)
    assert there.partition == "batch"
    assert there.unusable == {
        "n002": "drained: NHC: ib0 | down",
        "n007": "down: fan",
        **dict.fromkeys(("n010", "n011", "n012"), "reserved: maintenance"),
    }
    assert there.usable == tuple(node for node in switched.node_names if node not in there.unusable)
    assert list(there.switches) == [f"s{number}" for number in range(1, 9)]
    assert there.switches["s2"] == ("n005", "n006", "n007", "n008")
    assert not there.is_block
    assert [*switches(switched).items()][:2] == [("switch s1", "n[001-004]"), ("switch s2", "n[005-008]")]
    assert len(switches(switched)) == 8


def test_nodes_for_jobs_of_another_partition_or_reservation(switched: SlurmCluster) -> None:
    hidden = ask(switched, "low")
    assert hidden.usable == ("n001", "n003", "n004")
    assert hidden.switches == {"s1": ("n001", "n002", "n003", "n004")}
    assert ask(switched, None, "--reservation=maintenance").usable == ("n010", "n011", "n012")
    with pytest.raises(ConfigurationError, match=wording("no partition", name="'bach'", nearest="'batch'")):
        ask(switched, "bach")


def test_slurm_runs_jobs_on_the_tiles(switched: SlurmCluster) -> None:
    names, not_covered = tiles("4", 4, ask(switched))
    assert names == ("n[001,003-005]", *(f"n[{first:03}-{first + 3:03}]" for first in range(13, 33, 4)))
    assert not_covered["n009"] == wording("nodes left", nodes="3 nodes", size=4)
    jobs = [switched.run("sbatch", "--parsable", *TRUE, "-N4", f"--nodelist={tile}").strip() for tile in names]
    ended = "squeue", "-h", "-t", "completed", "-S", "i", "-o", "%N"
    switched.wait_until(lambda: len(switched.run(*ended).split()) == len(jobs), "the jobs have ended", 60)
    assert tuple(switched.run(*ended).split()) == names


def test_a_slurm_without_switches_that_stops() -> None:
    for cluster in start(2, accounting=False):
        there = ask(cluster)
        assert (there.usable, there.switches, switches(cluster)) == (("n001", "n002"), {}, {})
        with pytest.raises(ConfigurationError, match=wording("no switches", option="--gsw-tile=switch") + "\n"):
            tiles("switch", 1, there)
        cluster.stop_slurmctld()
        with pytest.raises(ConfigurationError, match=wording("no controller")):
            ask(cluster)


def test_slurm_takes_jobs_for_tiles_in_blocks(blocks: SlurmCluster) -> None:
    there = ask(blocks)
    assert there.is_block
    assert there.switches["b2"] == ("n005", "n006", "n007", "n008")
    assert switches(blocks) == {
        f"block b{number + 1}": f"n[{4 * number + 1:03}-{4 * number + 4:03}]" for number in range(4)
    }
    for kind, size, count in (("block", 3, 4), ("4", 4, 3), ("6", 6, 2)):
        names, _ = tiles(kind, size, there)
        assert len(names) == count
        for name in names:
            blocks.run("sbatch", *TRUE, f"-N{size}", f"--nodelist={name}")
    # The tile of four that natural order has is one that it refuses.
    with pytest.raises(ClusterError, match="configuration is not available"):
        blocks.run("sbatch", *TRUE, "-N4", "--nodelist=n[001,003-005]")


@pytest.mark.parametrize(
    ("nodes", "factor"),
    [
        ("n003", 1.0),
        ("n017", 1.111),
        ("n[016-017]", 1.2),  # the slowest node of a job counts
        ("n[008-009,013-014]", 1.0),  # one node below the slow switch
        ("n[009-010]", 1.1),
        ("n[011-012,016-017]", 1.2 * 1.1),
    ],
)
def test_the_jobs_of_a_sweep_depend_on_their_nodes(
    switched: SlurmCluster, tmp_path: Path, nodes: str, factor: float
) -> None:
    project = sweep_project(tmp_path, "n017 1.111\nswitch n[009-012] 1.1\nn016 1.2")
    assert step_times_s(switched, project, nodes) == [
        pytest.approx(DOCUMENTED_S[len(expand(nodes))] * factor, rel=1e-5)
    ]


def test_each_job_of_a_sweep_has_noise_of_its_own(switched: SlurmCluster, tmp_path: Path) -> None:
    first, again, other = (
        step_times_s(switched, sweep_project(tmp_path / name, sigma=0.03, seed=seed), *switched.node_names, "n001")
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert first == again
    assert len({*first, *other}) == 66
    logarithms = [math.log(step_s / 4.0) for step_s in (*first, *other)]
    assert 0.02 < statistics.stdev(logarithms) < 0.04
    assert abs(statistics.mean(logarithms)) < 0.01


def test_a_session_reads_the_jobs_of_a_sweep(switched: SlurmCluster, tmp_path: Path) -> None:
    with contextlib.closing(Site(tmp_path)) as site:
        rows = site.run(switched, sweep("n021 1.25", sbatch="--exclusive, --nodelist=n021")).rows()
    slow = "throughput {} tokens/s is 20.0 % below the documented {} (allowed 5 %)"
    assert rows == {
        "tiny_1b_bf16[H100x8]": slow.format("13,107", "16,384"),
        "tiny_1b_bf16[H100x16]": slow.format("25,575", "31,969"),
        "tiny_1b_bf16[H100x32]": slow.format("47,663", "59,578"),
    }


def step_times_s(cluster: SlurmCluster, project: Path, *lists: str) -> list[float]:
    """Seconds of a step of jobs on these node lists, one after another."""
    found = []
    for job, nodes in enumerate(lists):
        variables = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": nodes, "STAGE_PATH": str(project / "stage")}
        variables |= {"SLURM_JOB_NUM_NODES": str(len(expand(nodes))), "DTYPE": "bf16", "MODEL_SIZE": "1b"}
        script = project / "recipes" / "tiny" / "launch.sh"
        done = subprocess.run([script], env=cluster.environ | variables, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        (log,) = project.glob(f"stage/results/24.11/bf16/1b/*/log-maxtext_tiny_1b_*_{job}.out")
        seconds = set(re.findall(r"seconds: ([0-9.]+)", log.read_text()))
        found += map(float, seconds)
    return found
