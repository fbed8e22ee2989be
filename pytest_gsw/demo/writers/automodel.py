"""NeMo AutoModel's benchmark: `recipes/llm/benchmark.py`."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_ends_s, step_line


def automodel(run: Run) -> Iterator[Event]:
    """Three lines for each iteration, by the first rank; the time is the slowest rank's."""
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
