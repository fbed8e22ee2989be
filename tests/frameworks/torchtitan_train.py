"""Train torchtitan's debug model of Llama 3 on the CPU; torchtitan's own log goes to standard error.

Usage: ``torchtitan_train.py CLOCK``. CLOCK is a file for the seconds of each step by this script's own clock, a JSON
list; the log knows nothing of it.

torchtitan has no CPU among its devices: without a GPU it asks ``torch.cuda`` for everything. This script tells it that
the device is ``cpu``, and answers in place of ``torch.cpu`` what only GPUs are asked, most of it about memory. The
training loop and its metrics, all that a log holds, are torchtitan's own and unchanged.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import alone  # beside this script
import torch
import torch._utils

_ANSWERS = {
    "current_device": 0,
    "get_device_name": "CPU",
    "get_device_properties": SimpleNamespace(total_memory=1 << 30),
    "reset_peak_memory_stats": None,
    "empty_cache": None,
    "memory_stats": {},
}
for name, answer in _ANSWERS.items():
    setattr(torch.cpu, name, lambda *_, answer=answer, **__: answer)
torch._utils._get_available_device_type = lambda: "cpu"

from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.config import JobConfig
from torchtitan.models.llama3 import get_train_spec
from torchtitan.protocols.train_spec import register_train_spec
from torchtitan.tools.logging import init_logger
from torchtitan.train import Trainer

STEPS, BATCH, SEQUENCE_LENGTH, VOCABULARY = 12, 2, 256, 2048


class Synthetic(BaseDataLoader):
    """Random tokens without end."""

    def __init__(self, **_: Any) -> None: ...

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        while True:
            tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE_LENGTH + 1))
            yield {"input": tokens[:, :-1]}, tokens[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        """Nothing is saved."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is loaded."""


class Timed(Trainer):
    """The trainer with a clock beside it."""

    steps_s: tuple[float, ...] = ()

    def train_step(self, data_iterator: Any) -> None:
        """One step."""
        began_s = time.perf_counter()
        super().train_step(data_iterator)
        self.steps_s += (time.perf_counter() - began_s,)


def configuration(directory: str) -> JobConfig:
    """As little of everything as there can be."""
    config = JobConfig()
    config.job.dump_folder = directory
    config.model.name, config.model.flavor = "synthetic", "debugmodel"
    config.training.steps = STEPS
    config.training.local_batch_size = BATCH
    config.training.seq_len = SEQUENCE_LENGTH
    config.training.mixed_precision_param = "float32"
    config.lr_scheduler.warmup_steps = 2
    config.metrics.log_freq = 1
    return config


def main() -> None:
    """Train."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    os.environ |= alone.environment()
    init_logger()
    spec = replace(get_train_spec(), build_tokenizer_fn=None, build_dataloader_fn=Synthetic)
    register_train_spec("synthetic", spec)
    with tempfile.TemporaryDirectory() as directory:
        trainer = Timed(configuration(directory))
        trainer.train()
        trainer.close()
    torch.distributed.destroy_process_group()
    Path(sys.argv[1]).write_text(json.dumps(trainer.steps_s))


if __name__ == "__main__":
    main()
