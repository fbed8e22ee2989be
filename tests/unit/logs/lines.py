"""Step lines as the frameworks write them, for tests to build logs of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from random import Random

from pytest_gsw.demo.simulation import SimulatedJob, simulate
from pytest_gsw.demo.writers import Event
from pytest_gsw.logs.model import StepLog
from pytest_gsw.tables.model import Baseline, Recipe
from tests.unit.rows import LLAMA2_FP8_X128
from tests.writers import ALL_WRITERS

NOISE = b"node7:4242:4311 [3] NCCL INFO Channel 05/0 : 3[3] -> 4[4] via P2P/CUMEM\n"


def maxtext(step: int, seconds: str, loss: str = "8.125", head: str = "") -> bytes:
    return (
        f"{head}completed step: {step}, seconds: {seconds}, TFLOP/s/device: 301.500, "
        f"Tokens/s/device: 912.250, total_weights: 32768, loss: {loss}\n"
    ).encode()


def megatron(step: int, elapsed: str, total: int = 20, unit: str = "ms", head: str = "", rest: str = "") -> bytes:
    return (
        f"{head} iteration {step:8d}/{total:8d} | consumed samples: {step * 96:12d} | elapsed time per iteration "
        f"({unit}): {elapsed} | learning rate: 2.000E-04 | global batch size:    96 | lm loss: 9.500000E+00 |{rest}"
        " loss scale: 1.0 | grad norm: 1.250 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    ).encode()


def bar(done: int, step: str, seconds: str, total: str = "50") -> bytes:
    """A repaint of NeMo 1's bar, without the carriage return before it."""
    return (
        f"Epoch 0: :  10%|█         | {done}/{total} [00:30<04:10, v_num=ab12, reduced_train_loss=9.250, "
        f"global_step={step}, consumed_samples=640.0, train_step_timing in s={seconds}]"
    ).encode()


def dll(step: int, seconds: str) -> bytes:
    return (
        f"DLL 2031-02-03 04:05:06.789012 - {step} reduced_train_loss : 9.25  lr : 0.0  global_step : {step}.0  "
        f"train_backward_timing in s : 4.1e-05  grad_norm : 3.5  train_step_timing in s : {seconds}  epoch : 0 \n"
    ).encode()


def printer(iteration: int, global_step: int, seconds: str, epoch: int = 0, loss: str = "9.25") -> bytes:
    return (
        f"Training epoch {epoch}, iteration {iteration}/19 | lr: 1.5e-07 | global_batch_size: 256 | "
        f"global_step: {global_step} | reduced_train_loss: {loss} | train_step_timing in s: {seconds} | "
        "TFLOPS_per_GPU: 1.1e+03 | consumed_samples: 512\n"
    ).encode()


def paxml(seconds: str, thread: int = 139000000000001, head: str = "") -> bytes:
    status = f"[PAX STATUS]: train_step() took {seconds} seconds."
    return f"{head}I0203 04:05:06.789012 {thread} programs.py:381] {status}\n".encode()


def paxml_start(thread: int = 139000000000001, head: str = "") -> bytes:
    return f"{head}I0203 04:05:00.000001 {thread} main.py:491] [PAX STATUS]: Program start.\n".encode()


def titan(step: int, rate: str, head: str = "", word: str = "tps") -> bytes:
    return (
        f"{head}\x1b[31mstep: {step:2d}  \x1b[32mloss:  7.50000  \x1b[38;2;180;60;0mgrad_norm:  2.5000  "
        f"\x1b[38;2;54;234;195mmemory: 40.00GiB(50.00%)  \x1b[34m{word}: {rate}  \x1b[36mtflops: 1,014.13  "
        "\x1b[35mmfu: N/A\x1b[39m\n"
    ).encode()


def composer(batch: int, rate: str, head: str = "", loss: str = "7.5000", total: int = 20) -> bytes:
    block = (
        f"[batch={batch}/{total}]:",
        f"\t Train time/batch: {batch - 1}",
        f"\t Train loss/train/total: {loss}",
        "\t Train throughput/batches_per_sec: 0.2500",
        "\t Train throughput/samples_per_sec: 12.5000",
        f"\t Train throughput/device/tokens_per_sec: {rate}",
        "\t Train time/train: 0.0015",
    )
    return "".join(f"{head}{line}\n" for line in block).encode()


