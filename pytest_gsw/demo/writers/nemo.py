"""NeMo 1: Lightning's tqdm bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gsw.demo import configuration
from pytest_gsw.demo.writers.bars import bar_of, interval
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, preamble, step_ends_s, step_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gsw.demo.simulation import Run


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


def nemo(run: Run) -> Iterator[Event]:
    """A bar on one line of carriage returns. Each step is drawn twice, first with the step before's metrics.

    The recipes show the mean of the last five steps, the demo each step's own time: what the
    mean comes to on a steady run, without the first step's shadow on the next four.
    """
    total = len(run.steps_s)

    def status(at_s: float, level: str, place: str, text: str) -> str:
        return f"[NeMo {level} {clock(run, at_s):%Y-%m-%d %H:%M:%S} {place}] {text}"

    def head(done: int, at_s: float) -> str:
        elapsed_s = at_s - STARTUP_S
        left = interval(elapsed_s / done * (total - done)) if done else "?"
        return f"\rEpoch 0: : {bar_of(done, total)}| {done}/{total} [{interval(elapsed_s)}<{left}"

    yield from preamble(run)
    yield from lines(
        20.0,
        status(20.0, "I", "exp_manager:396", "Experiments will be logged at /results/demo"),
        status(20.0, "I", "megatron_gpt_pretraining:37", ""),
        *configuration.nemo(run),
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
