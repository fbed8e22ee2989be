"""Figures of benchmarks: read to the digit, or the run is refused; a broken one is never a figure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.nccl_tests import size_text
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import detect_format, read_log
from tests.messages import wording
from tests.unit.logs.conftest import Read, WriteLog
from tests.unit.logs.lines import NOISE

MIB, GIB = 1 << 20, 1 << 30
SIZES = (256 * MIB, 512 * MIB, GIB)
RIGHT = "# Out of bounds values : 0 OK\n"

# -- nccl-tests ------------------------------------------------------------------------------------


def start(first: int = SIZES[0], last: int = SIZES[-1], step: str = "2(factor)", checked: int = 1) -> str:
    return (
        f"# nThread 1 nGpus 1 minBytes {first} maxBytes {last} step: {step} warmup iters: 5 iters: 20 agg iters: 1 "
        f"validation: {checked} graph: 0\n#\n# Using devices\n"
    )


def ranks(count: int = 2) -> str:
    return "".join(
        f"#  Rank {rank:2d} Group  0 Pid {4242 + rank:6d} on      node7 device {rank:2d} [0000:1b:00] NVIDIA H100\n"
        for rank in range(count)
    )


HEADING = (
    "#\n#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)\n"
)


def row(size: int, busbw: str, in_place: str = "300.25", wrong: str = "0", wrong_in_place: str = "0") -> str:
    ours, theirs = f"  1000.5  200.50  {busbw:>6}  {wrong:>5}", f"  1001.5  200.25  {in_place:>6}  {wrong_in_place:>5}"
    return f"{size:12d}  {size // 4:12d}     float     sum      -1{ours}{theirs}\n"


ROWS = tuple(row(size, busbw) for size, busbw in zip(SIZES, ("100.25", "200.25", "300.75"), strict=True))
AVERAGE = f"# Avg bus bandwidth    : {(100.25 + 200.25 + 300.75 + 3 * 300.25) / 6:g} \n#\n"


def nccl(rows: Iterable[str] = ROWS, end: str = RIGHT + AVERAGE, head: str = start() + ranks() + HEADING) -> str:
    return head + "".join(rows) + end


@pytest.mark.parametrize("label", ["", "[1,0]<stdout>:", "0: "])
def test_nccl_tests(read: Read, label: str) -> None:
    text = "# nccl-tests version 2.17.8\n# Collective test starting: all_reduce_perf\n" + nccl()
    log = read("nccl-tests", NOISE + "".join(label + line + "\n" for line in text.splitlines()).encode() + NOISE)
    assert log.figures["busbw_gbs at 1 GiB"] == [300.75]
    assert log.figures["busbw_in_place_gbs at 1 GiB"] == [300.25]
    assert log.figures["algbw_gbs at 512 MiB"] == [200.5]
    assert log.figures["time_us at 256 MiB"] == [1000.5]
    assert log.figures["busbw_avg_gbs"] == [250.333]
    assert (log.identity.model, log.identity.gpus, log.attempts, len(log.steps)) == ("all_reduce", 2, 1, 0)


def test_columns_of_old_versions_are_found_by_their_names(read: Read) -> None:
    old = (
        start() + "#       size         count    type   time   algbw   busbw  error     time   algbw   busbw  error\n"
        "268435456 67108864   float  2041.5    8.22   15.25  5e-07   1618.6   10.37   19.25    N/A\n"
    )
    log = read(
        "nccl-tests",
        nccl((), RIGHT + "# Avg bus bandwidth    : 17.25\n", old.replace("1073741824", "268435456")).encode(),
    )
    assert (log.figures["busbw_gbs at 256 MiB"], log.figures["busbw_in_place_gbs at 256 MiB"]) == ([15.25], [19.25])


def test_a_figure_has_the_size_that_was_asked_for(read: Read) -> None:
    twelve = nccl(head=start() + ranks(12) + HEADING).replace("  1073741824  ", "  1073741760  ")
    assert read("nccl-tests", twelve.encode()).figures["busbw_gbs at 1 GiB"] == [300.75]


def test_a_size_that_memory_does_not_allow_is_not_expected_and_has_no_figure(read: Read) -> None:
    reduced = "#\n# Reducing maxBytes to 900000000 due to memory limitation\n"
    end = RIGHT + "# Avg bus bandwidth    : 225.25\n"
    log = read("nccl-tests", nccl(ROWS[:2], end, start() + ranks() + reduced + HEADING).encode())
    assert "busbw_gbs at 512 MiB" in log.figures
    assert "busbw_gbs at 1 GiB" not in log.figures


def test_cycles_are_several_numbers_of_one_run(read: Read) -> None:
    log = read("nccl-tests", nccl([*ROWS, *ROWS[:2], ROWS[2].replace("300.75", "300.76")]).encode())
    assert (log.figures["busbw_gbs at 1 GiB"], log.attempts) == ([300.75, 300.76], 1)


def test_bandwidths_that_are_rounded_to_zero_are_no_figures(read: Read) -> None:
    tiny = row(8, "0.00", "0.00", wrong_in_place="N/A")
    log = read(
        "nccl-tests", nccl([tiny], RIGHT + "# Avg bus bandwidth    : 0\n", start(8, 8) + ranks() + HEADING).encode()
    )
    assert "busbw_gbs at 8 B" not in log.figures
    assert log.figures["time_us at 8 B"] == [1000.5]


def test_values_that_are_not_checked_are_no_fault_if_the_run_says_so(read: Read) -> None:
    unchecked = [one.replace("      0", "    N/A") for one in ROWS]
    assert read("nccl-tests", nccl(unchecked, head=start(checked=0) + HEADING).encode()).figures


def test_sizes_in_text() -> None:
    assert [size_text(size) for size in (0, 8, 1 << 10, 1250 * MIB, 16 * GIB)] == [
        "0 B",
        "8 B",
        "1 KiB",
        "1250 MiB",
        "16 GiB",
    ]


# -- Serving ---------------------------------------------------------------------------------------


def namespace(asked: int = 8) -> str:
    return f"Namespace(backend='vllm', base_url=None, num_prompts={asked}, seed=0)\n"


END = "=" * 50 + "\n"


def block(successful: int | str = 8, rate: str = "1996.53", rest: str = "", end: str = END) -> str:
    return (
        "============ Serving Benchmark Result ============\n"
        f"Successful requests:                     {successful}      \n{rest}"
        "Benchmark duration (s):                  99.34     \n"
        "Request throughput (req/s):              10.07     \n"
        f"Output token throughput (tok/s):         {rate}   \n"
        "Total Token throughput (tok/s):          4,163.87   \n"
        "---------------Time to First Token----------------\n"
        "Mean TTFT (ms):                          39.54     \nMedian TTFT (ms):                        33.53     \n"
        "P99 TTFT (ms):                           120.25    \n"
        "-----Time per Output Token (excl. 1st token)------\nMedian TPOT (ms):                        -0.00\n"
        "----------------End-to-End Latency----------------\nMean E2E Latency (ms):                   1071.5\n" + end
    )


def at(concurrency: int, failed: int = 0) -> str:
    return (
        f"Failed requests:                         {failed}\nMaximum request concurrency:             {concurrency}\n"
    )


def test_serving(read: Read) -> None:
    log = read("serving", (namespace() + "Starting main benchmark run...\n" + block()).encode() + NOISE)
    assert log.figures == {
        "successful_requests": [8],
        "requests_per_s": [10.07],
        "output_tokens_per_s": [1996.53],
        "total_tokens_per_s": [4163.87],
        "ttft_ms_mean": [39.54],
        "ttft_ms_median": [33.53],
        "ttft_ms_p99": [120.25],
        "e2e_ms_mean": [1071.5],
    }
    assert log.attempts == 1


def test_concurrencies_are_points_of_one_run(read: Read) -> None:
    log = read("serving", (namespace() + block(rest=at(16)) + namespace() + block(rate="99.5", rest=at(256))).encode())
    assert log.figures["output_tokens_per_s at concurrency 16"] == [1996.53]
    assert log.figures["output_tokens_per_s at concurrency 256"] == [99.5]
    assert log.attempts == 1


def bar(wanted: int, done: int | None = None, label: str = "") -> str:
    done = wanted if done is None else done
    return f"{label}  0%|          | 0/{wanted} [00:00<?, ?it/s]\r{label}{100 * done // wanted:3d}%|###| {done}/{wanted} [00:02<00:00, 34.85it/s]\n"


#: What ``vllm bench serve --num-warmups 2`` prints before its block.
BEGIN = "Starting initial single prompt test run...\nInitial test run completed.\n"
OWN_WARM_UP = f"{BEGIN}Warming up with 2 requests...\n{bar(2)}Warmup run completed.\nStarting main benchmark run...\n"


@pytest.mark.parametrize(
    "text",
    [
        namespace() + OWN_WARM_UP + bar(8) + block(),
        namespace() + OWN_WARM_UP + block(),
        OWN_WARM_UP + bar(8) + block(),
        namespace() + "Warm-up with 2 requests:\n" + bar(2) + bar(8) + block(),  # another benchmark's words
        bar(8, 7) + block(),  # repainted seldom
        bar(8).rstrip() + block(),
        "Running vllm bench serve --num-prompts 8\n" + namespace() + bar(8, label="0: ") + block(),
        "Loading weights: 100%|###| 4/4 [00:02<00:00, 2it/s]\n" + block(),
    ],
)
def test_the_benchmarks_own_warm_up_and_bars(read: Read, text: str) -> None:
    log = read("serving", text.encode())
    assert (log.figures["output_tokens_per_s"], log.attempts) == ([1996.53], 1)


def test_no_older_run_is_judged_in_place_of_the_last_one(read: Read) -> None:
    older, newer = namespace() + block(rate="4000"), namespace() + OWN_WARM_UP + bar(8) + block(rate="2000")
    log = read("serving", (older + newer).encode())
    assert (log.figures["output_tokens_per_s"], log.attempts) == ([2000], 2)


def test_each_point_of_a_sweep_may_have_its_warm_up(read: Read) -> None:
    warm = "warm-up\n" + namespace(2) + block(2, "5.5")
    text = "".join(warm + namespace() + block(rest=at(clients)) for clients in (16, 256))
    assert read("serving", text.encode()).attempts == 1


@pytest.mark.parametrize("heading", ["=== warm-up ===\n", "0: Warmup run:\n", "WARM UP\n"])
def test_a_recipes_warm_up_is_not_the_run(read: Read, heading: str) -> None:
    log = read("serving", (heading + namespace(2) + block(2, "5.5") + namespace() + block()).encode())
    assert (log.figures["output_tokens_per_s"], log.attempts) == ([1996.53], 1)


def test_the_warm_up_of_sglang_has_no_block(read: Read) -> None:
    warm = "Starting warmup with 1 sequences...\nWarmup completed with 1 sequences. Starting main benchmark run...\n"
    assert read("serving", (namespace() + warm + block()).encode()).figures["output_tokens_per_s"] == [1996.53]


# -- MLPerf and NeMo-RL ----------------------------------------------------------------------------


def event(key: str, time_ms: object = 1_592_346_584_432, value: object = None, **metadata: object) -> str:
    record = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f":::MLLOG {json.dumps({**record, 'metadata': {'file': 'train.py', 'lineno': 9, **metadata}})}\n"


START = 1_592_346_584_432
STOP = START + 90 * 60_000 + 30_000


def test_mllog(read: Read) -> None:
    head = event("submission_benchmark", value="llama2_70b_lora") + event("global_batch_size", value=64)
    text = head + event("run_start", START) + event("run_stop", STOP, status="success")
    log = read("mllog", "".join(f"0: {line}\n" for line in text.splitlines()).encode())
    assert log.figures == {"time_to_train_min": [90.5]}
    assert (log.identity.model, log.identity.global_batch_size, log.attempts) == ("llama2_70b_lora", 64, 1)


def joined(*events: str, label: str = "") -> str:
    """Events that processes have written at once, on one line."""
    return label + "".join(event.strip() for event in events) + "\n"


SUCCESS = event("run_stop", STOP, status="success")
RANKS = [event("run_start", START + rank * 1000) for rank in range(8)]


@pytest.mark.parametrize(
    "text",
    [
        "".join(RANKS) + SUCCESS,
        "".join(reversed(RANKS)) + 8 * SUCCESS,
        "".join(f"{rank}: {begun}{rank}: {SUCCESS}" for rank, begun in enumerate(RANKS)),  # each rank's by itself
        joined(*RANKS) + SUCCESS,
        event("run_start", START).strip() + "0: loaded\n" + joined("done ", event("seed", value=1), SUCCESS),
        joined(event("seed", value=1), event("run_start", START), label="3: ") + joined(event("seed"), SUCCESS),
        joined(':::MLLOG {"namespace": "', event("run_start", START), SUCCESS),
    ],
)
def test_ranks_and_glued_events_are_one_run(read: Read, text: str) -> None:
    log = read("mllog", text.encode())
    assert (log.figures, log.attempts) == ({"time_to_train_min": [90.5]}, 1)


def test_a_run_that_begins_later_is_another_one(read: Read) -> None:
    text = event("run_start", START) + event("run_start", START + 600_000) + SUCCESS
    assert read("mllog", text.encode()).attempts == 2


def rl(step: int, seconds: str = "35.70", rate: str | None = "1073.59", total: int = 2, loss: str = "0.0123") -> str:
    rates = "" if rate is None else f"🔍 Performance Metrics:\n    - E2E (Tokens/sec/gpu): {rate}\n"
    return (
        f"========================= Step {step}/{total} =========================\n📊 Training Results:\n"
        f"  • Loss: {loss}\n⏱️  Timing:\n  • Total step time: {seconds}s\n  • generation: 4.95s (13.9%)\n{rates}"
    )


def test_nemo_rl_has_steps_and_figures(read: Read) -> None:
    log = read("nemo-rl", (rl(1) + rl(2, "30.25", "1200.5")).encode())
    assert [(step.index, step.seconds) for step in log.steps] == [(1, 35.7), (2, 30.25)]
    assert log.figures == {"tokens_per_s_per_gpu": [1073.59, 1200.5]}
    assert ([*(log.losses or ())], log.total_steps) == ([0.0123, 0.0123], 2)


def test_an_attempt_of_nemo_rl_that_begins_anew_has_its_own_figures(read: Read) -> None:
    log = read("nemo-rl", (rl(1) + rl(2) + rl(1, rate="9.5") + rl(2, rate="8.5")).encode())
    assert (log.figures, log.attempts) == ({"tokens_per_s_per_gpu": [9.5, 8.5]}, 2)


def test_fine_tuning_has_no_rates(read: Read) -> None:
    assert read("nemo-rl", (rl(1, rate=None) + rl(2, rate=None)).encode()).figures == {}


# -- What is broken --------------------------------------------------------------------------------

OTHER = tuple(f"1: {line}\n" for line in "".join(ROWS).splitlines())
BROKEN = {
    "a wrong value": ("nccl-tests", nccl([*ROWS[:2], row(GIB, "300.75", wrong="3")]), "#wrong '3' at 1 GiB"),
    "a wrong value in place": ("nccl-tests", nccl([*ROWS[:2], row(GIB, "300.75", wrong_in_place="1")]), "#wrong_in_place '1'"),
    "values out of bounds": ("nccl-tests", nccl(end="# Out of bounds values : 3 FAILED\n" + AVERAGE), "3 FAILED"),
    "values unchecked against the header": ("nccl-tests", nccl([row(GIB, "9.5", wrong="N/A")], head=start(GIB) + HEADING), "N/A"),
    "cut before the largest size": ("nccl-tests", nccl(ROWS[:2], ""), "ends before the row of 1 GiB"),
    "the largest size missing in a whole log": ("nccl-tests", nccl(ROWS[:2]), "ends before the row of 1 GiB"),
    "a size in between missing": ("nccl-tests", nccl([ROWS[0], ROWS[2]]), "where that of 512 MiB comes next"),
    "cut within the last row": ("nccl-tests", nccl([*ROWS[:2], ROWS[2][:70]], ""), "ends before the row of 1 GiB"),
    "a row cut within the log": ("nccl-tests", nccl([*ROWS[:2], ROWS[2][:70] + "\n"]), "without the sizes"),
    "cut before the summary": ("nccl-tests", nccl(end=""), "ends before 'Out of bounds"),
    "cut before the average": ("nccl-tests", nccl(end=RIGHT), "ends before 'Out of bounds"),
    "a header without rows": ("nccl-tests", nccl((), ""), "ends before the row of 256 MiB"),
    "rows without a header": ("nccl-tests", nccl(head=HEADING), "without the sizes"),
    "a figure that is NaN": ("nccl-tests", nccl([*ROWS[:2], row(GIB, "nan")]), "busbw 'nan' at 1 GiB"),
    "a figure that is infinite": ("nccl-tests", nccl([*ROWS[:2], row(GIB, "inf")]), "busbw 'inf' at 1 GiB"),
    "a figure that another process cut": ("nccl-tests", nccl([*ROWS[:2], row(GIB, "30.75")]), "of the rows"),
    "an average that is too low for its limit": ("nccl-tests", nccl(end=RIGHT + AVERAGE.replace(" \n", " FAILED\n", 1)), "FAILED"),
    "an average that is NaN": ("nccl-tests", nccl(end=RIGHT + "# Avg bus bandwidth    : nan\n"), "but 250.333 GB/s"),
    "an average that is infinite": ("nccl-tests", nccl(end=RIGHT + "# Avg bus bandwidth    : inf\n"), "but 250.333 GB/s"),
    "ranks that all test alone": ("nccl-tests", start() + nccl([one for one in ROWS for _ in "ab"]), "comes next"),
    "rows of another rank": ("nccl-tests", nccl(OTHER), "several types, operations or processes"),
    "several types": ("nccl-tests", nccl([ROWS[0], ROWS[1].replace("float", "half")]), "several types"),
    "a second test that was cut": ("nccl-tests", nccl() + nccl(ROWS[:1], ""), "ends before the row of 512 MiB"),
    "two tests": ("nccl-tests", nccl() + nccl(), None),
    "a failed request": ("serving", block(7, rest=at(8, failed=1)), "failed requests: 1"),
    "fewer requests than asked for": ("serving", namespace() + block(7), "7 requests succeeded, 8 were asked for"),
    "one of a hundred by the bar": ("serving", bar(100) + block(1), "1 requests succeeded, 100 were asked for"),
    "99 of a hundred by a bar of 99": ("serving", bar(100, 99) + block(99), "99 requests succeeded, 100 were asked for"),
    "one of a hundred by the command": ("serving", "Running x --num-prompts=100\n" + block(1), "1 requests succeeded, 100"),
    "one of a hundred behind a warm-up": ("serving", OWN_WARM_UP + bar(100) + block(1), "1 requests succeeded, 100"),
    "a bar against the arguments": ("serving", namespace(1) + bar(100) + block(1), "1 requests succeeded, 100"),
    "failed requests of a bar": ("serving", bar(8) + block(1, rest=at(8, 7)), "failed requests: 7, 1 succeeded"),
    "a warm-up behind the run": (
        "serving",
        namespace() + block() + "warm-up\n" + namespace(2) + block(2),
        "a warm-up is the last benchmark",
    ),
    "a run that was cut, and a warm-up": ("serving", namespace() + "warm-up\n" + namespace(2) + block(2), "no complete"),
    "no request": ("serving", namespace() + block(0, "0.00"), "0 requests succeeded"),
    "only a warm-up": ("serving", "=== warm-up ===\n" + namespace(2) + block(2), "no complete block"),
    "cut after the warm-up": ("serving", namespace(2) + block(2) + namespace(), "no complete block"),
    "cut within the block": ("serving", namespace() + block(end=""), "no complete block"),
    "a rate that is NaN": ("serving", namespace() + block(rate="nan"), "throughput (tok/s) nan"),
    "a block without its rate": ("serving", re.sub("Output token.*\n", "", block()), "no output token throughput"),
    "blocks of two processes in one": (
        "serving",
        block().replace("Median TTFT", "Mean TTFT"),
        "Mean TTFT (ms) differs within the block",
    ),
    "two benchmarks": ("serving", namespace() + block() + namespace() + block(), None),
    "an aborted run": ("mllog", event("run_start") + event("run_stop", STOP, status="aborted"), "status aborted"),
    "a run without status": ("mllog", event("run_start") + event("run_stop", STOP), "status None"),
    "one aborted rank": (
        "mllog",
        event("run_start") + event("run_stop", STOP, status="success") + event("run_stop", STOP, status="aborted"),
        "status aborted",
    ),
    "a blank in the status": ("mllog", event("run_start") + event("run_stop", STOP, status="success "), "status 'success '"),
    "capitals in the status": ("mllog", event("run_start") + event("run_stop", STOP, status="SUCCESS"), "status SUCCESS"),
    "aborted, then success": (
        "mllog",
        event("run_start") + event("run_stop", STOP, status="aborted") + SUCCESS,
        "status aborted",
    ),
    "an aborted rank glued to another": (
        "mllog",
        event("run_start") + joined(SUCCESS, event("run_stop", STOP, status="aborted")),
        "status aborted",
    ),
    "an end that another process cut": (
        "mllog",
        event("run_start") + joined(SUCCESS[:-30], SUCCESS),
        "status unreadable",
    ),
    "no run_stop": ("mllog", event("run_start"), "run_start without run_stop"),
    "a run_stop that is cut": (
        "mllog",
        event("run_start") + event("run_stop", STOP, status="success")[:-30] + "\n",
        "run_start without run_stop",
    ),
    "no run_start": ("mllog", event("run_stop", STOP, status="success"), "without an earlier run_start"),
    "a clock that went back": ("mllog", event("run_start", STOP) + event("run_stop", START, status="success"), "earlier"),
    "two results": ("mllog", 2 * (event("run_start") + event("run_stop", STOP, status="success")), None),
    "a step without its rate": ("nemo-rl", rl(1) + rl(2, rate=None), "1 of 2 steps have tokens_per_s_per_gpu"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_has_no_figures(read: Read, name: str) -> None:
    log_format, text, reason = BROKEN[name]
    if reason is None:  # several runs, which no line of the recipe separates: their number is known
        assert read(log_format, text.encode()).attempts == 2
        return
    with pytest.raises(LogError) as refused:
        read(log_format, text.encode())
    assert reason in refused.value.fact


def test_a_rate_that_is_not_finite_is_one_of_the_step(read: Read) -> None:
    assert read("nemo-rl", (rl(1) + rl(2, rate="nan") + rl(3)).encode()).not_finite == (
        2,
        "- E2E (Tokens/sec/gpu): nan",
    )
    assert read("nemo-rl", (rl(1) + rl(2, loss="nan")).encode()).not_finite == (2, "loss nan")


def test_a_rate_that_is_printed_as_none_is_not_read(read: Read) -> None:
    """Two digits are too few for 512 samples in five minutes on 512 GPUs; the other rates of the run count."""
    step = rl(1) + "    - E2E (Samples/sec/gpu): 0.00\n" + rl(2) + "    - E2E (Samples/sec/gpu): 0.01\n"
    log = read("nemo-rl", step.encode())
    assert (log.figures, log.not_finite) == ({"tokens_per_s_per_gpu": [1073.59, 1073.59]}, None)
    assert read("nemo-rl", rl(1, rate="-0.5").encode()).not_finite == (1, "- E2E (Tokens/sec/gpu): -0.5")


def test_a_requeued_run_does_not_lend_its_figures(read: Read) -> None:
    begin = "GSW: MODEL=all_reduce JOB_ID=4711\n"
    whole = read("nccl-tests", (begin + nccl(ROWS[:1], "") + begin + nccl()).encode())
    assert (whole.figures["busbw_gbs at 1 GiB"], whole.attempts) == ([300.75], 2)
    with pytest.raises(LogError, match=wording("a later run")):
        read("nccl-tests", (begin + nccl() + begin).encode())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nccl-tests", nccl()),
        ("serving", namespace() + block()),
        ("mllog", event("run_start") + event("run_stop", STOP, status="success")),
        ("nemo-rl", rl(1) + rl(2)),
    ],
)
def test_a_benchmark_is_detected(write_log: WriteLog, name: str, text: str) -> None:
    assert detect_format(write_log(NOISE + text.encode() + NOISE)).name == name


WHOLE = {
    "nccl-tests": (nccl().removesuffix("#\n")),
    "serving": namespace() + block(),
    "mllog": event("run_start") + event("run_stop", STOP, status="success"),
}


@pytest.mark.parametrize("name", WHOLE)
@given(st.data())
def test_a_log_that_is_cut_anywhere_has_no_figures(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = WHOLE[name].encode()
    path = tmp_path_factory.mktemp("log") / "run.log"
    path.write_bytes(content[: data.draw(st.integers(1, len(content) - 1))])
    with pytest.raises(LogError):
        read_log(path, FORMATS[name])


PIECES = [
    *nccl().splitlines(), *(namespace() + block(rest=at(8))).splitlines(), *rl(1).splitlines(),
    event("run_start").strip(), event("run_stop", STOP, status="success").strip(), event("run_stop", 1e999).strip(),
    ":::MLLOG " + "[" * 9999 + '"run_stop"', ':::MLLOG {"key": "run_start", "time_ms": ' + "9" * 5000 + "}",
    "# Avg bus bandwidth    : -1", "1073741824 1 float sum -1 1e999 nan -3 0 . , 1 N/A", "warm-up", "0: " + ROWS[0].strip(),
    start(0, 8, "2(factor)").splitlines()[0], start(8, 1 << 59, "1(factor)").splitlines()[0], "Mean TTFT (ms):    \xff",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=30), max_size=30), st.sampled_from(["\n", "\r\n"]))
def test_whatever_the_lines_a_figure_is_a_finite_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "run.log"
    path.write_bytes(end.join([*lines, ""]).encode("utf-8", "surrogateescape") or b"\n")
    for name in ("nccl-tests", "serving", "mllog", "nemo-rl"):
        try:
            log = read_log(path, FORMATS[name])
        except LogError:
            continue
        assert log.attempts >= 1
        assert all(0 < value < 1e300 for values in log.figures.values() for value in values)
