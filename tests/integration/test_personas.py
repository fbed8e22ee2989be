"""What two kinds of users do from their first command to their last, each with nothing but files of their own.

The performance engineer and the owner of a Jenkins are those of docs/tutorial.md, which tests/slurm/test_tutorial.py
follows; who opens the report is in tests/browser/test_persona.py.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import junit
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

ROW = "tick_1b_fp32[CPUx1]"

#: Of the second row, 1024 samples of 4096 tokens in 6.31 s are twice the tokens per second that it has.
README = """\
# Owl 13B

| GPUs | GBS | Step time (s) | Tokens/s |
|---|---|---|---|
| 64 | 512 | 6.20 | 338250 |
| 128 | 1024 | 6.31 | 332400 |
"""

#: What no cell of it says.
FACTS = """\
documents:
  - {document: README.md, model: owl, size: 13b, framework: nemo, dtype: bf16, accelerator: H100, gpus_per_node: 8,
     sequence_length: 4096}
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


def night(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--gsw-cluster=workstation", "--gsw-baselines=site", *options)


def test_a_framework_developer(pytester: pytest.Pytester, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of one's own on one's own machine: is it slower since my change, by how much, and may it stay so?"""
    night(pytester).assert_outcomes(passed=1)

    monkeypatch.setenv("STEP_MS", "850")
    slower = night(pytester)
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["*throughput 4,819 tokens/s is 14.0 % below the documented 5,603 (allowed 5 %)*"])
    # What the screen says to type next is typed as it stands there.
    again = next(line for line in slower.outlines if line.startswith("again "))
    pytester.run(sys.executable, "-m", *shlex.split(again)[1:]).assert_outcomes(failed=1)

    options = ("--baselines=site", "--min-jobs=2", "--output=own.diff")
    assert gsw(pytester, "baseline", "propose", *options, *runs(pytester)[1:]).ret == 0
    subprocess.run(["git", "apply", "own.diff"], check=True, cwd=pytester.path)
    accepted = night(pytester)
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines(["*passed by what workstation has accepted; it is 14.0 % below the documented*"])


def test_a_site_with_tables_and_formats_of_its_own(pytester: pytest.Pytester, site: Path) -> None:
    """From a README of one's own to a table, from a log of one's own to figures, a metric and JUnit."""
    (pytester.path / "README.md").write_text(README)
    (pytester.path / "tables").mkdir()
    refused = gsw(pytester, "import", "README.md", "-o", "tables")
    assert refused.ret == 1
    refused.stdout.fnmatch_lines(["*add documents: [[]{document: README.md, model: NAME, framework: NAME}]"])
    (pytester.path / "tables" / "facts.yaml").write_text(FACTS)
    imported = gsw(pytester, "import", "README.md", "-o", "tables")
    assert imported.ret == 0
    imported.stdout.fnmatch_lines(
        ["  fill in    *step_time_s of owl_13b_bf16[[]H100x128]: tokens_per_s is 332400, and *"]
    )
    (table,) = (pytester.path / "tables").rglob("owl_13b.yaml")
    table.write_text(table.read_text().replace("step_time_s: ~", "step_time_s: 12.62"))
    listed = gsw(pytester, "rows", "tables")
    assert listed.ret == 0
    listed.stdout.fnmatch_lines(["owl_13b_bf16[[]H100x64]*6.2*338,250*", "owl_13b_bf16[[]H100x128]*12.62*"])

    result = night(pytester, "--junitxml=junit.xml", "--gsw-report=report")
    result.assert_outcomes(passed=1)
    case = junit(pytester.path / "junit.xml")[ROW]
    figures = {prop.attrib["name"]: prop.attrib["value"] for prop in case.iter("property")}
    assert figures["gsw_measured_step_time_s"] == "0.731"
    assert figures["gsw_measured_peak_memory_gib"] == "58.31"
    assert figures["gsw_outcome_peak_memory_gib"] == "passed"
    assert ROW in (pytester.path / "report" / "index.html").read_text()

    (log,) = (pytester.path / "stage").rglob("log-*.out")
    measured = gsw(pytester, "metrics", log, "--format=tick", "--json")
    assert json.loads(measured.stdout.str())["step_time_s"] == 0.731


def test_who_changes_a_variable_of_a_cluster_reads_it_as_a_cause(pytester: pytest.Pytester, site: Path) -> None:
    """Between two runs somebody sets variables in clusters.yaml, and a token is renewed, which no file may tell."""
    tokens = ("tk-first-0123456789", "tk-second-0123456789")
    set_variables(pytester, {"STEP_MS": "731", "HF_TOKEN": tokens[0], "TP_COMM": "ring"})
    night(pytester).assert_outcomes(passed=1)
    set_variables(pytester, {"STEP_MS": "850", "HF_TOKEN": tokens[1], "NCCL_IB_DISABLE": "1"})
    slower = night(pytester, "--junitxml=junit.xml", "--gsw-report=report")
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
