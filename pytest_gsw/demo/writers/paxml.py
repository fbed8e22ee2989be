"""Paxml: absl log lines, `programs.py` and `executors.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_line


def _absl(run: Run, at_s: float, rank: int, place: str, text: str) -> str:
    thread = 139683713698688 + 4096 * rank
    return f"I{clock(run, at_s):%m%d %H:%M:%S.%f} {thread} {place}] {text}"


def _configuration(run: Run) -> Iterator[tuple[str, str]]:
    """Fiddle's configuration of Paxml, each line with the place in ``train.py`` that prints it."""
    model = "model.lm_tpl"
    yield "train.py:186", f"  input.seq_len : {run.sequence_length}"
    lines = {
        "model.dtype": "type/jax.numpy/float32",
        "model.fprop_dtype": "dtype[bfloat16]",
        f"{model}.fprop_dtype": "NoneType",
        f"{model}.model_dims": run.hidden_size,
        f"{model}.stacked_transformer_tpl.block.num_layers": 1,
        f"{model}.stacked_transformer_tpl.x_times": run.layers,
        "train.num_train_steps": len(run.steps_s),
    }
    yield from (("train.py:189", f"  {name} : {value}") for name, value in lines.items())


def paxml(run: Run) -> Iterator[Event]:
    """Two ranks that measure the same steps differently; only the first steps are printed."""

    def say(at_s: float, place: str, text: str, ranks: Iterable[int] = (0, 1)) -> Iterator[Event]:
        return lines(at_s, *(_absl(run, at_s, rank, place, text) for rank in ranks))

    yield from say(20.0, "py_utils.py:1018", "[PAX STATUS]: E2E time: Starting timer for <_main> @ <.../paxml/main.py>")
    yield from say(21.0, "setup_jax.py:80", f"jax.device_count(): {run.job.gpus}")
    for place, line in _configuration(run):
        yield from say(21.5, place, line)
    yield from say(22.0, "executors.py:229", "[PAX STATUS]: Starting checkpoint load / variable init.")
    yield from say(40.0, "executors.py:244", "[PAX STATUS]: Checkpoint load / variable init took 18 seconds")
    yield from say(STARTUP_S, "executors.py:350", "[PAX STATUS]: Starting training loop.")
    at_s = STARTUP_S
    for index, times_s in enumerate(zip(run.steps_s, run.second_rank_s, strict=True)):
        few = index < 5
        if few:
            yield from say(at_s, "executors.py:398", f"[PAX STATUS]: Beginning step `{index}`.")
        at_s += times_s[0]
        # The ranks finish in no fixed order.
        for rank in (index % 2, 1 - index % 2) if index < run.logged_steps else ():
            before = _absl(run, at_s, rank, "programs.py:366", "[PAX STATUS]: train_step() took ")
            yield step_line(at_s, index + 1, before, f"{times_s[rank]:f}", " seconds.\n")
        if few:
            yield from say(at_s, "executors.py:497", f"[PAX STATUS]: Step `{index}` completed.")
        if (index + 1) % 10 == 0:
            loss = f"[PAX STATUS] step_i: {index + 1}, training loss: {run.losses[index]:.7g}"
            yield from say(at_s, "summary_utils.py:901", loss, ranks=(0,))
    yield from say(at_s + 2, "eval_lib.py:90", "[PAX STATUS]: Completed running eval programs in  1.902341 seconds.")
    elapsed = f"[PAX STATUS]: E2E time: Elapsed time for <_main>: {at_s - 16:.2f} seconds"
    yield from say(at_s + 4, "py_utils.py:1028", f"{elapsed}  (@ <.../paxml/main.py>)")
