"""Jobs of a session that had shared nodes: the session says it once, at its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import RunOnce, unwrapped

FACT = "gsw: 2 nodes had more than one job at once, such as n1: 2 jobs on 12 GPUs of 8. A neighbour makes a row slower."
NEXT = 'next: give each job its nodes alone: "gres: gpu:8" or "sbatch: [--exclusive]" for demo in clusters.yaml'


@pytest.fixture
def recorded(pytester: pytest.Pytester, table: Path, run_once: RunOnce) -> Path:
    """The directory of a run of two rows, on 8 and on 16 GPUs."""

    def run() -> None:
        pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "H100").assert_outcomes(passed=2)

    return run_once(pytester, run)


@pytest.mark.parametrize(
    ("scheduler", "start_s", "told"),
    [("slurm", 1005.0, [FACT, NEXT]), ("local", 1005.0, [FACT])],
    ids=["on Slurm", "elsewhere"],
)
def test_a_session_says_that_jobs_shared_nodes(
    pytester: pytest.Pytester, recorded: Path, scheduler: str, start_s: float, told: list[str]
) -> None:
    for path, began_s in zip(sorted(recorded.glob("records/*.json")), (1000.0, start_s), strict=True):
        record = json.loads(path.read_text())
        record["job"] |= {"nodes": "n[1-2]", "start_s": began_s, "end_s": began_s + 10.0}
        path.write_text(json.dumps(record))
    (pytester.path / "clusters.yaml").write_text(
        f"clusters:\n  demo: {{scheduler: {scheduler}, accelerator: H100, gpus_per_node: 8, stage: stage}}\n"
    )
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-replay={recorded}", "--gsw-baselines=site")
    lines = unwrapped(result.outlines)
    assert [line for line in lines if line.startswith(("gsw: 2 nodes", "next: give"))] == told, result.stdout.str()
