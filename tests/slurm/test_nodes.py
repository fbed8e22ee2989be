"""What ``pytest-gsw nodes --exclude-file`` writes is what a real sbatch takes, where nobody is slow as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.cli.nodes import exclude_list
from pytest_gsw.history.node_search import SlowNode

from .cluster import SlurmCluster


@pytest.mark.parametrize(
    ("slow_groups", "excluded"), [((), ""), ((("n002",),), "n002"), ((("n001", "n003"), ("n002",)), "n[001-003]")]
)
def test_sbatch_takes_the_list(
    slurm8: SlurmCluster, tmp_path: Path, slow_groups: tuple[tuple[str, ...], ...], excluded: str
) -> None:
    slow = [SlowNode(nodes, -0.1, (), (), recovered=False) for nodes in slow_groups]
    held = ("--hold", f"--chdir={tmp_path}", "--wrap=true", "--parsable", "--mem=50M")
    job = slurm8.run("sbatch", *held, f"--exclude={exclude_list(slow)}").strip()
    assert f" ExcNodeList={excluded}\n" in slurm8.run("scontrol", "show", "job", job)
    slurm8.run("scancel", job)
