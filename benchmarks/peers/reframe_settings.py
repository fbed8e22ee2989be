"""ReFrame's configuration: one partition that takes all jobs at once, accounting asked for states."""

from __future__ import annotations

import os

_interval_s = os.environ.get("BENCH_INTERVAL_S", "")
_general: dict[str, object] = {"remote_detect": False}
if _interval_s:
    _general |= {"poll_rate_min": 1 / float(_interval_s), "poll_rate_max": 1 / float(_interval_s)}

site_configuration = {
    "systems": [
        {
            "name": "bench",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "batch",
                    "scheduler": "slurm",
                    "launcher": "local",
                    "environs": ["none"],
                    "max_jobs": int(os.environ["BENCH_JOBS"]),
                    "access": os.environ["BENCH_SBATCH_OPTIONS"].split(),
                }
            ],
        }
    ],
    "environments": [{"name": "none"}],
    "general": [_general],
}
