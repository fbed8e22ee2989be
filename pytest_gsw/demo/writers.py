"""Each framework's log of a simulated run, as a stream of timed events.

A writer yields bytes as the framework would have written them, with the (virtual) second at
which it would have. The forms are those of the frameworks' own print statements, named at
each writer; what surrounds the step lines is there because real logs have it, and because
much of it looks like a step time and is none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pytest_gsw.demo import configuration

if TYPE_CHECKING:
    from datetime import datetime

    from pytest_gsw.demo.simulation import Run

FIRST_LINE = "pytest-gsw demo: this is a simulation, no GPU was used"

#: Virtual seconds before the first step: container, rendezvous, model and optimizer.
STARTUP_S = 45.0
_PROFILING_STEPS = 15
#: The profiling run of the MaxText recipe has latency hiding off.
_PROFILING_SLOWDOWN = 1.15


class Event(NamedTuple):
    """Something that the framework writes."""

    #: Virtual seconds since the start of the run.
    at_s: float
    data: bytes
    #: Which of the logged steps this reports, from 1; 0 for none.
    step: int = 0
    #: Where in :attr:`data` the step's figure has its last character; 0 if it holds no figure.
    figure_end: int = 0


Writer = Callable[["Run"], Iterator[Event]]


def _lines(at_s: float, *texts: str) -> Iterator[Event]:
    yield from (Event(at_s, f"{text}\n".encode()) for text in texts)


def _step(at_s: float, step: int, before: str, figure: str, after: str) -> Event:
    """The line of a step; its figure is kept apart, so that a log can be cut off inside it."""
    head = f"{before}{figure}".encode()
    return Event(at_s, head + after.encode(), step, len(head) - 1)


def _clock(run: Run, at_s: float) -> datetime:
    return run.started + timedelta(seconds=at_s)


def _step_ends_s(steps_s: Iterable[float], start_s: float) -> tuple[float, ...]:
    return tuple(accumulate(steps_s, initial=start_s))[1:]


def identity(run: Run) -> str:
    """The line by which a recipe's log says whose it is."""
    row, job = run.baseline, run.job
    return (
        f"GSW: MODEL={row.model} FRAMEWORK={row.framework} MODEL_SIZE={job.size} JOB_NUM_NODES={job.nodes}"
        f" GPUS_PER_NODE={job.gpus_per_node} DTYPE={job.dtype} SYNTHETIC_DATA=True GSW_VERSION={job.version}"
        f" FW_VERSION=simulation IMAGE='simulation' JOB_ID={job.id} JOB_MODE=training"
        f" OPTIMIZATION_NAME='{job.optimization_name}' OPTIMIZATION_CODE='{job.optimization_code}' BASE_CONFIG=''"
    )


def _preamble(run: Run) -> Iterator[Event]:
    """What stands at the top of every log: two ranks say who they are, and NCCL says much more."""
    yield from _lines(0.0, FIRST_LINE, identity(run), identity(run))
    for rank in range(min(2, run.job.gpus)):
        prefix = f"demo-node-0001:{4100 + rank}:{4200 + rank} [{rank}] NCCL INFO"
        yield from _lines(
            8.0 + rank / 10,
            f"{prefix} Bootstrap : Using eth0:192.0.2.1<0>",
            f"{prefix} NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
            f"{prefix} ncclCommInitRank comm 0x55d0c0de{rank:04x} rank {rank} nranks {run.job.gpus} - Init COMPLETE",
        )


# ---- Paxml: absl log lines, `programs.py` and `executors.py` -----------------------------------


def _absl(run: Run, at_s: float, rank: int, place: str, text: str) -> str:
    thread = 139683713698688 + 4096 * rank
    return f"I{_clock(run, at_s):%m%d %H:%M:%S.%f} {thread} {place}] {text}"


