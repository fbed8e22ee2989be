"""Rows of a serving benchmark that really runs: a server on loopback, its clients, and vLLM's block of results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.conftest import records

TABLE = """\
model: streaming
framework: serving
dtype: fp32
accelerator: CPU
gpus_per_node: 1
recipe: {{directory: ./serving, environment: {{CONCURRENCY: "4", TOKEN_MS: "{token_ms}", REFUSED: "{refused}"}}}}
tables:
  - title: "A server on loopback"
    at: concurrency 4
    metric: {metric}
    tolerance: 80%
    max_gain: 400%
    metrics: {{successful_requests: {{value: 24}}}}
    rows: [{{gpus: 1, value: {value!r}}}]
"""
LAUNCH = """\
#!/bin/bash
set -eu
results=$STAGE_PATH/results/v1/$DTYPE/any/1
mkdir -p "$results"
"{python}" "{benchmark}" 24 "$CONCURRENCY" "$TOKEN_MS" "$REFUSED" \\
    >"$results/log-serving_streaming_any_1_$SLURM_JOB_ID.out" 2>&1
"""


def run(pytester: pytest.Pytester, metric: str, value: float, token_ms: int = 2, refused: int = 0) -> pytest.RunResult:
    (pytester.path / "serving").mkdir(exist_ok=True)
    launch = LAUNCH.format(python=sys.executable, benchmark=Path(__file__).with_name("serving_benchmark.py"))
    (pytester.path / "serving" / "launch.sh").write_text(launch)
    table = TABLE.format(metric=metric, value=value, token_ms=token_ms, refused=refused)
    (pytester.path / "streaming.yaml").write_text(table)
    return pytester.runpytest("--gsw-cluster=local", "streaming.yaml")


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of cores, on machines with GPUs, too."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize(
    ("metric", "label", "direction"),
    [
        ("output_tokens_per_s", "output throughput", "below"),
        ("tpot_ms_median", "median time per output token", "above"),
    ],
)
def test_a_server_is_as_fast_as_before_and_slower_when_it_is_slowed(
    pytester: pytest.Pytester, metric: str, label: str, direction: str
) -> None:
    # This machine's figure is not known before: the first run measures it.
    run(pytester, metric, 1.0)
    (first,) = records(pytester.path)
    measured = first["measured"]["value"]
    assert measured > 0
    run(pytester, metric, measured).assert_outcomes(passed=1)
    # Tokens that come twenty times later; a fifth of the throughput is allowed.
    slow = run(pytester, metric, measured, token_ms=40)
    slow.assert_outcomes(failed=1)
    slow.stdout.fnmatch_lines([f"{label} * is * % {direction} the documented *(allowed *"])


def test_a_refused_request_is_an_error(pytester: pytest.Pytester) -> None:
    refused = run(pytester, "output_tokens_per_s", 1000.0, refused=1)
    refused.assert_outcomes(errors=1)
    refused.stdout.fnmatch_lines(["*failed requests: 1*"])
