"""The rows as submitit's jobs: each runs the script from a Python of its own, as submitit's jobs do."""

# mypy: ignore-errors

from __future__ import annotations

import os

import submitit

executor = submitit.AutoExecutor(folder="submitit", cluster="slurm")
executor.update_parameters(
    name="submitit",
    timeout_min=30,
    nodes=1,
    slurm_gres="gpu:1",
    slurm_use_srun=False,
    slurm_additional_parameters={"no_requeue": True},
)
jobs = [
    executor.submit(submitit.helpers.CommandFunction([os.environ["BENCH_SCRIPT"]]))
    for _ in range(int(os.environ["BENCH_JOBS"]))
]
for job in jobs:
    job.result()
print(f"{len(jobs)} jobs ended well")