def paxml(run: Run) -> Iterator[Event]:
    """Two ranks that measure the same steps differently; only the first steps are printed."""

    def say(at_s: float, place: str, text: str, ranks: Iterable[int] = (0, 1)) -> Iterator[Event]:
        return _lines(at_s, *(_absl(run, at_s, rank, place, text) for rank in ranks))

    yield from _preamble(run)
    yield from say(20.0, "py_utils.py:1018", "[PAX STATUS]: E2E time: Starting timer for <_main> @ <.../paxml/main.py>")
    yield from say(21.0, "setup_jax.py:80", f"jax.device_count(): {run.job.gpus}")
    for place, line in configuration.paxml(run):
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
            yield _step(at_s, index + 1, before, f"{times_s[rank]:f}", " seconds.\n")
        if few:
            yield from say(at_s, "executors.py:497", f"[PAX STATUS]: Step `{index}` completed.")
        if (index + 1) % 10 == 0:
            loss = f"[PAX STATUS] step_i: {index + 1}, training loss: {run.losses[index]:.7g}"
            yield from say(at_s, "summary_utils.py:901", loss, ranks=(0,))
    yield from say(at_s + 2, "eval_lib.py:90", "[PAX STATUS]: Completed running eval programs in  1.902341 seconds.")
    elapsed = f"[PAX STATUS]: E2E time: Elapsed time for <_main>: {at_s - 16:.2f} seconds"
    yield from say(at_s + 4, "py_utils.py:1028", f"{elapsed}  (@ <.../paxml/main.py>)")


# ---- NeMo 1: Lightning's tqdm bar --------------------------------------------------------------


