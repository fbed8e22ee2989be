"""Whatever a file holds: no exception but LogError, no NaN, and the same result for every block size."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import LogError
from pytest_gsw.logs import scan
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import StepLog
from pytest_gsw.logs.reader import detect_format, read_log, tail_lines
from pytest_gsw.logs.signatures import find_cause
from tests.endless import it_ends
from tests.unit.logs import lines
from tests.unit.logs.test_scan import labelled

NUMBERS = st.sampled_from(["4.25", "9.125", "nan", "inf", "2e+3", "6,785", "1e999", ",", "532.1/615.7", "N/A", "", "0"])
STEPS = st.integers(0, 12)
LINES = st.one_of(
    st.builds(lines.maxtext, STEPS, NUMBERS, st.sampled_from(["8.1", "nan"]), st.sampled_from(["", "3: ", "127: "])),
    st.builds(lines.megatron, STEPS, NUMBERS, unit=st.sampled_from(["ms", "s"])),
    st.builds(lines.printer, STEPS, STEPS, NUMBERS, STEPS),
    st.builds(lines.dll, STEPS, NUMBERS),
    st.builds(lines.bar, STEPS, st.sampled_from(["0.000", "5.000", "2e+3", "nan.0"]), NUMBERS, st.just("20")),
    st.builds(lines.paxml, NUMBERS, st.integers(1, 3)),
    st.just(lines.paxml_start(1)),
    st.builds(lines.titan, STEPS, NUMBERS),
    st.builds(lines.pipe, STEPS, NUMBERS),
    st.builds(lines.throughput, STEPS, NUMBERS),
    st.builds(lines.summary, NUMBERS),
    st.sampled_from(
        [
            b"GSW: MODEL=m JOB_ID=4711\n", b"GSW: MODEL=m JOB_ID=4711\r",
            b"***** Running training *****\n", b"  Total optimization steps = ,\n", b"  Total optimization steps = 8\n",
            b"GSW: MODEL=m JOB_NUM_NODES=\xb2 GPUS_PER_NODE=8 JOB_ID='\n", b"time (ms) | save-checkpoint: nan\n",
            b"train_step_timing in s: [1.0, nan, ]\n", b"train_step_timing in s: [\n", b"\r", b"\n", b"\0\0\0",
            b"Step Time : 9.09s GPU utilization: 1\n", b"\x1b[A", b"x" * 1500, b"RuntimeError: CUDA out of memory\n",
        ]
    ),
    st.binary(max_size=40),
)  # fmt: skip
CONTENTS = st.lists(LINES, max_size=25).map(b"".join)


def outcome(path: Path, name: str, block_bytes: int) -> StepLog | str:
    try:
        with patch.object(scan, "BLOCK_BYTES", block_bytes):
            return read_log(path, FORMATS[name])
    except LogError as error:
        return error.fact


def check(content: bytes, block_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.write_bytes(content)
        for name in FORMATS:
            log = outcome(path, name, 1 << 20)
            assert outcome(path, name, block_bytes) == log
            if isinstance(log, StepLog):
                values = [
                    value
                    for step in log.steps
                    for value in (step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu)
                    if value is not None
                ]
                assert len(values) == len(log.steps)
                assert log.steps or log.figures
                assert all(math.isfinite(value) and value >= 0 for value in values)
                assert all(math.isfinite(value) for value in log.checkpoint_saves_s)
                assert log.attempts >= 1
                numbers = [step.index for step in log.steps if step.index is not None]
                assert len(numbers) == len(set(numbers))
                assert all(0 <= step.offset < len(content) for step in log.steps if step.offset is not None)
        cause = find_cause(path)
        with patch.object(scan, "BLOCK_BYTES", block_bytes):
            assert find_cause(path) == cause
        for line in tail_lines(path):
            assert len(line) <= 240
            assert line.isprintable() or any(ord(character) > 126 for character in line)
        try:
            found = detect_format(path)
        except LogError:
            found = None
        if found is not None:
            assert found.name in FORMATS


@given(CONTENTS, st.integers(1, 5000))
def test_any_content(content: bytes, block_bytes: int) -> None:
    check(content, block_bytes)


@given(CONTENTS, st.integers(1, 5000), st.sampled_from(["0: ", " 7: "]), st.data())
def test_broken_by_srun_and_truncated(content: bytes, block_bytes: int, label: str, data: st.DataObject) -> None:
    broken = labelled(label, content)
    check(broken[: data.draw(st.integers(0, len(broken)))], block_bytes)


@given(
    st.permutations([(rank, step) for step in range(4) for rank in range(3)]).map(
        # Each rank prints its steps in order, however the ranks interleave.
        lambda pairs: [(rank, sum(other == rank for other, _ in pairs[:at])) for at, (rank, _) in enumerate(pairs)]
    ),
)
def test_each_step_of_interleaved_ranks_counts_once(printed: list[tuple[int, int]]) -> None:
    content = b"".join(lines.maxtext(step, "4.25", head=f"{rank}: ") for rank, step in printed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.write_bytes(content)
        log = read_log(path, FORMATS["maxtext"])
    numbers = [step.index for step in log.steps]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 3


#: Lines of 100 kilobytes: linear work takes a fraction of a second, quadratic work longer than the test waits.
HOSTILE = [
    b"train_step_timing in s: [" * 4000,
    b"1/1 [" * 20_000 + b"train_step_timing in s=1",
    b"1/2 [" + b"global_step=" * 8000 + b"train_step_timing in s=1]",
    b"iteration 1/ 2 |" * 6000 + b"elapsed time per iteration (ms): ",
    b"elapsed time per iteration (ms): " * 3000 + b"1" * 10_000,
    b"completed step: 1, seconds: " * 3000 + b"9" * 10_000,
    b"step: 1  loss: " * 6000 + b"tps: ",
    b"GSW: MODEL=" + b"A=" * 40_000,
    b"  train_samples_per_second" + b" " * 90_000 + b"= 1",
    b"'train_samples_per_second': '" + b"1," * 40_000,
    b"[PAX STATUS]: train_step() took " + b"1" * 90_000,
    b"0/1, RunningAvgSamplesPerSec=" * 3000 + b"SamplesPerSec=",
    b"steps: 1 loss: " * 6000 + b"iter time (s): ",
    b"global_batch_size" + b" ." * 40_000 + b"completed step: 1, seconds: 1.0",
    b"\x1b[" * 40_000 + b"completed step: 1, seconds: 1.0",
    b"save-checkpoint " + b"." * 90_000 + b"time (ms) |",
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: line[:24].decode())
def test_no_line_makes_reading_slow(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(line + b"\n")
    with it_ends(5):
        for name in FORMATS:
            outcome(path, name, 1 << 20)
