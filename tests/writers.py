"""Logs of frameworks that no bundled row uses, in the manner of the demo's writers, and the writers of all formats."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from pytest_gsw.demo.benchmarks import BENCHMARKS
from pytest_gsw.demo.simulation import SimulatedRun
from pytest_gsw.demo.writers import (
    STARTUP_S,
    WRITERS,
    Event,
    Writer,
    clock,
    lines,
    step_ends_s,
    step_line,
    with_identity,
)

#: First steps without a time in the log, by its format: DeepSpeed's throughput timer leaves out two (``start_step`` in
#: deepspeed/utils/timer.py), Composer's speed monitor fills its window first, which here holds one batch.
UNLOGGED_STEPS = {"deepspeed": 2, "composer": 1, "olmo-core": 1}


# -- DeepSpeed: `timer.py` --


def info_line(run: SimulatedRun, at_s: float, place: str, text: str) -> str:
    """A line of DeepSpeed's logger."""
    now = clock(run, at_s)
    return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] [INFO] [{place}] {text}"


def settings(run: SimulatedRun) -> Iterator[str]:
    """DeepSpeed's lines about its own configuration; its ``world_size`` counts data-parallel ranks."""
    values = {
        "bfloat16_enabled": run.precision == "bf16",
        "fp16_auto_cast": None,
        "fp16_enabled": run.precision == "fp16",
        "train_batch_size": run.global_batch_size,
        "train_micro_batch_size_per_gpu": run.micro_batch_size,
        "world_size": run.degrees["dp"],
    }
    yield from (f"  {name} {'.' * (29 - len(name))} {value}" for name, value in values.items())


def deepspeed(run: SimulatedRun) -> Iterator[Event]:
    """A training loop around the DeepSpeed engine: its throughput timer, which never measures the first two steps."""
    yield from lines(
        30.0,
        info_line(run, 30.0, "logging.py:96:log_dist", "[Rank 0] DeepSpeed info: version=0.14.4"),
        *(info_line(run, 30.0, "config.py:1001:print", line) for line in settings(run)),
    )
    accumulation = run.baseline.batch.gradient_accumulation_steps or 1
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        step = index + 1
        yield from lines(at_s, f"step: {step}, loss: {run.losses[index]:.4f}")
        if index < 2:
            continue
        average = run.global_batch_size / statistics.fmean(run.steps_s[2:step])
        place = f"epoch=0/micro_step={step * accumulation}/global_step={step}"
        before = info_line(run, at_s, "timer.py:258:stop", f"{place}, RunningAvgSamplesPerSec={average}")
        figure = f"{run.global_batch_size / run.steps_s[index]}"
        after = ", MemAllocated=18.72GB, MaxMemAllocated=52.31GB\n"
        yield step_line(at_s, step, f"{before}, CurrSamplesPerSec=", figure, after)
    end_s = STARTUP_S + sum(run.steps_s)
    yield from lines(end_s + 1, "[Rank 0] time (ms) | fwd: 0.18 | bwd: 0.71 | step: 2.65")


# -- torchtitan: `metrics.py`, `train.py` --