def _bar(done: int, total: int) -> str:
    """The percentage and the ten columns of a tqdm bar, in eighths of a character."""
    whole, eighths = divmod(done * 80 // total, 8)
    columns = "█" * whole + (" ▏▎▍▌▋▊▉"[eighths] if eighths else "")
    return f"{100 * done / total:3.0f}%|{columns:<10}"


def _interval(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


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
        return f"[NeMo {level} {_clock(run, at_s):%Y-%m-%d %H:%M:%S} {place}] {text}"

    def head(done: int, at_s: float) -> str:
        elapsed_s = at_s - STARTUP_S
        left = _interval(elapsed_s / done * (total - done)) if done else "?"
        return f"\rEpoch 0: : {_bar(done, total)}| {done}/{total} [{_interval(elapsed_s)}<{left}"

    yield from _preamble(run)
    yield from _lines(
        20.0,
        status(20.0, "I", "exp_manager:396", "Experiments will be logged at /results/demo"),
        status(20.0, "I", "megatron_gpt_pretraining:37", ""),
        *configuration.nemo(run),
        "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:03<00:00,  1.63s/it]",
    )
    yield Event(STARTUP_S, head(0, STARTUP_S).encode() + b"]")
    for index, at_s in enumerate(_step_ends_s(run.steps_s, STARTUP_S)):
        bar = head(index + 1, at_s)
        if index:
            yield Event(at_s, f"{bar}{''.join(_nemo_metrics(run, index - 1))}]".encode())
        before, figure = _nemo_metrics(run, index)
        yield _step(at_s, index + 1, bar + before, figure, "]")
        if index + 1 == total // 2:
            # Other messages do not wait for the bar's line to end.
            warning = "UserWarning: The dataloader, val_dataloader, does not have many workers."
            yield from _lines(at_s, status(at_s, "W", "nemo_logging:349", warning))
    end_s = STARTUP_S + sum(run.steps_s)
    last = f"{head(total, end_s)}{''.join(_nemo_metrics(run, total - 1))}]"
    yield from _lines(end_s + 1, f"{last}`Trainer.fit` stopped: `max_steps={total}` reached.", last)


# ---- MaxText: `metric_logger.py`, formerly `train.py` ------------------------------------------


def maxtext(run: Run) -> Iterator[Event]:
    """Two runs in one log, the first a slower one for the profile; every rank prints every step."""
    row, gpus = run.baseline, run.job.gpus
    tokens_per_step = row.sequence_length * run.global_batch_size
    flops_per_step = (row.model_flops_per_sample or 0.0) * run.global_batch_size

    def completed(at_s: float, index: int, seconds: float, loss: float, step: int) -> Event:
        rates = f"TFLOP/s/device: {flops_per_step / seconds / gpus / 1e12:.3f}"
        rates += f", Tokens/s/device: {tokens_per_step / seconds / gpus:.3f}"
        after = f", {rates}, total_weights: {tokens_per_step}, loss: {loss:.3f}\n"
        return _step(at_s, step, f"completed step: {index}, seconds: ", f"{seconds:.3f}", after)

    yield from _preamble(run)
    yield from _lines(
        25.0,
        f"Num_devices: {gpus}, shape (1, {gpus}, 1, 1, 1)",
        "Setting up checkpoint logger...",
        *configuration.maxtext(run, _PROFILING_STEPS),
    )
    at_s = STARTUP_S
    for index in range(_PROFILING_STEPS):
        # Time and loss repeat where the measured run is the shorter one.
        source = index % len(run.steps_s)
        at_s += run.steps_s[source] * _PROFILING_SLOWDOWN
        for rank_s in (run.steps_s, run.second_rank_s):
            yield completed(at_s, index, rank_s[source] * _PROFILING_SLOWDOWN, _finite(run.losses[source]), step=0)
    yield from _lines(
        at_s + 20,
        "Generating '/tmp/nsys-report-demo.qdstrm'",
        "[1/1] [========================100%] profile.nsys-rep",
        *configuration.maxtext(run, len(run.steps_s)),
    )
    for index, end_s in enumerate(_step_ends_s(run.steps_s, at_s + 60)):
        for rank_s in (run.steps_s, run.second_rank_s):
            yield completed(end_s, index, rank_s[index], run.losses[index], index + 1)
        if index == 0:
            yield from _lines(end_s, "To see full metrics 'tensorboard --logdir=/results/tensorboard/'")


def _finite(loss: float) -> float:
    return 11.8 if math.isnan(loss) else loss


# ---- Megatron-LM and DeepSpeed: `training.py`, `pipe/engine.py`, `timer.py` --------------------


def _moment(run: Run, at_s: float, what: str) -> str:
    """`print_datetime` of Megatron-LM's `training.py`."""
    return f"[{what}] datetime: {_clock(run, at_s):%Y-%m-%d %H:%M:%S} "


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
    return _step(at_s, iteration // run.log_interval, before, figure, after)


def _megatron_phases(seconds: float) -> str:
    return (
        f"time (ms) | forward-compute: {seconds * 290:.2f} | backward-compute: {seconds * 680:.2f}"
        f" | optimizer: {seconds * 20:.2f} | batch-generator: {seconds * 0.3:.2f}"
    )


def _deepspeed_info(run: Run, at_s: float, place: str, text: str) -> str:
    now = _clock(run, at_s)
    return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] [INFO] [{place}] {text}"


def _deepspeed_iteration(run: Run, at_s: float, index: int) -> Iterator[Event]:
    """What DeepSpeed adds about an iteration: the same step once more, in its own words and units."""
    seconds, step = run.steps_s[index], index + 1
    samples_per_s = run.global_batch_size / seconds
    rank_0 = f"[Rank 0] step={step}, skipped=0, lr=[{1.5e-4 * min(1.0, step / 8):.6g}], mom=[(0.9, 0.999)]"
    yield from _lines(at_s, _deepspeed_info(run, at_s, "logging.py:60:log_dist", rank_0))
    if (run.baseline.parallelism.pp or 1) > 1:
        rate = f"iter time (s): {seconds:.3f} samples/sec: {samples_per_s:.3f}"
        yield from _lines(at_s, f"steps: {step} loss: {run.losses[index]:.4f} {rate}")
    elif step > 2:
        throughput = f"0/{step}, SamplesPerSec={samples_per_s}"
        yield from _lines(at_s, _deepspeed_info(run, at_s, "timer.py:157:stop", throughput))


def _checkpoint_iterations(run: Run) -> Mapping[int, float]:
    """After which iterations a checkpoint is saved, and the seconds it takes."""
    saves, total = run.checkpoint_saves_s, len(run.steps_s)
    return {total * (number + 1) // len(saves): seconds for number, seconds in enumerate(saves)}


def _checkpoint(at_s: float, iteration: int, seconds: float, step: int) -> Iterator[Event]:
    yield from _lines(at_s - seconds, f"saving checkpoint at iteration {iteration:7d} to /results/checkpoints")
    yield from _lines(at_s, f"  successfully saved checkpoint at iteration {iteration:7d} to /results/checkpoints")
    yield _step(at_s, step, "time (ms) | save-checkpoint: ", f"{seconds * 1000:.2f}", "\n")


def megatron(run: Run) -> Iterator[Event]:
    """Megatron-LM, alone or under DeepSpeed, whose engines report every iteration too."""
    yield from _preamble(run)
    yield from _lines(15.0, *configuration.megatron(run), "> initializing torch distributed ...")
    yield from _lines(
        40.0, "time (ms) | model-and-optimizer-setup: 11002.57 | train/valid/test-data-iterators: 1280.95"
    )
    yield from _lines(STARTUP_S, "training ...", _moment(run, STARTUP_S, "before the start of training step"))
    saves, total = _checkpoint_iterations(run), len(run.steps_s)
    at_s = STARTUP_S
    for index, seconds in enumerate(run.steps_s):
        iteration = index + 1
        at_s += seconds
        if run.baseline.framework == "deepspeed":
            yield from _deepspeed_iteration(run, at_s, index)
        if iteration % run.log_interval == 0:
            line = _megatron_line(run, at_s, iteration)
            # In a run that is about checkpoints, the figure that counts is the save's.
            yield line if not saves else line._replace(figure_end=0)
            yield from _lines(at_s, _megatron_phases(seconds))
        if iteration == run.log_interval:
            memory = "memory (MB) | allocated: 10857.5625 | max allocated: 26118.22 | reserved: 28234.0"
            yield from _lines(at_s, f"[Rank 0] (after {iteration} iterations) {memory}")
        if iteration in saves:
            at_s += saves[iteration]
            yield from _checkpoint(at_s, iteration, saves[iteration], iteration // run.log_interval)
    yield from _lines(at_s, _moment(run, at_s, "after training is done"))
    ruler = "-" * 80
    loss = run.losses[-1]
    validation = (
        f" validation loss at iteration {total} | lm loss value: {loss:.6E} | lm loss PPL: {math.exp(loss):.6E} |"
    )
    yield from _lines(at_s + 5, ruler, validation, ruler, "[exiting program after the last iteration]")


def deepspeed(run: Run) -> Iterator[Event]:
    """A training loop around the DeepSpeed engine: its throughput timer, which never measures the first two steps."""
    yield from _preamble(run)
    yield from _lines(
        30.0,
        _deepspeed_info(run, 30.0, "logging.py:96:log_dist", "[Rank 0] DeepSpeed info: version=0.14.4"),
        *(_deepspeed_info(run, 30.0, "config.py:1001:print", line) for line in configuration.deepspeed(run)),
    )
    accumulation = run.baseline.gradient_accumulation_steps or 1
    for index, at_s in enumerate(_step_ends_s(run.steps_s, STARTUP_S)):
        step = index + 1
        yield from _lines(at_s, f"step: {step}, loss: {run.losses[index]:.4f}")
        if index < 2:
            continue
        average = run.global_batch_size / statistics.fmean(run.steps_s[2:step])
        place = f"epoch=0/micro_step={step * accumulation}/global_step={step}"
        before = _deepspeed_info(run, at_s, "timer.py:258:stop", f"{place}, RunningAvgSamplesPerSec={average}")
        figure = f"{run.global_batch_size / run.steps_s[index]}"
        after = ", MemAllocated=18.72GB, MaxMemAllocated=52.31GB\n"
        yield _step(at_s, step, f"{before}, CurrSamplesPerSec=", figure, after)
    end_s = STARTUP_S + sum(run.steps_s)
    yield from _lines(end_s + 1, "[Rank 0] time (ms) | fwd: 0.18 | bwd: 0.71 | step: 2.65")


# ---- Hugging Face: `trainer.py`, `trainer_utils.speed_metrics` ---------------------------------


def huggingface(run: Run) -> Iterator[Event]:
    """Trainer on two nodes: bars while it trains, one mean over the whole run at its end, printed by each node."""
    total, runtime_s = len(run.steps_s), sum(run.steps_s)
    nodes = range(min(2, run.job.nodes))

    def info(at_s: float, place: str, text: str) -> str:
        now = _clock(run, at_s)
        return f"[INFO|{place}] {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} >> {text}"

    def bar(done: int, elapsed_s: float) -> str:
        rate = elapsed_s / done if done else None
        speed = "?it/s" if rate is None else f"{rate:5.2f}s/it" if rate > 1 else f"{1 / rate:5.2f}it/s"
        left = "?" if rate is None else _interval(rate * (total - done))
        return f"\r{_bar(done, total)}| {done}/{total} [{_interval(elapsed_s)}<{left}, {speed}]"

    yield from _preamble(run)
    yield from _lines(25.0, *configuration.training_arguments(run))
    if run.baseline.dtype == "fp16":  # these rows train under DeepSpeed
        place = "config.py:752:print"
        yield from _lines(28.0, *(_deepspeed_info(run, 28.0, place, line) for line in configuration.deepspeed(run)))
    for _ in nodes:
        yield from _lines(
            30.0,
            info(30.0, "trainer.py:1143", "***** Running training *****"),
            info(30.0, "trainer.py:1144", f"  Num examples = {run.global_batch_size * total}"),
            info(30.0, "trainer.py:1145", "  Num Epochs = 1"),
            info(
                30.0,
                "trainer.py:1146",
                f"  Instantaneous batch size per device = {run.baseline.micro_batch_size or 1}",
            ),
            info(
                30.0,
                "trainer.py:1147",
                f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch_size}",
            ),
            info(30.0, "trainer.py:1149", f"  Total optimization steps = {total}"),
        )
    yield Event(STARTUP_S, bar(0, 0.0).encode())
    every = max(1, total // 10)
    for index, at_s in enumerate(_step_ends_s(run.steps_s, STARTUP_S)):
        step = index + 1
        painted = bar(step, at_s - STARTUP_S).encode()
        yield from (Event(at_s, painted, step if step < total else 0) for _ in nodes)
        if step % every == 0:
            log = {"loss": round(run.losses[index], 4), "learning_rate": 5e-05, "epoch": round(step / total, 2)}
            yield from _lines(at_s, f"{' ' * 46}{log}")
    end_s = STARTUP_S + runtime_s
    loss = statistics.fmean(run.losses)
    for node in nodes:
        # Each node has its own stopwatch.
        node_runtime_s = runtime_s + 0.0003 * runtime_s * node
        before = f"{{'train_runtime': {node_runtime_s:.4f}, 'train_samples_per_second': "
        after = f", 'train_steps_per_second': {total / node_runtime_s:.3f}, 'train_loss': {loss}, 'epoch': 1.0}}\n"
        yield _step(end_s, total, before, f"{run.global_batch_size * total / node_runtime_s:.3f}", after)
    yield from _lines(
        end_s + 2,
        *(info(end_s + 2, "trainer_pt_utils.py:907", line) for line in _train_metrics(run, runtime_s, loss)),
        "{'eval_loss': 6.4128, 'eval_runtime': 12.3071, 'eval_samples_per_second': 41.602, 'epoch': 1.0}",
    )


def _train_metrics(run: Run, runtime_s: float, loss: float) -> Iterator[str]:
    total = len(run.steps_s)
    seconds = int(runtime_s)
    metrics = {
        "epoch": "1.0",
        "train_loss": f"{loss:.4f}",
        "train_runtime": f"{timedelta(seconds=seconds)}.{int((runtime_s - seconds) * 100):02d}",
        "train_samples": f"{run.global_batch_size * total}",
        "train_samples_per_second": f"{run.global_batch_size * total / runtime_s:.3f}",
        "train_steps_per_second": f"{total / runtime_s:.3f}",
    }
    yield "***** train metrics *****"
    yield from (f"  {name:<24} = {value:>10}" for name, value in metrics.items())


def _then_calibrating(writer: Writer) -> Writer:
    """A writer whose runs tell the documented calibration when they have trained, where the row has one."""

    def write(run: Run) -> Iterator[Event]:
        at_s = 0.0
        for event in writer(run):
            at_s = event.at_s
            yield event
        if run.baseline.calibration_flops is not None:
            yield from _lines(at_s, f"GSW: CALIBRATION_FLOPS={run.baseline.calibration_flops!r}")

    return write


_TRAINERS: Mapping[str, Writer] = {
    "paxml": paxml,
    "nemo": nemo,
    "maxtext": maxtext,
    "megatron": megatron,
    "deepspeed": deepspeed,
    "huggingface": huggingface,
}
#: The writer of each log format.
WRITERS: Mapping[str, Writer] = {name: _then_calibrating(writer) for name, writer in _TRAINERS.items()}
