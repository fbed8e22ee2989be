"""Megatron-LM: `training.py`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.deepspeed import iteration_lines
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_line


def _moment(run: Run, at_s: float, what: str) -> str:
    """`print_datetime` of Megatron-LM's `training.py`."""
    return f"[{what}] datetime: {clock(run, at_s):%Y-%m-%d %H:%M:%S} "


def _megatron_line(run: Run, at_s: float, iteration: int) -> Event:
    """`log_string` of Megatron-LM's `training_log`: means over the iterations since the last such line."""
    window = slice(iteration - run.log_interval, iteration)
    loss = statistics.fmean(run.losses[window])
    before = f" iteration {iteration:8d}/{len(run.steps_s):8d} |"
    before += f" consumed samples: {iteration * run.global_batch_size:12d} | elapsed time per iteration (ms): "
    after = (
        f" | learning rate: {1.5e-4 * min(1.0, iteration / 8):.3E} | global batch size: {run.global_batch_size:5d} |"
    )
    after += f" lm loss: {loss:.6E} | loss scale: 4096.0 | grad norm: {loss * 0.4:.3f} |"
    # Only an iteration that the loss scaler skips counts as a NaN iteration, however the loss may look.
    after += " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    figure = f"{statistics.fmean(run.steps_s[window]) * 1000:.1f}"
    return step_line(at_s, iteration // run.log_interval, before, figure, after)


def _megatron_phases(seconds: float) -> str:
    return (
        f"time (ms) | forward-compute: {seconds * 290:.2f} | backward-compute: {seconds * 680:.2f}"
        f" | optimizer: {seconds * 20:.2f} | batch-generator: {seconds * 0.3:.2f}"
    )


def _checkpoint_iterations(run: Run) -> Mapping[int, float]:
    """After which iterations a checkpoint is saved, and the seconds it takes."""
    saves, total = run.checkpoint_saves_s, len(run.steps_s)
    return {total * (number + 1) // len(saves): seconds for number, seconds in enumerate(saves)}


def _checkpoint(at_s: float, iteration: int, seconds: float, step: int) -> Iterator[Event]:
    yield from lines(at_s - seconds, f"saving checkpoint at iteration {iteration:7d} to /results/checkpoints")
    yield from lines(at_s, f"  successfully saved checkpoint at iteration {iteration:7d} to /results/checkpoints")
    yield step_line(at_s, step, "time (ms) | save-checkpoint: ", f"{seconds * 1000:.2f}", "\n")


def _arguments(run: Run) -> Iterator[str]:
    """Megatron-LM's table of arguments; some of them look like results, others like each other."""
    row, parallel, precision = run.baseline, run.degrees, run.precision
    arguments = {
        "bf16": precision == "bf16",
        "check_for_nan_in_loss_and_grad": True,
        "context_parallel_size": parallel["cp"],
        "data_parallel_size": parallel["dp"],
        "encoder_seq_length": run.sequence_length,
        "expert_model_parallel_size": parallel["ep"],
        "ffn_hidden_size": 4 * run.hidden_size,
        "fp16": precision == "fp16",
        "fp16_lm_cross_entropy": False,
        "fp8": "hybrid" if run.quantization == "fp8" else None,
        "global_batch_size": run.global_batch_size,
        "hidden_size": run.hidden_size,
        "log_interval": run.log_interval,
        "micro_batch_size": run.micro_batch_size,
        "num_layers": run.layers,
        "params_dtype": {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}[precision],
        "pipeline_model_parallel_size": parallel["pp"],
        "retriever_seq_length": 256,
        "seq_length": run.sequence_length,
        "tensor_model_parallel_size": parallel["tp"],
        "train_iters": len(run.steps_s),
        "virtual_pipeline_model_parallel_size": row.parallelism.vp,
        "world_size": run.job.gpus,
    }
    yield (
        f"using world size: {run.job.gpus}, data-parallel-size: {parallel['dp']}, tensor-model-parallel size:"
        f" {parallel['tp']}, pipeline-model-parallel size: {parallel['pp']} "
    )
    yield "------------------------ arguments ------------------------"
    yield from (f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items())
    yield "-------------------- end of arguments ---------------------"


def megatron(run: Run) -> Iterator[Event]:
    """Megatron-LM, alone or under DeepSpeed, whose engines report every iteration too."""
    yield from lines(15.0, *_arguments(run), "> initializing torch distributed ...")
    yield from lines(40.0, "time (ms) | model-and-optimizer-setup: 11002.57 | train/valid/test-data-iterators: 1280.95")
    yield from lines(STARTUP_S, "training ...", _moment(run, STARTUP_S, "before the start of training step"))
    saves, total = _checkpoint_iterations(run), len(run.steps_s)
    at_s = STARTUP_S
    for index, seconds in enumerate(run.steps_s):
        iteration = index + 1
        at_s += seconds
        if run.baseline.framework == "deepspeed":
            yield from iteration_lines(run, at_s, index)
        if iteration % run.log_interval == 0:
            line = _megatron_line(run, at_s, iteration)
            # In a run that is about checkpoints, the figure that counts is the save's.
            yield line if not saves else line._replace(figure_end=0)
            yield from lines(at_s, _megatron_phases(seconds))
        if iteration == run.log_interval:
            memory = "memory (MB) | allocated: 10857.5625 | max allocated: 26118.22 | reserved: 28234.0"
            yield from lines(at_s, f"[Rank 0] (after {iteration} iterations) {memory}")
        if iteration in saves:
            at_s += saves[iteration]
            yield from _checkpoint(at_s, iteration, saves[iteration], iteration // run.log_interval)
    yield from lines(at_s, _moment(run, at_s, "after training is done"))
    ruler = "-" * 80
    loss = run.losses[-1]
    validation = (
        f" validation loss at iteration {total} | lm loss value: {loss:.6E} | lm loss PPL: {math.exp(loss):.6E} |"
    )
    yield from lines(at_s + 5, ruler, validation, ruler, "[exiting program after the last iteration]")