def torchtitan(run: SimulatedRun) -> Iterator[Event]:
    """Tokens per second of one GPU in whole numbers, and no step time; the first rank prints."""
    row, parallel, gpus = run.baseline, run.degrees, run.job.gpus
    tokens = run.sequence_length * run.global_batch_size / gpus
    flops = (row.workload.model_flops_per_sample or 0.0) * run.global_batch_size / gpus

    def info(at_s: float, text: str) -> str:
        now = clock(run, at_s)
        return f"[rank0]:[titan] {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} - root - INFO - {text}"

    degrees = (
        f"pp={parallel['pp']}, dp_replicate=1, dp_shard={parallel['dp']}, cp={parallel['cp']}, tp={parallel['tp']}"
    )
    yield from lines(20.0, info(20.0, f"Building device mesh with parallelism: {degrees}, ep={parallel['ep']}"))
    model = f"{row.workload.model} TransformerModelArgs(dim={run.hidden_size}, n_layers={run.layers})"
    yield from lines(25.0, info(25.0, f"Building {model}"))
    if run.quantization == "fp8":
        yield from lines(30.0, info(30.0, "Float8 tensorwise scaled training active"))
    batches = f"local batch size {run.micro_batch_size}, global batch size {run.global_batch_size}"
    setup = f"{batches}, gradient accumulation steps 1, sequence length {run.sequence_length}"
    trainer = f"Trainer is initialized with {setup}, total steps {len(run.steps_s)} (warmup 200)"
    yield from lines(STARTUP_S, info(STARTUP_S, trainer), info(STARTUP_S, "Training starts at step 1"))
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        loss, seconds = run.losses[index], run.steps_s[index]
        norm_and_memory = f"grad_norm: {abs(loss) * 0.1:7.4f}  memory: 47.35GiB(33.90%)"
        before = info(at_s, f"step: {index + 1:2}  loss: {loss:8.5f}  {norm_and_memory}  tps: ")
        after = f"  tflops: {flops / seconds / 1e12:,.2f}  mfu: N/A\n"
        yield step_line(at_s, index + 1, before, f"{round(tokens / seconds):,}", after)
    end_s = STARTUP_S + sum(run.steps_s)
    yield from lines(end_s + 1, info(end_s + 1, "Training completed"))


# -- NeMo AutoModel's benchmark: `recipes/llm/benchmark.py` --


def automodel(run: SimulatedRun) -> Iterator[Event]:
    """Three lines for each iteration, from the first rank; the time is the slowest rank's."""
    count, tokens = len(run.steps_s), run.global_batch_size * run.sequence_length

    def info(at_s: float, text: str) -> str:
        return f"{clock(run, at_s):%Y-%m-%d %H:%M:%S} | INFO | nemo_automodel.recipes.llm.benchmark | {text}"

    batches = f"Local batch size: {run.micro_batch_size}, Global batch size: {run.global_batch_size}"
    steps = f"GA steps: 1, DP size: {run.degrees['dp']}, {batches}"
    yield from lines(20.0, info(20.0, f"Running {count} iterations with 0 warmup steps"), info(20.0, steps))
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        iteration = f"Rank 0 | Iteration {index}"
        of_loss = f"num_label_tokens={tokens} | Max Memory Allocated: 61.42 GB | loss={run.losses[index]:.4f}"
        yield from lines(at_s, info(at_s, iteration), info(at_s, f"{iteration} | {of_loss}"))
        yield step_line(at_s, index + 1, info(at_s, "Max iter time: "), f"{run.steps_s[index]:.6f}", " seconds\n")
    end_s = STARTUP_S + sum(run.steps_s)
    yield from lines(end_s, info(end_s, f"Average iteration time: {sum(run.steps_s) / count:.3f} seconds"))


# -- Composer as LLM Foundry runs it: `console_logger.py`, `speed_monitor.py` --


def _composer_configuration(run: SimulatedRun) -> Iterator[str]:
    yield from (
        f"max_seq_len: {run.sequence_length}",
        "model:",
        "  name: mpt_causal_lm",
        f"  d_model: {run.hidden_size}",
        f"  n_layers: {run.layers}",
        f"  max_seq_len: {run.sequence_length}",
        f"max_duration: {len(run.steps_s)}ba",
        f"global_train_batch_size: {run.global_batch_size}",
        f"device_train_microbatch_size: {run.micro_batch_size}",
        f"precision: {run.precision if run.precision == 'fp32' else f'amp_{run.quantization or run.precision}'}",
    )


