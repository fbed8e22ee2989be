"""Each framework's log of a simulated run, as a stream of timed events.

A writer yields the bytes that the framework would write, with the (virtual) second of each. The forms are those of the
frameworks' own print statements, named at each writer. Further lines are there because real logs have them, and because
many of them resemble step times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, takewhile
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.demo import FIRST_LINE
from pytest_gsw.demo.simulation import SimulatedRun

#: Virtual seconds before the first step: container, rendezvous, model and optimizer.
STARTUP_S = 45.0


class Event(NamedTuple):
    """One output of the framework."""

    #: Virtual seconds since the start of the run.
    at_s: float
    data: bytes
    #: Number of the logged step that this reports, from 1; 0 for none.
    step: int = 0
    #: Place in :attr:`data` of the last character of the step's figure; 0 if it holds no figure.
    figure_end: int = 0


#: Writes the log of a run.
Writer = Callable[["SimulatedRun"], Iterator[Event]]


def lines(at_s: float, *texts: str) -> Iterator[Event]:
    """Whole lines that are written at one time."""
    yield from (Event(at_s, f"{text}\n".encode()) for text in texts)


def step_line(at_s: float, step: int, before: str, figure: str, after: str) -> Event:
    """The line of a step; its figure is passed separately, because a log can be cut inside it."""
    head = f"{before}{figure}".encode()
    return Event(at_s, head + after.encode(), step, len(head) - 1)


def clock(run: SimulatedRun, at_s: float) -> datetime:
    """Time on the run's clock."""
    return run.started + timedelta(seconds=at_s)


def step_ends_s(steps_s: Iterable[float], start_s: float) -> tuple[float, ...]:
    """End of each step, seconds."""
    return tuple(accumulate(steps_s, initial=start_s))[1:]


def identity(run: SimulatedRun) -> str:
    """The line with the identity of a recipe's log."""
    workload, job = run.baseline.workload, run.job
    return (
        f"GSW: MODEL={workload.model} FRAMEWORK={workload.framework} MODEL_SIZE={job.size} JOB_NUM_NODES={job.nodes}"
        f" GPUS_PER_NODE={job.gpus_per_node} DTYPE={job.dtype} SYNTHETIC_DATA=True GSW_VERSION={job.version}"
        f" FW_VERSION=simulation IMAGE='simulation' JOB_ID={job.id} JOB_MODE=training"
        " OPTIMIZATION_NAME='' OPTIMIZATION_CODE='' BASE_CONFIG=''"
    )


# -- tqdm's bars --


