"""Train a small model with DeepSpeed on the CPU; its own log goes to standard output.

Usage: ``deepspeed_train.py CLOCK engine|pipeline|further-losses``. CLOCK is a file for the seconds of each step by this
script's own clock, a JSON list; the log knows nothing of it. ``engine`` is the usual loop, whose ThroughputTimer logs;
``pipeline`` is the pipeline engine with one stage, which prints a line of its own; with ``further-losses`` the model
reports two more, which stand in the same line.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from deepspeed.utils.logging import set_log_level_from_string

STEPS, BATCH, MICRO_BATCH, WIDTH, LAYERS = 12, 128, 32, 768, 8

CONFIGURATION = {
    "train_batch_size": BATCH,
    "train_micro_batch_size_per_gpu": MICRO_BATCH,
    "gradient_accumulation_steps": BATCH // MICRO_BATCH,
    "steps_per_print": 1,
    # PyTorch's Adam: DeepSpeed's own would have to be compiled.
    "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "torch_adam": True}},
}


def environment_of_one() -> dict[str, str]:
    """What a launcher would tell the only rank, with a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def main() -> None:
    """Train as the arguments say."""
    clock, engine = Path(sys.argv[1]), sys.argv[2]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    os.environ |= environment_of_one()
    # Its shared-memory collectives would be compiled at the first run, for which one process has no use.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo")
    # The timer's lines are of level INFO, and newer versions show none below WARNING.
    set_log_level_from_string("info")
    if engine == "engine":
        steps_s = train_with_engine()
    else:
        kind = {"pipeline": PipelineModule, "further-losses": WithFurtherLosses}[engine]
        steps_s = train_with_pipeline(kind(layers(), num_stages=1, loss_fn=torch.nn.functional.mse_loss))
    clock.write_text(json.dumps(steps_s))


def layers() -> list[torch.nn.Module]:
    """A plain stack: what is tested is the log, not the model."""
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(LAYERS)]


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Synthetic samples without end, made beforehand: DeepSpeed's timer does not count the time that loading takes."""
    return cycle([(torch.randn(MICRO_BATCH, WIDTH), torch.randn(MICRO_BATCH, WIDTH)) for _ in range(16)])


def train_with_engine() -> list[float]:
    """Forward, backward and step, as most scripts have it."""
    model = torch.nn.Sequential(*layers())
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIGURATION)
    data, steps_s = batches(), []
    for _ in range(STEPS):
        began_s = time.perf_counter()
        for samples, targets in islice(data, engine.gradient_accumulation_steps()):
            loss = torch.nn.functional.mse_loss(engine(samples), targets)
            engine.backward(loss)
            engine.step()
        steps_s.append(time.perf_counter() - began_s)
    return steps_s


class WithFurtherLosses(PipelineModule):
    """A model that reports more than the loss it is trained by."""

    def get_additional_losses(self) -> dict[str, torch.Tensor]:
        """As a mixture of experts has them."""
        return {"aux_loss": torch.tensor(0.25), "z loss": torch.tensor(0.5)}


def train_with_pipeline(model: PipelineModule) -> list[float]:
    """A whole step in one call."""
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIGURATION)
    data, steps_s = batches(), []
    for _ in range(STEPS):
        began_s = time.perf_counter()
        engine.train_batch(data)
        steps_s.append(time.perf_counter() - began_s)
    return steps_s


if __name__ == "__main__":
    main()
