"""torchtitan: `metrics.py`, `train.py`."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_ends_s, step_line


def torchtitan(run: Run) -> Iterator[Event]:
    """Tokens per second of one GPU in whole numbers, and no step time; the first rank prints."""
    row, parallel, gpus = run.baseline, run.degrees, run.job.gpus
    tokens = run.sequence_length * run.global_batch_size / gpus
    flops = (row.model_flops_per_sample or 0.0) * run.global_batch_size / gpus

    def info(at_s: float, text: str) -> str:
        now = clock(run, at_s)
        return f"[rank0]:[titan] {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} - root - INFO - {text}"

    degrees = (
        f"pp={parallel['pp']}, dp_replicate=1, dp_shard={parallel['dp']}, cp={parallel['cp']}, tp={parallel['tp']}"
    )
    yield from lines(20.0, info(20.0, f"Building device mesh with parallelism: {degrees}, ep={parallel['ep']}"))
    model = f"{row.model} TransformerModelArgs(dim={run.hidden_size}, n_layers={run.layers})"
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
