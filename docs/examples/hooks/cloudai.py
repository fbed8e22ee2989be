"""Runs of CloudAI: the log ``stdout.txt`` next to ``training_report.json``, schema 1. Copy it as conftest.py."""

import json
import re

from pytest_gsw import Evidence, FoundLog, Identity

DEGREES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}


def letters(text):
    return re.sub("[^a-z0-9]", "", text.lower())


def config_of(path):
    report = json.loads(path.read_text())
    if report["schema_version"].partition(".")[0] != "1":
        raise ValueError(f"{path} has the schema {report['schema_version']}, wanted 1")
    return report["config"]


def dtype_of(config):
    return "bf16" if not config["fp8"] else "mxfp8" if config["fp8_recipe"] == "mxfp8" else "fp8"


def pytest_gsw_find_logs(place, rows):
    for path in sorted(place.rglob("training_report.json")):
        config, log = config_of(path), path.with_name("stdout.txt")
        model, ran = letters(config["model_name"]), (dtype_of(config), config["world_size"])
        of_log = [row for row in rows if letters(row.workload.name) in model and (row.workload.dtype, row.gpus) == ran]
        # The job's metadata, or with one sbatch for all tests those of the scenario; none on Kubernetes.
        metadata = [file for file in (parent / "slurm-job.toml" for parent in path.parents[:3]) if file.is_file()]
        job = re.search(r"^job_id = (\d+)$", metadata[0].read_text(), re.MULTILINE) if metadata else None
        if log.is_file():
            yield FoundLog(log, job[1] if job else "-".join(path.parts[-3:-1]), tuple(row.id for row in of_log))


def pytest_gsw_evidence(log):
    path = log.with_name("training_report.json")
    if not path.is_file():
        return []
    config = config_of(path)
    identity = Identity(
        dtype=dtype_of(config),
        gpus=config["world_size"],
        global_batch_size=config["global_batch_size"],
        micro_batch_size=config["micro_batch_size"],
        sequence_length=config["seq_length"],
        degrees={name: config[f"{word}_parallel_size"] or 1 for name, word in DEGREES.items()},
    )
    return [Evidence(path, identity, "it was profiled" if config["profiling_enabled"] else None)]