def composer(run: SimulatedRun) -> Iterator[Event]:
    """A block for each batch; the speed monitor has no rate for the first ones, and a window of one batch."""
    yield from lines(25.0, *_composer_configuration(run), "*" * 30)
    count = len(run.steps_s)
    tokens = run.sequence_length * run.global_batch_size
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        seconds = run.steps_s[index]
        head = (
            f"[batch={index + 1}/{count}]:",
            f"\t Train time/batch: {index}",
            f"\t Train time/sample: {index * run.global_batch_size}",
            f"\t Train loss/train/total: {run.losses[index]:.4f}\n",
        )
        yield Event(at_s, "\n".join(head).encode(), index + 1)
        if index >= UNLOGGED_STEPS["composer"]:
            before = f"\t Train throughput/tokens_per_sec: {tokens / seconds:.4f}\n"
            before += "\t Train throughput/device/tokens_per_sec: "
            yield step_line(at_s, index + 1, before, f"{tokens / seconds / run.job.gpus:.4f}", "\n")
        yield from lines(at_s, f"\t Train time/train: {(at_s - STARTUP_S) / 3600:.4f}")


# -- Nanotron: `trainer.py`, `logging/base.py` --


def _human(value: float) -> str:
    """Three digits, and a letter for thousands."""
    value = float(f"{value:.3g}")
    for letter in ("", "K", "M", "G"):  # noqa: B007 - it is used behind the loop
        if abs(value) < 1000:
            break
        value /= 1000
    return f"{value:f}".rstrip("0").rstrip(".") + letter


def nanotron(run: SimulatedRun) -> Iterator[Event]:
    """A line for each iteration, from the last pipeline stage's first process."""
    count, tokens = len(run.steps_s), run.global_batch_size * run.sequence_length
    start = (
        f"mbs: {run.micro_batch_size} | grad_accum: 1 | global_batch_size: {run.global_batch_size} | sequence_length: "
    )
    head = "[INFO|DP=0|PP=0|TP=0]: [Start training] datetime: 2031-02-03 | "
    yield from lines(20.0, f"{head}{start}{run.sequence_length} | train_steps: {count} | start_iteration_step: 0")
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        seconds, now = run.steps_s[index], clock(run, at_s)
        head = f"{now:%m/%d/%Y %H:%M:%S} [INFO|DP=0|PP=0|TP=0]: iteration: {index + 1} / {count} | consumed_tokens: "
        before = f"{head}{_human(tokens * (index + 1))} | elapsed_time_per_iteration_ms: "
        rates = f"tokens_per_sec: {_human(tokens / seconds)} | global_batch_size: {_human(run.global_batch_size)}"
        after = f" | {rates} | lm_loss: {run.losses[index]:.3g} | lr: 0.0003 | grad_norm: 1.25\n"
        figure = _human(seconds * 1000)
        yield step_line(at_s, index + 1, before, figure.rstrip("KMG"), figure.lstrip("0123456789.") + after)


# -- OLMo-core: `console_logger.py`, `speed_monitor.py` --


def olmo_core(run: SimulatedRun) -> Iterator[Event]:
    """A block for each step; the first one has no rate."""
    count, tokens = len(run.steps_s), run.global_batch_size * run.sequence_length / run.job.gpus
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        now = f"{clock(run, at_s):%Y-%m-%d %H:%M:%S}.000\tn001:0\tolmo_core.train:89\tINFO"
        head = f"{now}\t[step={index + 1}/{count},epoch=1,eta=0:10:00]\n    train/CE loss={run.losses[index]:.4g}\n"
        before = f"{head}    optim/total grad norm=1.2504\n    throughput/device/TPS="
        if index:
            rate = tokens / run.steps_s[index]
            yield step_line(
                at_s, index + 1, before, f"{round(rate):,}", f"\n    throughput/device/TPS (actual avg)={rate:,.0f}\n"
            )
        else:
            yield Event(at_s, head.encode())


#: The writers of all formats of trainings, by the format's name.
TRAININGS: Mapping[str, Writer] = {
    **WRITERS,
    **{one.__name__: with_identity(one) for one in (torchtitan, automodel, composer, deepspeed, nanotron)},
    "olmo-core": with_identity(olmo_core),
}
#: The writer of every registered format.
ALL_WRITERS: Mapping[str, Writer] = {**TRAININGS, **BENCHMARKS}
