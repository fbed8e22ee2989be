"""Train a small Transformer with Paxml on the CPU, on its own synthetic data; its own log goes to standard error.

Usage: ``paxml_train.py CLOCK``. CLOCK is a file for the seconds of each step by this script's own clock, a JSON list;
the log knows nothing of it. It looks when Paxml's training program has run a step, from outside of it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ |= {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}

import jax
import jax.numpy as jnp
from absl import app
from paxml import experiment_registry, main, programs
from paxml.tasks.lm.model_params import TransformerLmSpmdAdafactor
from paxml.tasks.lm.params.lm_cloud import SyntheticDataset
from praxis import pax_fiddle

STEPS = 12


@experiment_registry.register(allow_overwrite=True)
class Small(TransformerLmSpmdAdafactor, SyntheticDataset):
    """Two layers on one core."""

    PERCORE_BATCH_SIZE, MAX_SEQ_LEN = 4, 256
    NUM_LAYERS, MODEL_DIMS, HIDDEN_DIMS, DIMS_PER_HEAD, VOCAB_SIZE = 2, 256, 1024, 64, 2048
    FPROP_DTYPE = jnp.float32
    ICI_MESH_SHAPE = (1, 1, 1)

    def task(self) -> pax_fiddle.Config[Any]:
        """The task, as long as it is to train, without an evaluation."""
        task = super().task()
        task.train.num_train_steps = STEPS
        task.train.eval_skip_train = True
        task.train.eval_interval_steps = 10 * STEPS
        return task


def run() -> None:
    """Train."""
    clock, steps_s = Path(sys.argv[1]), []
    own = programs.BaseTrainProgram.run

    def timed(*given: Any) -> Any:
        began_s = time.perf_counter()
        result = own(*given)
        steps_s.append(time.perf_counter() - began_s)
        return result

    programs.BaseTrainProgram.run = timed

    def train(argv: list[str]) -> None:
        main.main(argv[:1])
        clock.write_text(json.dumps(steps_s))

    with tempfile.TemporaryDirectory() as directory:
        options = {"exp": "__main__.Small", "job_log_dir": directory, "enable_checkpoint_saving": "false"}
        jax.config.config_with_absl()
        app.run(train, argv=[sys.argv[0], *(f"--{name}={value}" for name, value in options.items())])


if __name__ == "__main__":
    run()