def automodel(step: int, seconds: str, head: str = "", loss: str = "7.5000") -> bytes:
    named = "2031-02-03 04:05:06 | INFO | nemo_automodel.recipes.llm.benchmark | "
    block = (
        f"{named}Rank 0 | Iteration {step}",
        f"num_label_tokens=1048576 | loss={loss}",
        f"{named}Rank 0 | Iteration {step} | num_label_tokens=1048576 | Max Memory Allocated: 61.42 GB | loss={loss}",
        f"{named}Max iter time: {seconds} seconds",
        f"{named}MFU: 38.123456%",
    )
    return "".join(f"{head}{line}\n" for line in block).encode()


def nanotron(step: int, elapsed: str, loss: str = "7.5", total: int = 20) -> bytes:
    head = f"02/03/2031 04:05:06 [INFO|DP=0|PP=0|TP=0]: iteration: {step} / {total} | consumed_tokens: {step}M"
    rates = "tokens_per_sec: 30.4K | global_batch_size: 4"
    return f"{head} | elapsed_time_per_iteration_ms: {elapsed} | {rates} | lm_loss: {loss} | lr: 1e-07 | grad_norm: 6.5\n".encode()


def olmo_core(step: int, rate: str, loss: str = "7.500", total: int = 20) -> bytes:
    block = (
        "train/CE loss=" + loss,
        "optim/total grad norm=1.250",
        f"throughput/device/TPS={rate}",
        "throughput/device/MFU=41.2",
    )
    head = f"2031-02-03 04:05:06.789\tn001:0\tolmo_core.train:89\tINFO\t[step={step}/{total},epoch=1,eta=0:10:00]\n"
    return (head + "".join(f"    {line}\n" for line in block)).encode()


def pipe(step: int, seconds: str, loss: str = "9.1250") -> bytes:
    return f"steps: {step} loss: {loss} iter time (s): {seconds} samples/sec: 27.500\n".encode()


def throughput(step: int, current: str) -> bytes:
    return (
        "[2031-02-03 04:05:06,789] [INFO] [timer.py:215:stop] "
        f"epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=11.5, "
        f"CurrSamplesPerSec={current}, MemAllocated=4.5GB, MaxMemAllocated=9.0GB\n"
    ).encode()


def summary(rate: str, loss: str = "1.5") -> bytes:
    return (
        f"{{'train_runtime': 1234.5, 'train_samples_per_second': {rate}, 'train_steps_per_second': 0.25, "
        f"'train_loss': {loss}, 'epoch': 1.0}}\n"
    ).encode()


def dllogger(step: int, figure: str) -> bytes:
    return (
        f'DLLL {{"type": "LOG", "step": {step}, "data": {{"global_step": {step}.0, "train_step_timing in s": {figure}, '
        '"epoch": 0}}\n'
    ).encode()


def mlperf(step: int, figure: str) -> bytes:
    value = {"key": "tracked_stats", "value": {"train_step_time": "?"}, "metadata": {"step": (step + 1) * 896}}
    return f":::MLLOG {json.dumps(value)}\n".replace('"?"', figure).encode()


def argonne(step: int, figure: str) -> bytes:
    return f" iteration= {step + 1}/ 6 | elapsed_time_per_iteration_ms={figure} | lm loss=1.5 |\n".encode()


def block(rate: str) -> bytes:
    return f"***** train metrics *****\n  train_samples_per_second = {rate:>10}\n  train_steps = 5\n".encode()