def bar_of(done: int, total: int, elapsed_s: float) -> str:
    """A tqdm bar up to the remaining time: the percentage, and ten columns in eighths of a character."""
    whole, eighths = divmod(done * 80 // total, 8)
    columns = "█" * whole + (" ▏▎▍▌▋▊▉"[eighths] if eighths else "")
    left = _interval(elapsed_s / done * (total - done)) if done else "?"
    return f"{100 * done / total:3.0f}%|{columns:<10}| {done}/{total} [{_interval(elapsed_s)}<{left}"


def _interval(seconds: float) -> str:
    """A duration: ``01:02``, ``1:02:03``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


# -- Paxml: absl log lines, `programs.py` and `executors.py` --


def _absl(run: SimulatedRun, at_s: float, rank: int, place: str, text: str) -> str:
    thread = 139683713698688 + 4096 * rank
    return f"I{clock(run, at_s):%m%d %H:%M:%S.%f} {thread} {place}] {text}"


def _paxml_configuration(run: SimulatedRun) -> Iterator[tuple[str, str]]:
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


def paxml(run: SimulatedRun) -> Iterator[Event]:
    """Two ranks that measure the same steps differently; only the first steps are printed."""

    def log(at_s: float, place: str, text: str, ranks: Iterable[int] = (0, 1)) -> Iterator[Event]:
        return lines(at_s, *(_absl(run, at_s, rank, place, text) for rank in ranks))

    yield from log(20.0, "py_utils.py:1018", "[PAX STATUS]: E2E time: Starting timer for <_main> @ <.../paxml/main.py>")
    yield from log(21.0, "setup_jax.py:80", f"jax.device_count(): {run.job.gpus}")
    for place, line in _paxml_configuration(run):
        yield from log(21.5, place, line)
    yield from log(40.0, "executors.py:244", "[PAX STATUS]: Checkpoint load / variable init took 18 seconds")
    yield from log(STARTUP_S, "executors.py:350", "[PAX STATUS]: Starting training loop.")
    at_s = STARTUP_S
    for index, times_s in enumerate(zip(run.steps_s, run.second_rank_s, strict=True)):
        at_s += times_s[0]
        # The ranks finish in no fixed order.
        for rank in (index % 2, 1 - index % 2) if index < run.logged_steps else ():
            before = _absl(run, at_s, rank, "programs.py:366", "[PAX STATUS]: train_step() took ")
            yield step_line(at_s, index + 1, before, f"{times_s[rank]:f}", " seconds.\n")
        if (index + 1) % 10 == 0:
            loss = f"[PAX STATUS] step_i: {index + 1}, training loss: {run.losses[index]:.7g}"
            yield from log(at_s, "summary_utils.py:901", loss, ranks=(0,))
    elapsed = f"[PAX STATUS]: E2E time: Elapsed time for <_main>: {at_s - 16:.2f} seconds"
    yield from log(at_s + 4, "py_utils.py:1028", f"{elapsed}  (@ <.../paxml/main.py>)")


# -- NeMo 1: Lightning's tqdm bar --


def _lightning(value: float) -> str:
    """A number as Lightning's progress bar pads tqdm's three digits."""
    rounded = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    text = min(str(value), rounded, key=len)  # tqdm rounds only if that is shorter
    if "e" in text:
        return text
    if "." not in text and len(text) < 5:
        text += "."
    return text.ljust(5, "0")


def _nemo_metrics(run: SimulatedRun, index: int) -> tuple[str, str]:
    """The metrics of one step in the bar: all before the step time, and the step time."""
    metrics = {
        "v_num": "demo",
        "reduced_train_loss": _lightning(run.losses[index]),
        "global_step": _lightning(float(index)),
        "consumed_samples": _lightning(float((index + 1) * run.global_batch_size)),
    }
    before = "".join(f", {name}={value}" for name, value in metrics.items())
    return f"{before}, train_step_timing in s=", _lightning(run.steps_s[index])


def _nemo_configuration(run: SimulatedRun) -> Iterator[str]:
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


def nemo(run: SimulatedRun) -> Iterator[Event]:
    """A bar on one line of carriage returns. Each step is drawn twice, first with the step before's metrics.

    The recipes show the mean of the last five steps, the demo each step's own time: the mean of a steady run without
    the first step's effect on the next four.
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
        *_nemo_configuration(run),
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


# -- MaxText: `metric_logger.py`, formerly `train.py` --


_PROFILING_STEPS = 15
#: The profiling run of the MaxText recipe has latency hiding off.
_PROFILING_SLOWDOWN = 1.15


def _parameters(run: SimulatedRun, steps: int) -> Iterator[str]:
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


def maxtext(run: SimulatedRun) -> Iterator[Event]:
    """Two runs in one log, the first a slower one for the profile; every rank prints every step."""
    row, gpus = run.baseline, run.job.gpus
    tokens_per_step = run.sequence_length * run.global_batch_size
    flops_per_step = (row.workload.model_flops_per_sample or 0.0) * run.global_batch_size

    def step_event(at_s: float, index: int, seconds: float, loss: float, step: int) -> Event:
        rates = f"TFLOP/s/device: {flops_per_step / seconds / gpus / 1e12:.3f}"
        rates += f", Tokens/s/device: {tokens_per_step / seconds / gpus:.3f}"
        after = f", {rates}, total_weights: {tokens_per_step}, loss: {loss:.3f}\n"
        return step_line(at_s, step, f"completed step: {index}, seconds: ", f"{seconds:.3f}", after)

    yield from lines(25.0, *_parameters(run, _PROFILING_STEPS))
    at_s = STARTUP_S
    for index in range(_PROFILING_STEPS):
        # Time and loss repeat if the measured run is the shorter one.
        source = index % len(run.steps_s)
        at_s += run.steps_s[source] * _PROFILING_SLOWDOWN
        loss = 11.8 if math.isnan(run.losses[source]) else run.losses[source]
        for rank_s in (run.steps_s, run.second_rank_s):
            yield step_event(at_s, index, rank_s[source] * _PROFILING_SLOWDOWN, loss, step=0)
    yield from lines(at_s + 20, "Generating '/tmp/nsys-report-demo.qdstrm'", *_parameters(run, len(run.steps_s)))
    for index, end_s in enumerate(step_ends_s(run.steps_s, at_s + 60)):
        for rank_s in (run.steps_s, run.second_rank_s):
            yield step_event(end_s, index, rank_s[index], run.losses[index], index + 1)


# -- Megatron-LM: `training.py` --


def _moment(run: SimulatedRun, at_s: float, what: str) -> str:
    """`print_datetime` of Megatron-LM's `training.py`."""
    return f"[{what}] datetime: {clock(run, at_s):%Y-%m-%d %H:%M:%S} "


def _megatron_line(run: SimulatedRun, at_s: float, iteration: int) -> Event:
    """`log_string` of Megatron-LM's `training_log`: means over the iterations since the last such line."""
    window = slice(iteration - run.log_interval, iteration)
    loss = statistics.fmean(run.losses[window])
    before = f" iteration {iteration:8d}/{len(run.steps_s):8d} |"
    before += f" consumed samples: {iteration * run.global_batch_size:12d} | elapsed time per iteration (ms): "
    after = (
        f" | learning rate: {1.5e-4 * min(1.0, iteration / 8):.3E} | global batch size: {run.global_batch_size:5d} |"
    )
    after += f" lm loss: {loss:.6E} | loss scale: 4096.0 | grad norm: {loss * 0.4:.3f} |"
    # Only an iteration that the loss scaler skips counts as a NaN iteration, whatever the loss.
    after += " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    figure = f"{statistics.fmean(run.steps_s[window]) * 1000:.1f}"
    return step_line(at_s, iteration // run.log_interval, before, figure, after)


def _arguments(run: SimulatedRun) -> Iterator[str]:
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


def megatron(run: SimulatedRun) -> Iterator[Event]:
    """Megatron-LM."""
    yield from lines(15.0, *_arguments(run))
    yield from lines(40.0, "time (ms) | model-and-optimizer-setup: 11002.57 | train/valid/test-data-iterators: 1280.95")
    yield from lines(STARTUP_S, "training ...", _moment(run, STARTUP_S, "before the start of training step"))
    total, saves_s, at_s = len(run.steps_s), run.checkpoint_saves_s, STARTUP_S
    #: The seconds of each save, by the iteration after which it is made.
    saves = {total * number // len(saves_s): seconds for number, seconds in enumerate(saves_s, 1)}
    for index, seconds in enumerate(run.steps_s):
        iteration = index + 1
        at_s += seconds
        if iteration % run.log_interval == 0:
            line = _megatron_line(run, at_s, iteration)
            # In a run that is about checkpoints, the figure that counts is the save's.
            yield line if not saves else line._replace(figure_end=0)
            phases = f"forward-compute: {seconds * 290:.2f} | backward-compute: {seconds * 680:.2f}"
            yield from lines(at_s, f"time (ms) | {phases} | optimizer: {seconds * 20:.2f}")
        if iteration in saves:
            place = f"checkpoint at iteration {iteration:7d} to /results/checkpoints"
            yield from lines(at_s, f"saving {place}")
            at_s += saves[iteration]
            yield from lines(at_s, f"  successfully saved {place}")
            step, took_ms = iteration // run.log_interval, f"{saves[iteration] * 1000:.2f}"
            yield step_line(at_s, step, "time (ms) | save-checkpoint: ", took_ms, "\n")
    yield from lines(at_s, _moment(run, at_s, "after training is done"))
    loss = run.losses[-1]
    values = f"lm loss value: {loss:.6E} | lm loss PPL: {math.exp(loss):.6E}"
    validation = f" validation loss at iteration {total} | {values} |"
    yield from lines(at_s + 5, validation, "[exiting program after the last iteration]")


# -- Hugging Face: `trainer.py`, `trainer_utils.speed_metrics` --


def huggingface(run: SimulatedRun) -> Iterator[Event]:
    """Trainer on two nodes: bars during training, and one mean over the whole run at its end, printed by each node."""
    total, runtime_s = len(run.steps_s), sum(run.steps_s)
    nodes = range(min(2, run.job.nodes))

    def info(at_s: float, place: str, text: str) -> str:
        now = clock(run, at_s)
        return f"[INFO|{place}] {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} >> {text}"

    def bar(done: int, elapsed_s: float) -> str:
        rate = elapsed_s / done if done else None
        speed = "?it/s" if rate is None else f"{rate:5.2f}s/it" if rate > 1 else f"{1 / rate:5.2f}it/s"
        return f"\r{bar_of(done, total, elapsed_s)}, {speed}]"

    precisions = f"bf16={run.precision == 'bf16'},", "bf16_full_eval=False,", f"fp16={run.precision == 'fp16'},"
    batch = f"per_device_train_batch_size={run.micro_batch_size},"
    yield from lines(25.0, "TrainingArguments(", *precisions, batch, ")")
    head = (
        "***** Running training *****",
        f"  Num examples = {run.global_batch_size * total}",
        f"  Instantaneous batch size per device = {run.micro_batch_size}",
        f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch_size}",
        f"  Total optimization steps = {total}",
    )
    for _ in nodes:
        yield from lines(30.0, *(info(30.0, "trainer.py:1143", line) for line in head))
    yield Event(STARTUP_S, bar(0, 0.0).encode())
    every = max(1, total // 10)
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        step = index + 1
        painted = bar(step, at_s - STARTUP_S).encode()
        yield from (Event(at_s, painted, step if step < total else 0) for _ in nodes)
        if step % every == 0:
            log = {"loss": round(run.losses[index], 4), "learning_rate": 5e-05, "epoch": round(step / total, 2)}
            yield from lines(at_s, f"{' ' * 46}{log}")
    end_s = STARTUP_S + runtime_s
    loss = statistics.fmean(run.losses)
    for node in nodes:
        # Each node has its own stopwatch.
        node_runtime_s = runtime_s + 0.0003 * runtime_s * node
        before = f"{{'train_runtime': {node_runtime_s:.4f}, 'train_samples_per_second': "
        after = f", 'train_steps_per_second': {total / node_runtime_s:.3f}, 'train_loss': {loss}, 'epoch': 1.0}}\n"
        yield step_line(end_s, total, before, f"{run.global_batch_size * total / node_runtime_s:.3f}", after)
    metrics = {
        "train_loss": f"{loss:.4f}",
        "train_runtime": f"{timedelta(seconds=int(runtime_s))}.00",
        "train_samples_per_second": f"{run.global_batch_size * total / runtime_s:.3f}",
    }
    block = ("***** train metrics *****", *(f"  {name:<24} = {value:>10}" for name, value in metrics.items()))
    yield from lines(
        end_s + 2,
        *(info(end_s + 2, "trainer_pt_utils.py:907", line) for line in block),
        "{'eval_loss': 6.4128, 'eval_runtime': 12.3071, 'eval_samples_per_second': 41.602, 'epoch': 1.0}",
    )


def with_identity(writer: Writer) -> Writer:
    """A writer with the identity lines first, and the documented calibration last, if the row has one."""

    def write(run: SimulatedRun) -> Iterator[Event]:
        # Two ranks print their identity, and NCCL prints its own line.
        yield from lines(0.0, FIRST_LINE, identity(run), identity(run))
        for rank in range(min(2, run.job.gpus)):
            place = f"demo-node-0001:{4100 + rank}:{4200 + rank} [{rank}]"
            yield from lines(8.0 + rank / 10, f"{place} NCCL INFO Bootstrap : Using eth0:192.0.2.1<0>")
        at_s = 0.0
        for event in writer(run):
            at_s = event.at_s
            yield event
        if run.baseline.calibration_flops is not None:
            yield from lines(at_s, f"GSW: CALIBRATION_FLOPS={run.baseline.calibration_flops!r}")

    return write


#: The writer of each log format that a bundled row of a training has, by the format's name.
WRITERS: Mapping[str, Writer] = {
    one.__name__: with_identity(one) for one in (paxml, nemo, maxtext, megatron, huggingface)
}


# -- The rest of a healthy log after a fault, and the last lines that the fault adds --

_XLA_FORMATS = frozenset({"paxml", "maxtext"})
_STEPS_BEFORE_FAILURE = 3


def damage(healthy: Sequence[Event], run: SimulatedRun, word: str, last: int = 0, node: str = "") -> tuple[Event, ...]:
    """The events of a run with a fault; faults that do not show in the log leave it unchanged.

    ``last`` is the last step before ``node`` is lost.
    """
    count = run.logged_steps
    match word:
        case "oom":
            return _append(before_training(healthy), _out_of_memory(run))
        case "fail":
            return _append(_until(healthy, min(_STEPS_BEFORE_FAILURE, count - 1)), _TRACEBACK)
        case "oom-kill":
            killed = f"slurmstepd: error: Detected 1 oom_kill event in StepId={run.job.id}.0"
            return _append(_until(healthy, count // 3), (f"{killed}. Some of the step tasks have been OOM Killed.",))
        case "lost":
            return _append(_until(healthy, last), _node_failure(run, healthy[-1].at_s, node))
        case "stall":
            return _until(healthy, count // 2)
        case "short":
            return _until(healthy, count * 6 // 10)
        case "truncated":
            return tuple(_truncate(healthy, count))
        case "no-log":
            return ()
        case _:
            return tuple(healthy)


#: The line of a framework that begins again from a checkpoint.
_LOADS = {"nemo": "Restoring states from the checkpoint path at {}"}


def resume(healthy: Sequence[Event], log_format: str, step: int, checkpoint: Path) -> tuple[Event, ...]:
    """The events of a run that begins again after the step of a checkpoint; of a format that does not, all events."""
    if log_format not in _LOADS or not step:
        return tuple(healthy)
    head, done = before_training(healthy), _until(healthy, step)
    at_s = head[-1].at_s
    saved_s = at_s - next(event.at_s for event in reversed(done) if event.step)
    rest = (event._replace(at_s=event.at_s + saved_s) for event in healthy[len(done) :])
    return (*head[:-1], *lines(at_s, _LOADS[log_format].format(checkpoint)), head[-1], *rest)


def before_training(events: Sequence[Event]) -> tuple[Event, ...]:
    """The events before the first one about a step."""
    return tuple(takewhile(lambda event: not event.step and not event.figure_end, events))


def _until(events: Sequence[Event], steps: int) -> tuple[Event, ...]:
    """The events up to the last one of the given step."""
    return tuple(takewhile(lambda event: event.step <= steps, events))


def _append(events: tuple[Event, ...], lines: Iterable[str]) -> tuple[Event, ...]:
    at_s = events[-1].at_s
    # A crash does not wait for a progress bar to end its line.
    return (*events, *(Event(at_s, f"{line}\n".encode()) for line in ("", *lines)))


def _truncate(events: Sequence[Event], last: int) -> Iterator[Event]:
    """All up to the last character of the last step's figure: the rest looks like a (smaller) number."""
    for event in events:
        if event.step == last and event.figure_end:
            yield event._replace(data=event.data[: event.figure_end])
            return
        yield event


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 212, in <module>',
    "    main()",
    '  File "/workspace/train.py", line 187, in main',
    "    loss = train_step(state, next(batches))",
    "RuntimeError: shape '[4096, 8192]' is invalid for input of size 33550336",
)


def _node_failure(run: SimulatedRun, at_s: float, node: str) -> tuple[str, ...]:
    ended = f"*** STEP {run.job.id}.0 ON {node} CANCELLED AT {clock(run, at_s):%Y-%m-%dT%H:%M:%S} DUE TO NODE FAILURE"
    return f"srun: error: Node failure on {node}", f"slurmstepd: error: {ended}, SEE SLURMCTLD LOG FOR DETAILS ***"


_XLA_OUT_OF_MEMORY = (
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 431, in train_loop',
    "    state, metrics = p_train_step(state, batch, rng)",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB.",
    "BufferAssignment OOM Debugging.",
)


def _out_of_memory(run: SimulatedRun) -> tuple[str, ...]:
    if run.baseline.workload.log_format in _XLA_FORMATS:
        return _XLA_OUT_OF_MEMORY
    rank = min(3, run.job.gpus - 1)
    trace = (
        "Traceback (most recent call last):",
        '  File "/workspace/pretrain.py", line 118, in <module>',
        "    trainer.fit(model)",
        '  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 117, in forward',
        "    return F.linear(input, self.weight, self.bias)",
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU {rank} has 829.50 MiB free.",
    )
    return tuple(f"[rank{rank}]: {line}" for line in trace)
