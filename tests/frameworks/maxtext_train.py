"""Train a small model with MaxText on the CPU, on its own synthetic data; its own log goes to standard error.

Usage: ``maxtext_train.py CLOCK``. CLOCK is a file for the seconds of each step by this script's own clock, a JSON list;
the log knows nothing of it. It looks when MaxText's loop hands a step's metrics over, as MaxText's
own clock does: a step is then on its way to the device, not necessarily done.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

# Without Google's cloud clients, which nothing here needs.
os.environ |= {"DECOUPLE_GCLOUD": "TRUE", "JAX_PLATFORMS": "cpu"}

import maxtext
from absl import app
from maxtext.common.metric_logger import MetricLogger
from maxtext.trainers.pre_train import train

STEPS = 12


def arguments(directory: str) -> list[str]:
    """MaxText's command line: its own defaults with a small model."""
    settings = {
        "run_name": "small",
        "base_output_directory": directory,
        "hardware": "cpu",
        "skip_jax_distributed_system": True,
        "dataset_type": "synthetic",
        "steps": STEPS,
        "enable_checkpointing": False,
        "enable_tensorboard": False,
        "log_config": False,
        "jax_cache_dir": "",
        "attention": "dot_product",
        "dtype": "float32",
        "per_device_batch_size": 4,
        "max_target_length": 256,
        "base_emb_dim": 256,
        "base_mlp_dim": 1024,
        "base_num_decoder_layers": 2,
        "base_num_query_heads": 4,
        "base_num_kv_heads": 4,
        "head_dim": 64,
        "vocab_size": 2048,
    }
    base = Path(maxtext.__file__).parent / "configs" / "base.yml"
    return [sys.argv[0], str(base), *(f"{name}={value}" for name, value in settings.items())]


def main() -> None:
    """Train."""
    clock, ends_s = Path(sys.argv[1]), [0.0]
    began, ended = train.start_run_clock, MetricLogger.buffer_and_write_metrics

    def timed_begin(*given: Any, **named: Any) -> None:
        began(*given, **named)
        ends_s[0] = time.perf_counter()

    def timed_end(*given: Any, **named: Any) -> None:
        ends_s.append(time.perf_counter())
        ended(*given, **named)

    train.start_run_clock, MetricLogger.buffer_and_write_metrics = timed_begin, timed_end

    def run(argv: list[str]) -> None:
        train.main(argv)
        clock.write_text(json.dumps([after - before for before, after in pairwise(ends_s)]))

    with tempfile.TemporaryDirectory() as directory:
        app.run(run, argv=arguments(directory))


if __name__ == "__main__":
    main()