#: Each way of writing a step: its format, its figure as it is in a whole log, and the line of a step.
FORMS: dict[str, tuple[str, str, Callable[[int, str], bytes]]] = {
    "maxtext": ("maxtext", "4.567", maxtext),
    "paxml": ("paxml", "4.567891", lambda _, figure: paxml(figure)),
    "paxml, a second rank": ("paxml", "4.567891", lambda _, figure: paxml("4.5", 1) + paxml(figure, 2)),
    "nemo bar": ("nemo", "4.567", lambda step, figure: b"\r" + bar(step + 1, f"{step}.000", figure) + b"\n"),
    "nemo dll": ("nemo", "4.56789", dll),
    "nemo dll json": ("nemo", "4.56789", dllogger),
    "nemo 2": ("nemo", "4.567", lambda step, figure: printer(step, step, figure)),
    "nemo mlperf": ("nemo", "4.567", mlperf),
    "nemo delta": ("nemo", "4.567", lambda step, figure: f"Step {step}: train_step_timing in s={figure}\n".encode()),
    "megatron": ("megatron", "4567.8", lambda step, figure: megatron(step + 1, figure)),
    "megatron in s": ("megatron", "4.5678", lambda step, figure: megatron(step + 1, figure, unit="s")),
    "primus": ("megatron", "4567.8", lambda step, figure: megatron(step + 1, f"{figure}/5678.9")),
    "argonne": ("megatron", "4567.8", argonne),
    "bridge": ("megatron", "4.56", lambda _, figure: f"Step Time : {figure}s GPU utilization: 1.5\n".encode()),
    "torchtitan": ("torchtitan", "6,785", lambda step, figure: titan(step + 1, figure)),
    "automodel": ("automodel", "4.567891", automodel),
    "composer": ("composer", "6785.1234", lambda step, figure: composer(step + 1, figure)),
    "nanotron": ("nanotron", "4.56", lambda step, figure: nanotron(step + 1, f"{figure}K")),
    "olmo-core": ("olmo-core", "6,785", lambda step, figure: olmo_core(step + 1, figure)),
    "deepspeed pipe": ("deepspeed", "4.567", lambda step, figure: pipe(step + 1, figure)),
    "deepspeed timer": ("deepspeed", "12.345", lambda step, figure: throughput(step + 1, figure)),
    "deepspeed 2020": ("deepspeed", "12.345", lambda step, figure: f"0/{step}, SamplesPerSec={figure}\n".encode()),
    "huggingface": ("huggingface", "95.339", lambda step, figure: summary(figure) * (step == 0)),
    "huggingface 5": ("huggingface", "95.339", lambda step, figure: summary(f"'{figure}'") * (step == 0)),
    "huggingface block": ("huggingface", "95.339", lambda step, figure: block(figure) * (step == 0)),
}

#: A short log of each format.
EXAMPLES = {
    "maxtext": maxtext(0, "9.125") + maxtext(1, "4.250"),
    "paxml": paxml("9.125000") + paxml("4.250000"),
    "nemo": printer(0, 0, "9.125") + printer(1, 1, "4.25"),
    "megatron": megatron(1, "9125.0") + megatron(2, "4250.0"),
    "torchtitan": titan(1, "410") + titan(2, "6,785"),
    "automodel": automodel(0, "9.125000") + automodel(1, "4.250000"),
    "composer": composer(1, "410.0000") + composer(2, "6785.0000"),
    "huggingface": summary("95.339"),
    "nanotron": nanotron(1, "9.12K") + nanotron(2, "4.25K"),
    "olmo-core": olmo_core(1, "410") + olmo_core(2, "6,785"),
    "deepspeed": pipe(1, "9.125") + pipe(2, "4.250"),
}

#: A row that any format may be of, as few of whose steps are enough: its end alone shows that a log was cut.
ANY_ROW = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, dtype="bf16"),
    criterion=replace(LLAMA2_FP8_X128.criterion, min_steps=1, statistic="median"),
    recipe=Recipe("any", steps=12),
)


def events_of(row: Baseline) -> tuple[Event, ...]:
    """A whole log of a row, by the demo's writer: every registered format has one."""
    job = SimulatedJob(
        id="4242",
        nodes=row.nodes,
        gpus=row.gpus,
        gpus_per_node=row.gpus_per_node,
        size=row.workload.size,
        dtype=row.workload.dtype,
        version="test",
    )
    run = simulate(row, job, None, Random(7), datetime(2031, 2, 3, tzinfo=timezone.utc))  # noqa: S311 - noise
    return tuple(ALL_WRITERS[row.workload.log_format](run))


def whole(name: str) -> bytes:
    """A short and whole log of a format, by its name in the registry."""
    return b"".join(
        event.data for event in events_of(replace(ANY_ROW, workload=replace(ANY_ROW.workload, log_format=name)))
    )


def seconds(log: StepLog) -> list[float]:
    return [round(step.seconds, 6) for step in log.steps if step.seconds is not None]


def indexes(log: StepLog) -> list[int | None]:
    return [step.index for step in log.steps]
