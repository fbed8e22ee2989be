"""MaxText: `metric_logger.py`, formerly `train.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.events import STARTUP_S, Event, lines, step_ends_s, step_line

_PROFILING_STEPS = 15
#: The profiling run of the MaxText recipe has latency hiding off.
_PROFILING_SLOWDOWN = 1.15


def _parameters(run: Run, steps: int) -> Iterator[str]:
    """MaxText's parameters, in the order of the alphabet."""
    row = run.baseline
    fsdp = row.parallelism.fsdp or run.job.gpus
    inner = math.gcd(fsdp, run.job.gpus_per_node)
    parameters = {
        "base_num_decoder_layers": run.layers,
        "dcn_data_parallelism": -1,
        "dcn_fsdp_parallelism": fsdp // inner,
        "dtype": {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[run.precision],
        "emb_dim": run.hidden_size,
        "global_batch_size_to_load": run.global_batch_size,
        "global_batch_size_to_train_on": run.global_batch_size,
        "ici_fsdp_parallelism": inner,
        "learning_rate_schedule_steps": steps,
        "max_target_length": run.sequence_length,
        "num_decoder_layers": run.layers,
        "per_device_batch_size": run.global_batch_size / run.job.gpus,
        "quantization": run.quantization,
        "steps": steps,
        "weight_dtype": "float32",
    }
    yield from (f"Config param {name}: {value}" for name, value in parameters.items())


def maxtext(run: Run) -> Iterator[Event]:
    """Two runs in one log, the first a slower one for the profile; every rank prints every step."""
    row, gpus = run.baseline, run.job.gpus
    tokens_per_step = run.sequence_length * run.global_batch_size
    flops_per_step = (row.model_flops_per_sample or 0.0) * run.global_batch_size

    def completed(at_s: float, index: int, seconds: float, loss: float, step: int) -> Event:
        rates = f"TFLOP/s/device: {flops_per_step / seconds / gpus / 1e12:.3f}"
        rates += f", Tokens/s/device: {tokens_per_step / seconds / gpus:.3f}"
        after = f", {rates}, total_weights: {tokens_per_step}, loss: {loss:.3f}\n"
        return step_line(at_s, step, f"completed step: {index}, seconds: ", f"{seconds:.3f}", after)

    yield from lines(
        25.0,
        f"Num_devices: {gpus}, shape (1, {gpus}, 1, 1, 1)",
        "Setting up checkpoint logger...",
        *_parameters(run, _PROFILING_STEPS),
    )
    at_s = STARTUP_S
    for index in range(_PROFILING_STEPS):
        # Time and loss repeat where the measured run is the shorter one.
        source = index % len(run.steps_s)
        at_s += run.steps_s[source] * _PROFILING_SLOWDOWN
        for rank_s in (run.steps_s, run.second_rank_s):
            yield completed(at_s, index, rank_s[source] * _PROFILING_SLOWDOWN, _finite(run.losses[source]), step=0)
    yield from lines(
        at_s + 20,
        "Generating '/tmp/nsys-report-demo.qdstrm'",
        "[1/1] [========================100%] profile.nsys-rep",
        *_parameters(run, len(run.steps_s)),
    )
    for index, end_s in enumerate(step_ends_s(run.steps_s, at_s + 60)):
        for rank_s in (run.steps_s, run.second_rank_s):
            yield completed(end_s, index, rank_s[index], run.losses[index], index + 1)
        if index == 0:
            yield from lines(end_s, "To see full metrics 'tensorboard --logdir=/results/tensorboard/'")


def _finite(loss: float) -> float:
    return 11.8 if math.isnan(loss) else loss
