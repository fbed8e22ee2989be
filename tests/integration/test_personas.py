"""What two kinds of users do from their first command to their last, each with nothing but files of their own.

The performance engineer and the owner of a Jenkins are those of docs/tutorial.md, which tests/slurm/test_tutorial.py
follows; who opens the report is in tests/browser/test_persona.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.test_docs import example

LAUNCH = """\
#!/usr/bin/env bash
set -euo pipefail
results=$STAGE_PATH/results/1/$DTYPE/$MODEL_SIZE/1
mkdir -p "$results"
exec >"$results/log-own_tick_${MODEL_SIZE}_1_$SLURM_JOB_ID.out"
echo "GSW: MODEL=tick MODEL_SIZE=$MODEL_SIZE DTYPE=$DTYPE GSW_VERSION=1 JOB_ID=$SLURM_JOB_ID"
for step in {1..20}; do
    echo "tick $step took 0.${STEP_MS:-731} s, loss $((30 - step)).5"
    echo "step $step | max memory 58.31 GiB"
done
"""

TABLE = """\
model: tick
size: 1b
framework: own
log_format: tick
accelerator: CPU
gpus_per_node: 1
recipe: {directory: ./tick, steps: 20}
sequence_length: 512
tables:
  - title: Our own loop
    dtype: fp32
    rows:
      - {gpus: 1, global_batch_size: 8, step_time_s: 0.731, metrics: {peak_memory_gib: {value: 58.3}}}
"""

CLUSTERS = """\
clusters:
  workstation: {scheduler: local, accelerator: CPU, gpus_per_node: 1, gpus: 1, stage: stage}
"""


@pytest.fixture
def site(pytester: pytest.Pytester) -> Path:
    """A training loop of one's own: its table, its launch script, its log format, its metric, this machine as its cluster."""
    table = pytester.path / "site" / "tick.yaml"
    (table.parent / "tick").mkdir(parents=True)
    table.write_text(TABLE)
    (table.parent / "tick" / "launch.sh").write_text(LAUNCH)
    (pytester.path / "clusters.yaml").write_text(CLUSTERS)
    pytester.makeconftest(f"{example('pytest_gsw_log_format')}\n{example('pytest_gsw_metrics')}")
    return table


def gsw(pytester: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    return pytester.run(sys.executable, "-m", "pytest_gsw.cli", *map(str, arguments))


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--gsw-cluster=workstation", "--gsw-baselines=site", *options)


def test_who_changes_a_variable_of_a_cluster_reads_it_as_a_cause(pytester: pytest.Pytester, site: Path) -> None:
    """Between two runs somebody sets variables in clusters.yaml, and a token is renewed, which no file may tell."""
    tokens = ("tk-first-0123456789", "tk-second-0123456789")
    set_variables(pytester, {"STEP_MS": "731", "HF_TOKEN": tokens[0], "TP_COMM": "ring"})
    run(pytester).assert_outcomes(passed=1)
    set_variables(pytester, {"STEP_MS": "850", "HF_TOKEN": tokens[1], "NCCL_IB_DISABLE": "1"})
    slower = run(pytester, "--junitxml=junit.xml", "--gsw-report=report")
    slower.assert_outcomes(failed=1)

    changed = "NCCL_IB_DISABLE not set -> 1, STEP_MS 731 -> 850, TP_COMM ring -> not set"
    slower.stdout.fnmatch_lines(["since      this run", f"changed    {changed}"])
    compared = gsw(pytester, "compare", *runs(pytester))
    assert compared.ret == 1
    compared.stdout.fnmatch_lines([f"changed: {changed} (all rows)"])
    gsw(pytester, "history").stdout.fnmatch_lines([f"* on workstation: * {changed}: throughput -14.0 % *"])
    junit_text, page = (pytester.path / name for name in ("junit.xml", "report/index.html"))
    for text in (junit_text.read_text(), page.read_text()):
        assert changed.replace(">", "&gt;") in text
    (row_page,) = (pytester.path / "report" / "rows").glob("*.html")
    assert "NCCL_IB_DISABLE=1, STEP_MS=850" in row_page.read_text()

    written = [path for path in pytester.path.rglob("*") if path.is_file() and path.name != "clusters.yaml"]
    assert not [path for path in written if any(token.encode() in path.read_bytes() for token in tokens)]


def set_variables(pytester: pytest.Pytester, variables: dict[str, str]) -> None:
    (pytester.path / "clusters.yaml").write_text(f"{CLUSTERS[:-2]}, environment: {json.dumps(variables)}}}\n")


def runs(pytester: pytest.Pytester) -> list[Path]:
    """The directories of all runs, the oldest first."""
    found = (pytester.path / ".gsw" / "runs").iterdir()
    return sorted(found, key=lambda run: min(path.stat().st_mtime_ns for path in run.iterdir()))
