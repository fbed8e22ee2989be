"""Records as the first release wrote them, by hand: schema 1 had costs, seconds or inverse rates, for figures."""

from __future__ import annotations

from typing import Any


def _job(number: int, judged_s: float) -> dict[str, Any]:
    return {
        "state": "COMPLETED",
        "submit_s": 1795212000.0 + number,
        "start_s": 1795212030.0 + number,
        "end_s": 1795212692.0 + number,
        "nodes": f"n[{number}-{number + 1}]",
        "id": f"{481220 + number}",
        "launcher": "slurm",
        "judged_s": judged_s,
    }


_RUN: dict[str, Any] = {
    "run_id": "20261120-220411-a1b2c3",
    "cluster": "eos",
    "simulated": False,
    "recorded_s": 1795213000.0,
    "baseline": "own.yaml:3",
    "document": "own.md",
    "document_line": 3,
    "accelerator": "H100",
    "tolerance": 0.05,
    "experiment": "0123456789ab",
    "outcome": "passed",
    "fact": "as it was",
    "schema": 1,
}

#: A bus bandwidth, the median of three jobs, with an accepted figure and an effect of the cluster.
BANDWIDTH: dict[str, Any] = {
    **_RUN,
    "row": "all_reduce_fp32[H100x8]",
    "node_id": "own.yaml::all_reduce_fp32[H100x8]",
    "workload": "all_reduce",
    "framework": "nccl-tests",
    "dtype": "fp32",
    "gpus": 8,
    "definition": "ba9876543210",
    "metric": "busbw_gbs",
    "label": {"key": "busbw_gbs", "unit": "GB/s", "direction": "higher is better", "label": "bus bandwidth"},
    "at": "16 GiB",
    "documented": {"value": 85.5},
    "measured": {"value": 78.64},
    "accepted": {"value": 80.1},
    "repeats": [_job(1, 1 / 77.9), _job(2, 1 / 79.02)],
    "job": _job(3, 1 / 78.64),
    "verdict": {
        "outcome": "passed",
        "measured_s": 1 / 78.64,
        "documented_s": 1 / 85.5,
        "tolerance": 0.05,
        "accepted_s": 1 / 80.1,
        "jobs_s": [1 / 77.9, 1 / 78.64, 1 / 79.02],
        "steady_s": 1 / 78.64,
        "cluster_effect": {
            "effect": 0.01,
            "taken": 0.01,
            "is_incident": False,
            "limit": 0.02,
            "rows": 9,
            "usual_s": 1 / 80.3,
            "noise": {"sigma": 0.01, "jobs": 30},
        },
    },
}

#: A step time.
STEPS: dict[str, Any] = {
    **_RUN,
    "row": "llama2_70b_fp8[H100x128]",
    "node_id": "own.yaml::llama2_70b_fp8[H100x128]",
    "workload": "llama2_70b",
    "framework": "nemo",
    "dtype": "fp8",
    "gpus": 128,
    "definition": "0f1e2d3c4b5a",
    "metric": "step_time",
    "documented": {"step_time_s": 4.556},
    "measured": {"step_time_s": 5.11},
    "job": _job(4, 5.11),
    "outcome": "regressed",
    "verdict": {
        "outcome": "regressed",
        "measured_s": 5.11,
        "documented_s": 4.556,
        "tolerance": 0.05,
        "jobs_s": [5.11],
        "steady_s": 5.1,
    },
}
