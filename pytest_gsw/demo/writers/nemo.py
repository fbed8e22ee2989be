"""NeMo 1: Lightning's tqdm bar."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.bars import bar_of
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_ends_s, step_line


def _lightning(value: float) -> str:
    """A number as Lightning's progress bar pads what tqdm has rounded to three digits."""
    rounded = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    text = min(str(value), rounded, key=len)  # tqdm rounds only where that is shorter
    if "e" in text:
        return text
    if "." not in text and len(text) < 5:
        text += "."
    return text.ljust(5, "0")


def _nemo_metrics(run: Run, index: int) -> tuple[str, str]:
    """The metrics of one step in the bar: all before the step time, and the step time."""
    metrics = {
        "v_num": "demo",
        "reduced_train_loss": _lightning(run.losses[index]),
        "global_step": _lightning(float(index)),
        "consumed_samples": _lightning(float((index + 1) * run.global_batch_size)),
    }
    before = "".join(f", {name}={value}" for name, value in metrics.items())
    return f"{before}, train_step_timing in s=", _lightning(run.steps_s[index])


def _configuration(run: Run) -> Iterator[str]:
    """NeMo 1's configuration, as OmegaConf writes it below a message."""
    row, parallel = run.baseline, run.degrees
    yield from (
        "    name: megatron_gpt",
        "    trainer:",
        f"      num_nodes: {run.job.nodes}",
        "      precision: " + {"bf16": "bf16", "fp16": "16", "fp32": "32"}[run.precision],
        f"      max_steps: {len(run.steps_s)}",
        "    exp_manager:",
        "      log_step_timing: true",
        "      step_timing_kwargs:",
        "        sync_cuda: true",
        "        buffer_size: 5",
        "    model:",
        f"      micro_batch_size: {run.micro_batch_size}",
        f"      global_batch_size: {run.global_batch_size}",
        f"      tensor_model_parallel_size: {parallel['tp']}",
        f"      pipeline_model_parallel_size: {parallel['pp']}",
        f"      virtual_pipeline_model_parallel_size: {row.parallelism.vp or 'null'}",
        f"      context_parallel_size: {parallel['cp']}",
        f"      expert_model_parallel_size: {parallel['ep']}",
        f"      encoder_seq_length: {run.sequence_length}",
        "      max_position_embeddings: ${.encoder_seq_length}",
        f"      num_layers: {run.layers}",
        f"      hidden_size: {run.hidden_size}",
        f"      fp8: {str(run.quantization == 'fp8').lower()}",
        "      fp8_amax_history_len: 1024",
        "      data:",
        f"        seq_length: {run.sequence_length}",
    )


def nemo(run: Run) -> Iterator[Event]:
    """A bar on one line of carriage returns. Each step is drawn twice, first with the step before's metrics.

    The recipes show the mean of the last five steps, the demo each step's own time: what the
    mean comes to on a steady run, without the first step's shadow on the next four.
    """
    total = len(run.steps_s)

    def status(at_s: float, level: str, place: str, text: str) -> str:
        return f"[NeMo {level} {clock(run, at_s):%Y-%m-%d %H:%M:%S} {place}] {text}"

    def head(done: int, at_s: float) -> str:
        return f"\rEpoch 0: : {bar_of(done, total, at_s - STARTUP_S)}"

    yield from lines(
        20.0,
        status(20.0, "I", "exp_manager:396", "Experiments will be logged at /results/demo"),
        status(20.0, "I", "megatron_gpt_pretraining:37", ""),
        *_configuration(run),
        "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:03<00:00,  1.63s/it]",
    )
    yield Event(STARTUP_S, head(0, STARTUP_S).encode() + b"]")
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        bar = head(index + 1, at_s)
        if index:
            yield Event(at_s, f"{bar}{''.join(_nemo_metrics(run, index - 1))}]".encode())
        before, figure = _nemo_metrics(run, index)
        yield step_line(at_s, index + 1, bar + before, figure, "]")
        if index + 1 == total // 2:
            # Other messages do not wait for the bar's line to end.
            warning = "UserWarning: The dataloader, val_dataloader, does not have many workers."
            yield from lines(at_s, status(at_s, "W", "nemo_logging:349", warning))
    end_s = STARTUP_S + sum(run.steps_s)
    last = f"{head(total, end_s)}{''.join(_nemo_metrics(run, total - 1))}]"
    yield from lines(end_s + 1, f"{last}`Trainer.fit` stopped: `max_steps={total}` reached.", last)
