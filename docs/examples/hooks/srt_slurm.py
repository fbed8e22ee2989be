"""Serving benchmarks of srt-slurm: ``benchmark.out`` of ``outputs/JOB``, with ``JOB.json``. Copy it as conftest.py.

One log has one run: one concurrency, and no warm-up (``num_warmup_mult: 0``).
"""

import json
import re

from pytest_gsw import Evidence, FoundLog, Identity


def letters(text):
    return re.sub("[^a-z0-9]", "", text.lower())


def metadata_of(log):
    """The file with the name of the job, in the directory of logs or in the one above."""
    files = (path for directory in log.parents[:2] for path in directory.glob("*.json"))
    return next((path for path in files if path.stem.isdecimal()), None)


def identity_of(run):
    resources = {name: value or 0 for name, value in run["resources"].items()}
    nodes = resources["prefill_nodes"] + resources["decode_nodes"] or resources["agg_nodes"]
    gpus = nodes * resources["gpus_per_node"]
    return Identity(dtype=run["model"]["precision"], gpus=gpus, accelerator=run["resources"]["gpu_type"].upper())


def pytest_gsw_find_logs(place, rows):
    for log in sorted(place.rglob("benchmark.out")):
        path = metadata_of(log)
        if path is None:
            continue
        run = json.loads(path.read_text())
        ran, model = identity_of(run), letters(run["model"]["path"])
        of_log = [row for row in rows if (row.workload.dtype, row.gpus) == (ran.dtype, ran.gpus)]
        ids = [row.id for row in of_log if letters(row.workload.model) in model]
        yield FoundLog(log, path.stem, tuple(ids))


def pytest_gsw_evidence(log):
    path = metadata_of(log) if log.name == "benchmark.out" else None
    return [] if path is None else [Evidence(path, identity_of(json.loads(path.read_text())))]
