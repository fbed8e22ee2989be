"""The logs of simulated benchmarks, as their programs print them; their figures follow from one speed.

A benchmark's times are scaled until the judged figure is the documented one, times the slowdown of the run. The sources
of the forms are named in the format's module.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gsw.demo import writers
from pytest_gsw.demo.simulation import SimulatedRun
from pytest_gsw.demo.writers import STARTUP_S, Event, Writer, lines, step_ends_s, step_line
from pytest_gsw.tables.metrics import FURTHER, SUCCESSFUL_REQUESTS

#: Largest size of a simulated sweep of nccl-tests, and the size at which half of the peak bandwidth is reached, bytes.
_LARGEST_BYTES = 16 << 30
_HALF_PEAK_BYTES = 64 << 20
_PEAK_GBS = 400.0
#: Suffix of the figures of each place, and its time over that out of place.
_PLACES = {"": 1.0, "_in_place": 0.998}
#: Collectives of which each rank has a part of the data.
_SHARED = ("all_gather", "reduce_scatter", "alltoall")
#: Wrong values of a faulty run.
_WRONG = 3
_ELEMENT_BYTES = {"bfloat16": 2, "half": 2}
_TYPES = {"bf16": "bfloat16", "fp16": "half", "fp32": "float"}
#: Tokens of a request and its answer, and requests per client.
_TOKENS = 1024
_REQUESTS_PER_CLIENT = 4
#: Requests that a server answers at once if nothing limits them.
_CLIENTS = 64
_EVALUATION_SAMPLES = 2048


def _time_factor(run: SimulatedRun, figures: Mapping[str, float]) -> float:
    """Factor on the times of a benchmark that makes the judged figure of these the documented one, slowed down."""
    row, metric = run.baseline, run.baseline.judged_by
    figure = figures.get(row.criterion.key_at(metric.key)) or figures.get(metric.key)
    # Without the judged figure the log lacks it, too: an error of the row.
    return run.slowdown * metric.direction.speed(figure, row.judged or figure) if figure else run.slowdown


def _bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth (nccl-tests, ``doc/PERFORMANCE.md``)."""
    shared = (ranks - 1) / ranks
    return {"all_reduce": 2 * shared, **dict.fromkeys(_SHARED, shared)}.get(collective, 1.0)


def _size_text(size_bytes: int) -> str:
    return f"{size_bytes >> 30} GiB" if size_bytes >= 1 << 30 else f"{size_bytes >> 20} MiB"


def nccl_tests(run: SimulatedRun) -> Iterator[Event]:
    """A sweep of nccl-tests up to 16 GiB, a line for each size, with one rank per GPU."""
    collective, ranks, count = run.baseline.workload.model, run.job.gpus, run.logged_steps
    kind = _TYPES.get(run.job.dtype, run.job.dtype)
    factor, bytes_each = _bus_factor(collective, ranks), _ELEMENT_BYTES.get(kind, 4)
    sizes = [_LARGEST_BYTES >> (count - 1 - index) for index in range(count)]

    def time_us(size: int, place: str) -> float:
        return (size + _HALF_PEAK_BYTES) * _PLACES[place] * (factor or 1) / _PEAK_GBS / 1e3

    figures = {}
    for place in _PLACES:
        for size in sizes:
            algbw, at = size / time_us(size, place) / 1e3, f" at {_size_text(size)}"
            figures[f"time{place}_us{at}"] = time_us(size, place)
            figures |= {f"algbw{place}_gbs{at}": algbw, f"busbw{place}_gbs{at}": algbw * factor}
    average = statistics.fmean(value for key, value in figures.items() if key.startswith("busbw"))
    scale = _time_factor(run, {**figures, "busbw_avg_gbs": average})

    def columns(size: int, place: str) -> str:
        time = time_us(size, place) * scale
        digits = next(digits for digits in (2, 1, 0) if len(f"{time:.{digits}f}") <= 7 or not digits)
        return f"{time:7.{digits}f}  {size / time / 1e3:6.2f}  {size / time / 1e3 * factor:6.2f}"

    sweep = f"minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor)"
    yield from lines(
        20.0,
        "# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803",
        f"# Collective test starting: {collective}_perf",
        f"# nThread 1 nGpus 1 {sweep} warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0",
        *("#", "# Using devices"),
    )
    for rank in range(ranks):
        node, device = divmod(rank, run.job.gpus_per_node)
        place = f"demo-node-{node + 1:04d} device {device:2d} [0000:{27 + 8 * device:02x}:00]"
        yield from lines(20.0, f"#  Rank {rank:2d} Group  0 Pid {4100 + rank:6d} on {place} {run.baseline.accelerator}")
    names = "   time   algbw   busbw  #wrong"
    yield from lines(STARTUP_S, "#", f"#       size         count      type   redop    root  {names}  {names}")
    for index, (size, at_s) in enumerate(zip(sizes, step_ends_s(run.steps_s, STARTUP_S), strict=False)):
        # Each rank has a part that begins at a multiple of 16 bytes, or all of the data.
        parts = ranks if collective in _SHARED else 1
        elements = size // parts // 16 * 16 // bytes_each
        wrong = _WRONG if run.is_wrong and index + 1 == count else 0
        operation = "sum" if "reduce" in collective else "none"
        head = f"{elements * parts * bytes_each:12d}  {elements:12d}  {kind:>8}  {operation:>6}  {-1:6d}"
        before = f"{head}  {columns(size, '')}"
        after = f"  {columns(size, '_in_place')}  {'N/A' if collective == 'alltoall' else wrong:>6}\n"
        yield step_line(at_s, index + 1, before[:-1], before[-1], f"  {wrong:6d}{after}")
    verdict = f"{_WRONG} FAILED" if run.is_wrong else "0 OK"
    for text in (
        f"# Out of bounds values : {verdict}",
        f"# Avg bus bandwidth    : {average / scale:g} ",
        *("#", f"# Collective test concluded: {collective}_perf"),
    ):
        yield Event(STARTUP_S + sum(run.steps_s), f"{text}\n".encode(), count)


