"""A running job as its log shows it: how far it is, and what ends it early. Time is a number here."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gsw.executor import progress_monitor as watch_module
from pytest_gsw.executor.limits import Policies
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.jobs.model import EarlyStop
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.logs.reader import read_log
from pytest_gsw.tables.model import Accepted, Baseline, Figures, Recipe
from tests.messages import wording
from tests.unit.logs.lines import NOISE, bar, maxtext, megatron, paxml, pipe, printer, summary, throughput, titan
from tests.unit.rows import LLAMA2_FP8_X128, with_facts

NEVER = Policies(stall_s=math.inf, slow_start=math.inf)
IDENTITY = b"GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b JOB_ID=481221\n"
STALL_ADVICE = (
    "look for the rank that printed last, and rerun with NCCL_DEBUG=INFO; "
    "stall: MINUTES in clusters.yaml if the run does pause for so long"
)


def row(
    log_format: str = "maxtext", steps: int | None = 50, step_time_s: float | None = 4.5, logged: int | None = None
) -> Baseline:
    return replace(
        LLAMA2_FP8_X128,
        workload=replace(LLAMA2_FP8_X128.workload, framework=log_format, log_format=log_format),
        documented=Figures(step_time_s=step_time_s),
        recipe=Recipe(log_format, steps=steps, logged_steps=logged),
    )


def watching(
    baseline: Baseline | None = None,
    policies: Policies | None = None,
    **options: Any,
) -> Watch:
    baseline = baseline or row()
    log_format = FORMATS[baseline.workload.log_format]
    return Watch(baseline, log_format, policies or Policies(), steps=baseline.recipe.steps, **options)


def steps_until(stop: int, seconds: str = "4.500", begin: int = 0) -> bytes:
    return b"".join(maxtext(step, seconds) for step in range(begin, stop))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_bytes(b"")
    return path


def add(log: Path, content: bytes) -> None:
    with log.open("ab") as file:
        file.write(content)


def first_stop(watch: Watch, log: Path | None, times_s: Iterable[float]) -> tuple[float, str] | None:
    """When the first look found a reason to end the job, and which."""
    for now_s in times_s:
        stop = watch.look(log, now_s).stop
        if stop is not None:
            return now_s, stop.fact
    return None


def stop_of(log: Path, content: bytes, baseline: Baseline | None = None, **options: Any) -> EarlyStop | None:
    """Why a job is ended whose log has this content when it is looked at first."""
    log.write_bytes(content)
    return watching(baseline, **options).look(log, 0.0).stop


# -- progress -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baseline", "content", "sample"),
    [
        (row("maxtext"), maxtext(0, "9.500") + maxtext(1, "4.250"), Sample(2, 50, 4.25)),
        (row("megatron"), megatron(1, "9500.0") + megatron(2, "4250.0"), Sample(2, 50, 4.25)),
        (row("nemo"), printer(0, 0, "9.5") + printer(1, 1, "4.25"), Sample(2, 50, 4.25)),
        (row("nemo"), b"\r" + bar(1, "0.000", "9.500") + b"\r" + bar(2, "1.000", "4.250") + b"\r", Sample(2, 50, 4.25)),
        (row("paxml", 100, logged=20), paxml("9.500000") + paxml("4.250000"), Sample(2, 20, 4.25)),
        # 256 samples in a step, of 4096 tokens each on 128 GPUs.
        (row("torchtitan"), titan(1, "410") + titan(2, "2,048"), Sample(2, 50, 4.0)),
        (row("deepspeed"), pipe(1, "9.125") + pipe(2, "4.250"), Sample(2, 50, 4.25)),
        (row("deepspeed"), throughput(10, "12.5") + throughput(20, "64.0"), Sample(20, 50, 4.0)),
        (row("huggingface"), b"{'loss': 1.5, 'grad_norm': 2.5}\n", Sample(0, 50)),
        (row("maxtext", None), maxtext(0, "9.500"), Sample(1, None, 9.5)),
        (row("maxtext"), NOISE * 3, Sample(0, 50)),
        (row("maxtext"), maxtext(0, "9.500")[:-1], Sample(0, 50)),
    ],
)
def test_progress_in_the_unit_of_the_document(log: Path, baseline: Baseline, content: bytes, sample: Sample) -> None:
    log.write_bytes(content)
    assert watching(baseline).look(log, 0.0) == sample


def test_a_rate_without_a_batch_size_has_no_seconds(log: Path) -> None:
    log.write_bytes(throughput(10, "12.5"))
    assert watching(with_facts(row("deepspeed"), global_batch_size=None)).look(log, 0.0) == Sample(10, 50, None)


def test_each_look_reads_what_is_new(log: Path) -> None:
    watch = watching()
    for step in range(50):
        add(log, NOISE + maxtext(step, f"4.{step:03d}"))
        assert watch.look(log, 4.5 * step) == Sample(step + 1, 50, 4 + step / 1000, finished=step == 49)


@pytest.mark.parametrize(
    ("baseline", "line", "last"),
    [
        (row("maxtext"), lambda step: maxtext(step, "4.500"), 49),
        (row("nemo"), lambda step: printer(step, step, "4.5"), 49),
        (row("megatron"), lambda step: megatron(step, "4500.0"), 50),
        (row("torchtitan"), lambda step: titan(step, "1,820"), 50),
    ],
)
def test_finished_is_who_shows_the_last_step(
    log: Path, baseline: Baseline, line: Callable[[int], bytes], last: int
) -> None:
    watch = watching(baseline)
    for step in range(last - 49, last):
        add(log, line(step))
    assert not watch.look(log, 0.0).finished
    add(log, line(last))
    assert watch.look(log, 2.0).finished


def test_lost_lines_do_not_make_a_run_unfinished(log: Path) -> None:
    log.write_bytes(steps_until(20) + steps_until(50, begin=24))
    assert watching().look(log, 0.0) == Sample(50, 50, 4.5, finished=True)


@pytest.mark.parametrize(("lines", "finished"), [(19, False), (20, True), (21, True)])
def test_of_a_run_that_logs_its_first_steps_only_these_are_awaited(log: Path, lines: int, finished: bool) -> None:
    log.write_bytes(paxml("7.470000") * lines)
    assert watching(row("paxml", 100, logged=20)).look(log, 0.0).finished == finished


def test_a_row_whose_steps_nobody_documents_is_never_finished(log: Path) -> None:
    log.write_bytes(b"".join(megatron(step, "4500.0", total=20) for step in range(1, 21)))
    sample = watching(row("megatron", None)).look(log, 0.0)
    assert (sample.steps, sample.of, sample.finished) == (20, None, False)


def test_a_requeued_run_begins_anew(log: Path) -> None:
    watch = watching()
    log.write_bytes(IDENTITY + steps_until(30))
    assert watch.look(log, 0.0) == Sample(30, 50, 4.5)
    add(log, IDENTITY)
    assert watch.look(log, 2.0) == Sample(0, 50)
    # It starts containers and compiles again: the long limit counts from here.
    assert first_stop(watch, log, range(12, 1802, 10)) is None
    assert watch.look(log, 1802.0).stop is not None
    add(log, maxtext(0, "4.250"))
    assert watch.look(log, 1804.0) == Sample(1, 50, 4.25)


def test_a_log_of_another_name_is_another_run(log: Path, tmp_path: Path) -> None:
    watch = watching()
    log.write_bytes(steps_until(30))
    watch.look(log, 0.0)
    other = tmp_path / "other.log"
    other.write_bytes(steps_until(3))
    assert watch.look(other, 2.0).steps == 3


# -- stalls -------------------------------------------------------------------------------


def test_the_whole_message_of_a_stall(log: Path) -> None:
    watch = watching(time_limit_s=3600.0)
    log.write_bytes(steps_until(17))
    assert first_stop(watch, log, range(100, 700, 10)) is None
    assert watch.look(log, 700).stop == EarlyStop(
        wording("stalled", step=17, steps=50, time="10m00s"), STALL_ADVICE, 3000.0
    )


def test_the_whole_message_of_a_job_that_hangs_at_its_start(log: Path) -> None:
    watch = watching()
    log.write_bytes(NOISE)
    assert first_stop(watch, log, range(0, 1800, 10)) is None
    assert watch.look(log, 1800).stop == EarlyStop(wording("hung", time="30m00s"), STALL_ADVICE, None)


@pytest.mark.parametrize("path", [None, Path("/nowhere/run.log")])
def test_a_log_that_never_appears_hangs_at_the_start(path: Path | None) -> None:
    watch = watching()
    assert watch.look(path, 0.0) == Sample(0, 50)
    assert first_stop(watch, path, range(10, 3600, 10)) == (1800, wording("hung", time="30m00s"))


@pytest.mark.parametrize(
    ("baseline", "policies", "limit_s", "start_s"),
    [
        (row(step_time_s=30.0), Policies(), 600, 1800),
        (row(step_time_s=40.0), Policies(), 800, 2400),
        (row(step_time_s=None), Policies(), 600, 1800),
        (row(step_time_s=40.0), Policies(stall_s=60.0), 60, 180),
        (row(steps=None), Policies(), 600, 1800),
        # Of a hundred steps every fifth has a line.
        (row(steps=100, step_time_s=7.0, logged=20), Policies(), 700, 2100),
    ],
)
def test_how_long_a_job_may_be_silent(
    log: Path, baseline: Baseline, policies: Policies, limit_s: int, start_s: int
) -> None:
    policies = replace(policies, slow_start=math.inf)
    for content, wanted_s in ((b"", start_s), (steps_until(3), limit_s)):
        log.write_bytes(content)
        when_s, _ = first_stop(watching(baseline, policies), log, range(0, 9000, 10)) or (0, "")
        assert when_s == wanted_s


def test_a_job_that_pauses_may_pause_again_and_for_longer(log: Path) -> None:
    watch = watching()
    log.write_bytes(steps_until(5))
    assert first_stop(watch, log, range(0, 502, 10)) is None
    add(log, maxtext(5, "4.500"))
    watch.look(log, 502.0)
    fact = "stalled at step 6 of 50: no new step for 25m06s"
    assert first_stop(watch, log, range(508, 9000, 10)) == (502 + 3 * 502, fact)


def test_lines_for_many_steps_may_come_as_rarely(log: Path) -> None:
    # One line for 50 steps of 30 s: 25 minutes between two.
    watch = watching(row("megatron", None, step_time_s=30.0))
    now_s = 0
    for step in range(50, 501, 50):
        assert first_stop(watch, log, range(now_s, now_s + 1500, 10)) is None
        now_s += 1500
        add(log, megatron(step, "30000.0", total=1000))
    fact = "stalled at step 500: no new step for 8h20m"
    assert first_stop(watch, log, range(now_s, now_s + 99000, 100)) == (now_s + 20 * 50 * 30, fact)


def test_a_checkpoint_to_start_from_is_no_interval(log: Path) -> None:
    watch = watching(row("megatron", None))
    for step in (1001, 1002):
        add(log, megatron(step, "4500.0", total=2000))
        watch.look(log, 2.0 * step)
    when, _ = first_stop(watch, log, range(2014, 9000, 10)) or (0, "")
    assert when == 2004 + 600


@pytest.mark.parametrize("content", [b"", steps_until(3)])
def test_never_is_never(log: Path, content: bytes) -> None:
    log.write_bytes(content)
    assert first_stop(watching(policies=NEVER), log, range(0, 10**7, 10**5)) is None


def test_silence_of_a_format_that_shows_no_progress_is_no_stall(log: Path) -> None:
    watch = watching(row("huggingface"))
    log.write_bytes(b"***** Running training *****\n{'loss': 1.5, 'grad_norm': 2.5}\n")
    assert first_stop(watch, log, range(0, 10**7, 10**5)) is None
    add(log, summary("95.5"))
    assert watch.look(log, 10.0**7) == Sample(1, 50, 256 / 95.5)
    assert first_stop(watch, log, range(10**7, 2 * 10**7, 10**5)) is None


@pytest.mark.parametrize(
    ("baseline", "content"),
    [
        (row(), steps_until(50)),
        # The log says itself where it ends.
        (row("megatron", None), b"".join(megatron(step, "4500.0", total=12) for step in range(1, 13))),
        (row("maxtext", None), b"Config param steps: 12\n" + steps_until(12)),
        # One line for ten steps: 46 to 50 have none.
        (row("megatron", 55), b"".join(megatron(step, "4500.0", total=55) for step in range(10, 51, 10))),
    ],
)
def test_what_follows_the_last_line_is_no_stall(log: Path, baseline: Baseline, content: bytes) -> None:
    watch = watching(baseline)
    log.write_bytes(content)
    assert first_stop(watch, log, range(0, 10**4, 100)) is None


def test_a_follower_that_has_missed_steps_ends_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watching()
    log.write_bytes(steps_until(17))
    watch.look(log, 0.0)

    reads = 0

    def one_more(path: Path, log_format: LogFormat) -> StepLog:
        nonlocal reads
        reads += 1
        whole = read_log(path, log_format)
        return replace(whole, steps=(*whole.steps, whole.steps[-1]))

    monkeypatch.setattr(watch_module, "read_log", one_more)
    assert first_stop(watch, log, range(0, 9010, 10)) is None
    assert reads == 15  # each time is as good as a new step: a whole log takes its time
    monkeypatch.setattr(watch_module, "read_log", read_log)
    when, _ = first_stop(watch, log, range(9010, 12000, 10)) or (0, "")
    assert when == 9600


def test_what_was_decided_stands_without_another_look_at_the_whole_log(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watching()
    log.write_bytes(steps_until(17))
    watch.look(log, 0.0)
    stop = watch.look(log, 600.0).stop
    assert stop is not None

    def unexpected(path: Path, log_format: LogFormat) -> StepLog:
        raise AssertionError

    monkeypatch.setattr(watch_module, "read_log", unexpected)
    assert watch.look(log, 602.0).stop == stop
    add(log, maxtext(17, "4.500"))  # the job goes on after all
    assert watch.look(log, 604.0).stop is None


@pytest.mark.parametrize("is_directory", [False, True])
def test_a_log_that_cannot_be_read_tells_of_no_stall(log: Path, tmp_path: Path, is_directory: bool) -> None:
    watch = watching()
    log.write_bytes(steps_until(17))
    watch.look(log, 0.0)
    moved = log.rename(tmp_path / "moved.log")
    if is_directory:
        log.mkdir()
    assert first_stop(watch, log, range(10, 9000, 10)) is None
    assert watch.look(log, 9000.0) == Sample(17, 50, 4.5)
    if is_directory:
        log.rmdir()
    moved.rename(log)
    when, _ = first_stop(watch, log, range(9010, 12000, 10)) or (0, "")
    assert when == 9600  # since nobody could tell


# -- not finite ---------------------------------------------------------------------------


def test_the_whole_message_of_a_loss_that_is_not_finite(log: Path) -> None:
    watch = watching()
    log.write_bytes(steps_until(9))
    assert watch.look(log, 0.0).stop is None
    add(log, maxtext(9, "4.500", loss="nan"))
    assert watch.look(log, 2.0).stop == EarlyStop(
        wording("not finite", step=9, what="loss: nan"),
        wording("a diverged run"),
        40 * 4.5,
    )


def test_what_is_not_finite_must_be_so_in_the_log_as_it_is_judged(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watching()
    log.write_bytes(steps_until(9) + maxtext(9, "4.500", loss="nan"))
    monkeypatch.setattr(watch_module, "read_log", lambda *of: replace(read_log(*of), not_finite=None))
    assert watch.look(log, 0.0).stop is None
    fact = "stalled at step 10 of 50: no new step for 10m00s"
    assert first_stop(watch, log, range(10, 3000, 10)) == (600, fact)


def test_what_was_not_finite_in_an_earlier_attempt_ends_nothing(log: Path) -> None:
    log.write_bytes(IDENTITY + steps_until(9) + maxtext(9, "4.500", loss="nan") + IDENTITY + steps_until(3))
    assert watching().look(log, 0.0) == Sample(3, 50, 4.5)


@pytest.mark.parametrize(
    ("baseline", "saved_s"),
    [
        (row(), 40 * 4.25),
        (row(steps=None), None),
        (row("paxml", 100, logged=20), (20 - 10) * 5 * 4.25),
    ],
)
def test_a_run_that_diverged_would_go_on_to_its_last_step(log: Path, baseline: Baseline, saved_s: float) -> None:
    content = {
        "maxtext": steps_until(9, "4.250") + maxtext(9, "4.250", loss="nan"),
        "paxml": paxml("4.250000") * 10 + b"[PAX STATUS] step_i: 9, training loss: nan\n",
    }
    stop = stop_of(log, content[baseline.workload.log_format], baseline)
    assert stop is not None
    assert stop.saved_s == saved_s


# -- slow start ---------------------------------------------------------------------------

SLOW = "13.600"  # more than three times 4.5 s


def test_the_whole_message_of_a_slow_start(log: Path) -> None:
    watch = watching()
    log.write_bytes(steps_until(9, SLOW))
    assert watch.look(log, 0.0).stop is None
    add(log, maxtext(9, "90.000"))
    assert watch.look(log, 2.0).stop == EarlyStop(
        wording("early limit", step_time="13.6 s", few=10, steps=10, times="3.0", figure="documented 4.5 s", limit=3),
        "the nodes or the fabric are at fault rather than the row; slow_start: 0 in clusters.yaml lets them go on",
        40 * 13.6,
    )


@pytest.mark.parametrize(
    ("seconds", "factor", "stops"),
    [("13.500", 3.0, False), ("13.501", 3.0, True), ("5.500", 1.2, True), ("90.000", 20.0, False), ("9999.0", math.inf, False)],
)  # fmt: skip
def test_how_slow_is_too_slow(log: Path, seconds: str, factor: float, stops: bool) -> None:
    stop = stop_of(log, steps_until(10, seconds), policies=Policies(slow_start=factor))
    assert (stop is not None) == stops


def test_a_rate_of_nought_is_for_ever(log: Path) -> None:
    stop = stop_of(log, b"".join(titan(step, "0") for step in range(1, 11)), row("torchtitan"))
    assert stop is not None
    assert stop.fact.startswith("slow start: inf s a step")
    assert stop.saved_s is None


@pytest.mark.parametrize(
    ("baseline", "judged"),
    [
        (row(), False),
        (with_facts(row(), metric="checkpoint_save_time"), True),
        (with_facts(row(), expected_failure="out_of_memory"), True),
        (row(step_time_s=None), True),
    ],
)
def test_what_is_not_judged_by_its_step_time_may_be_slow(log: Path, baseline: Baseline, judged: bool) -> None:
    assert stop_of(log, steps_until(20, "99.000"), baseline, judged=judged) is None


@pytest.mark.parametrize(("fast", "slow", "stops"), [(11, 10, False), (10, 10, True), (40, 10, False), (10, 11, True)])
def test_half_of_all_steps_must_be_slow(log: Path, fast: int, slow: int, stops: bool) -> None:
    content = steps_until(fast) + steps_until(fast + slow, SLOW, begin=fast)
    assert (stop_of(log, content, row(steps=100)) is not None) == stops


@pytest.mark.parametrize(
    "content",
    [
        steps_until(9, "99.000") + steps_until(20, begin=9),
        IDENTITY + steps_until(30, "99.000") + IDENTITY + steps_until(10),
    ],
    ids=["over", "an earlier attempt's"],
)
def test_a_slow_start_that_is_not_this_ones_ends_nothing(log: Path, content: bytes) -> None:
    assert stop_of(log, content) is None


@pytest.mark.parametrize(
    ("steps", "logged", "saved_s"), [(50, None, 40 * 20.0), (100, 20, 10 * 5 * 20.0), (None, None, None)]
)
def test_a_slow_job_would_go_on_as_slowly(
    log: Path, steps: int | None, logged: int | None, saved_s: float | None
) -> None:  # fmt: skip
    stop = stop_of(log, paxml("20.000000") * 10, row("paxml", steps, logged=logged))
    assert stop is not None
    assert stop.saved_s == saved_s


def test_a_job_that_is_finished_is_not_ended(log: Path) -> None:
    log.write_bytes(steps_until(49, SLOW) + maxtext(49, SLOW, loss="nan"))
    assert watching().look(log, 0.0) == Sample(50, 50, 13.6, finished=True)


# -- what is healthy never stops ----------------------------------------------------------

LINES: dict[str, Callable[[int, float], bytes]] = {
    "maxtext": lambda step, seconds: maxtext(step, f"{seconds:.3f}"),
    "maxtext of many ranks": lambda step, seconds: b"".join(
        maxtext(step, f"{seconds:.3f}", head=f"{r}: ") for r in range(3)
    ),
    "megatron": lambda step, seconds: megatron(step + 1, f"{seconds * 1000:.1f}", total=50),
    "nemo": lambda step, seconds: printer(step, step, f"{seconds:.4g}"),
    "nemo's bar": lambda step, seconds: b"\r" + bar(step + 1, f"{step}.000", f"{seconds:.3f}") + b"\r",
    "paxml": lambda _step, seconds: paxml(f"{seconds:.6f}"),
    "torchtitan": lambda step, seconds: titan(step + 1, f"{256 * 4096 / 128 / seconds:,.0f}"),
    "deepspeed": lambda step, seconds: pipe(step + 1, f"{seconds:.3f}"),
    "huggingface": lambda _step, _seconds: b"{'loss': 1.5, 'grad_norm': 2.5}\n",
}  # fmt: skip
FRAMEWORKS = {name: name.split("'")[0].split(" ")[0] for name in LINES}


@given(
    name=st.sampled_from(sorted(LINES)),
    start_s=st.floats(0.0, 1200.0),
    # Of each step: its seconds, and how many bytes of its line come late.
    steps=st.lists(st.tuples(st.floats(0.01, 13.4), st.integers(0, 200)), min_size=1, max_size=50),
    pauses_s=st.lists(st.tuples(st.integers(0, 49), st.floats(0.0, 580.0)), max_size=4),
    look_s=st.floats(1.0, 30.0),
    requeued_after=st.none() | st.integers(0, 40),
    documented=st.booleans(),
)
@example(
    name="maxtext",
    start_s=1200.0,
    steps=[(13.4, 100)] * 50,
    pauses_s=[(1, 580.0)],
    look_s=2.0,
    requeued_after=7,
    documented=True,
)
def test_a_healthy_run_is_never_ended_however_its_log_grows(
    name: str,
    start_s: float,
    steps: list[tuple[float, int]],
    pauses_s: list[tuple[int, float]],
    look_s: float,
    requeued_after: int | None,
    documented: bool,
) -> None:
    written: list[tuple[float, bytes]] = [(0.0, IDENTITY)]
    now_s = start_s
    held = b""
    for number, (seconds, late) in enumerate(steps):
        begin_s, now_s = now_s, now_s + max([seconds, *(pause_s for step, pause_s in pauses_s if step == number)])
        written.append((min(begin_s + 5.0, now_s), held))
        line = NOISE + LINES[name](number, seconds)
        held = line[max(0, len(line) - late) :]
        written.append((now_s, line[: len(line) - len(held)]))
        if number == requeued_after and name != "huggingface":
            written.append((now_s + 1.0, held + IDENTITY))
            held = b""
            now_s += 1.0 + start_s
    now_s += 5.0
    written.append((now_s, held))
    baseline = row(FRAMEWORKS[name], steps=50 if documented else None)
    watch, sample = watching(baseline), Sample()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.log"
        at_s = 0.0
        while at_s <= now_s + look_s:
            while written and written[0][0] <= at_s:
                add(log, written.pop(0)[1])
            sample = watch.look(log if log.exists() else None, at_s)
            assert sample.stop is None, sample
            at_s += look_s
        if name != "huggingface" and requeued_after is None:
            assert sample.steps == len(steps)


# -- what a cluster has accepted ------------------------------------------------------------

EOS = Accepted("eos", 18.0, 5, 0.01, "1, 2", "2026-11-20", "3f2a9c1d0e4b")


def test_a_slow_start_is_one_against_what_is_accepted(log: Path) -> None:
    assert stop_of(log, steps_until(10, "18.000"), accepted=EOS) is None
    stop = stop_of(log, steps_until(10, "54.500"), accepted=EOS)
    assert stop is not None
    assert stop.fact == (
        wording("early limit", step_time="54.5 s", few=10, steps=10, times="3.0", figure="accepted 18 s", limit=3)
    )


@pytest.mark.parametrize(
    ("metric", "judged", "limit_s"), [("step_time", 40.0, 800), ("checkpoint_save_time", 400.0, 600)]
)
def test_a_stall_is_one_against_what_is_accepted_of_steps(log: Path, metric: str, judged: float, limit_s: int) -> None:
    log.write_bytes(steps_until(5, "40.000"))
    watch = watching(with_facts(row(), metric=metric), accepted=replace(EOS, judged=judged))
    when_s, _ = first_stop(watch, log, range(0, 900, 10)) or (0, "")
    assert when_s == limit_s