#: Heading, label and mean of each latency of a serving benchmark, by its name in keys, over the time of a token.
_LATENCIES = {
    "ttft": ("Time to First Token", "TTFT", 8),
    "tpot": ("Time per Output Token (excl. 1st token)", "TPOT", 1),
    "itl": ("Inter-token Latency", "ITL", 1),
    "e2e": ("End-to-end Latency", "E2EL", _TOKENS + 7),
}
#: Statistics of a latency, and each over the mean.
_STATISTICS = {"Mean": 1.0, "Median": 0.98, "P50": 0.98, "P90": 1.2, "P95": 1.3, "P99": 1.5}
#: Rates, by their keys, and each over that of requests.
_RATES = {
    "requests_per_s": ("Request throughput (req/s):", 1),
    "output_tokens_per_s": ("Output token throughput (tok/s):", _TOKENS),
    "total_tokens_per_s": ("Total token throughput (tok/s):", 2 * _TOKENS),
}


def serving(run: SimulatedRun) -> Iterator[Event]:
    """``vllm bench serve``: its arguments, a bar, and the block of results."""
    row, count = run.baseline, run.logged_steps
    model, limit = row.workload.model, (row.criterion.at or "").removeprefix("concurrency ")
    clients = int(limit or _CLIENTS)
    stated = row.metrics.get(SUCCESSFUL_REQUESTS.key)
    requests = int(stated.value) if stated else clients * _REQUESTS_PER_CLIENT
    # Of a server whose tokens take a millisecond.
    latencies = {
        (name, of): mean * over for name, (_, _, mean) in _LATENCIES.items() for of, over in _STATISTICS.items()
    }
    figures = {f"{name}_ms_{of.lower()}": value for (name, of), value in latencies.items()}
    figures |= {key: clients * 1e3 / latencies["e2e", "Mean"] * over for key, (_, over) in _RATES.items()}
    scale = _time_factor(run, figures)
    figures = {key: FURTHER[key].direction.slowed(value, math.log(scale)) for key, value in figures.items()}
    # A row's further figures are as good as documented, and a little better: limits are met in any noise.
    for key in figures.keys() & row.metrics.keys():
        figures[key] = FURTHER[key].direction.slowed(row.metrics[key].value, math.log(0.98 * run.slowdown))
    yield from lines(
        20.0,
        f"Namespace(backend='vllm', model={model!r}, max_concurrency={limit or None}, num_prompts={requests})",
        "Starting initial single prompt test run...",
        "Initial test run completed. Starting main benchmark run...",
        f"Maximum request concurrency: {limit or None}",
    )
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        bar = writers.bar_of(requests * (index + 1) // count, requests, at_s - STARTUP_S)
        yield Event(at_s, f"\r{bar}]".encode(), index + 1)
    end_s = STARTUP_S + sum(run.steps_s)

    def line(label: str, value: str, key: str = "") -> Event:
        event = step_line(end_s, count, f"{label:<40} ", value, "\n")
        return event if key == row.judged_by.key else event._replace(figure_end=0)

    yield Event(end_s, b"\n============ Serving Benchmark Result ============\n", count)
    yield line("Successful requests:", f"{requests - run.is_wrong}")
    yield line("Failed requests:", f"{int(run.is_wrong)}")
    if limit:
        yield line("Maximum request concurrency:", limit)
    for key, (label, _) in _RATES.items():
        yield line(label, f"{figures[key]:.2f}", key)
    for name, (heading, label, _) in _LATENCIES.items():
        yield Event(end_s, f"{heading:-^50}\n".encode(), count)
        for of in _STATISTICS:
            key = f"{name}_ms_{of.lower()}"
            yield line(f"{of} {label} (ms):", f"{figures[key]:.2f}", key)
    yield Event(end_s, f"{'=' * 50}\n".encode(), count)


def mllog(run: SimulatedRun) -> Iterator[Event]:
    """MLPerf's log lines of one run, with an evaluation after each part of the training."""
    row, count = run.baseline, run.logged_steps
    wanted = run.slowdown * row.judged if row.judged else 30.0
    start_ms = int(writers.clock(run, STARTUP_S).timestamp() * 1000)

    def event(key: str, minutes: float, kind: str = "POINT_IN_TIME", value: Any = None, **metadata: object) -> str:
        time_ms = start_ms + round(minutes * 60_000)
        made = {"namespace": "", "time_ms": time_ms, "event_type": kind, "key": key, "value": value}
        return ":::MLLOG " + json.dumps({**made, "metadata": {"file": "train.py", "lineno": 42, **metadata}})

    yield from lines(20.0, event("submission_benchmark", -0.5, value=row.workload.model), event("seed", -0.5, value=1))
    yield from lines(STARTUP_S, event("run_start", 0.0, "INTERVAL_START"))
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        minutes = wanted * (index + 1) / count
        accuracy = event(
            "eval_accuracy", minutes, value=run.losses[index], samples_count=_EVALUATION_SAMPLES * (index + 1)
        )
        yield Event(at_s, f"{accuracy}\n".encode(), index + 1)
    status = "aborted" if run.is_wrong else "success"
    stop = event("run_stop", wanted, "INTERVAL_END", status=status)
    before, comma, after = stop.partition(', "event_type')
    yield step_line(STARTUP_S + sum(run.steps_s), count, before[:-1], before[-1], f"{comma}{after}\n")


#: Throughput of each worker group of NeMo-RL over the end-to-end one, by its label and its key.
_GROUPS = {
    "E2E (Samples/sec/gpu)": ("samples_per_s_per_gpu", 1 / 300),
    "E2E (Tokens/sec/gpu)": ("tokens_per_s_per_gpu", 1.0),
    "Policy Training (Tokens/sec/gpu)": ("training_tokens_per_s_per_gpu", 3.2),
    "Policy and Reference Logprobs (Tokens/sec/gpu)": ("logprob_tokens_per_s_per_gpu", 11.0),
    "Generation Worker Group (Tokens/sec/gpu)": ("generation_tokens_per_s_per_gpu", 7.2),
}


def nemo_rl(run: SimulatedRun) -> Iterator[Event]:
    """NeMo-RL's report of each step, with rates per GPU."""
    count = len(run.steps_s)
    rates = {key: 1000.0 * over for key, over in _GROUPS.values()}
    is_rate = run.baseline.judged_by.key in rates
    # Rates of the last step, on which the row is judged, follow from its time as those of all steps.
    scale = _time_factor(run, rates) if is_rate else run.slowdown
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        seconds = run.steps_s[index]
        heading = f"{'=' * 25} Step {index + 1}/{count} {'=' * 25}\n"
        head = f"{heading}📊 Training Results:\n  • Loss: {run.losses[index]:.4f}\n⏱️  Timing:\n  • Total step time: "
        groups = (
            f"    - {label}: {rates[key] / scale * run.steps_s[-1] / seconds:.2f}\n"
            for label, (key, _) in _GROUPS.items()
        )
        after = f"s\n\n🔍 Performance Metrics:\n  • Throughputs (per GPU):\n{''.join(groups)}"
        yield step_line(at_s, index + 1, head, f"{seconds:.2f}", after)


#: The writer of each benchmark's log, by the format's name.
BENCHMARKS: Mapping[str, Writer] = {
    "nccl-tests": writers.with_identity(nccl_tests),
    "serving": writers.with_identity(serving),
    "mllog": writers.with_identity(mllog),
    "nemo-rl": writers.with_identity(nemo_rl),
}
