from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import Identity, Step
from pytest_gsw.logs.reader import detect_format, line_number, read_log, tail_lines
from pytest_gsw.logs.scan import safe_text
from pytest_gsw.logs.signatures import find_cause
from pytest_gsw.logs.steps import CALIBRATION_EXAMPLE, calibration_flops, with_skipped
from tests.endless import it_ends
from tests.messages import wording
from tests.unit.logs.conftest import Read, WriteLog
from tests.unit.logs.lines import (
    EXAMPLES,
    FORMS,
    NOISE,
    automodel,
    bar,
    composer,
    dll,
    indexes,
    maxtext,
    megatron,
    paxml,
    paxml_start,
    pipe,
    printer,
    seconds,
    summary,
    throughput,
    titan,
)
from tests.unit.logs.test_scan import labelled

MAXTEXT = FORMATS["maxtext"]

#: Controls of both sets, line separators, what turns the direction of writing, what is not seen.
UNSAFE = tuple(
    map(chr, (0x00, 0x07, 0x1B, 0x7F, 0x80, 0x85, 0x9B, 0x9F, 0x200B, 0x200E, 0x2028, 0x2029, *range(0x202A, 0x202F)))
) + tuple(map(chr, (*range(0x2066, 0x206A), 0x061C, 0x180E, 0xFEFF, 0xFFF9, 0xFFFB, 0xFFFE, 0xE0001, 0xE007F)))


def refused(read: Callable[..., object], *arguments: object) -> LogError:
    with pytest.raises(LogError) as error:
        read(*arguments)
    return error.value


class TestRefused:
    def test_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "run.log"
        (tmp_path / "other.log").touch()
        assert str(refused(read_log, path, MAXTEXT)) == (
            "the log does not exist: run.log\n"
            "\n"
            f"log        {path}\n"
            f"folder     {tmp_path} holds 1 other entry\n"
            "next       find out whether the job started, and whether it writes to this path"
        )
        error = refused(read_log, tmp_path / "results" / "run.log", MAXTEXT)
        assert ("folder", f"{tmp_path}/results does not exist") in error.evidence

    def test_no_file(self, tmp_path: Path) -> None:
        error = refused(detect_format, tmp_path)
        assert (error.fact, error.advice) == (f"the log is a directory: {tmp_path.name}", "name the log file itself")
        os.mkfifo(tmp_path / "pipe")
        assert refused(read_log, tmp_path / "pipe", MAXTEXT).fact == wording("log is no file", name="pipe")

    def test_empty(self, write_log: WriteLog) -> None:
        path = write_log(b"")
        error = refused(read_log, path, MAXTEXT)
        assert (error.fact, error.evidence) == (wording("log is empty", name="run.log"), (("log", f"{path}, 0 bytes"),))
        assert error.advice.startswith(wording("next nothing written"))

    def test_no_steps(self, write_log: WriteLog) -> None:
        path = write_log(b"starting\n\x1b[31mTraceback\x1b[0m\n" + b"  8%|#   |\r 16%|##  |\r\nKilled")
        error = refused(read_log, path, MAXTEXT)
        assert error.fact == wording("no step times", log_format="maxtext") + ": run.log"
        assert error.evidence == (("log", f"{path}, {path.stat().st_size} bytes"), ("searched", "'completed step: '"))
        assert error.tail == ("starting", "Traceback", "16%|##  |", "Killed")
        assert error.advice == wording("tail advice")

    def test_no_steps_of_this_format_but_of_another(self, write_log: WriteLog) -> None:
        error = refused(read_log, write_log(megatron(1, "4.0")), MAXTEXT)
        assert error.advice == wording("next megatron", held="megatron", log_format="megatron")

    def test_no_step_time_is_finite(self, write_log: WriteLog) -> None:
        error = refused(read_log, write_log(maxtext(0, "nan")), MAXTEXT)
        assert error.fact == wording("no finite step time", log_format="maxtext", what="step time nan: run.log")

    def test_unknown_format(self, write_log: WriteLog) -> None:
        error = refused(detect_format, write_log(b"step_i: 100, training loss: 6.35\n"))
        assert error.fact == wording("no steps of a known format") + ": run.log"
        known = ", ".join(sorted(FORMATS))
        assert ("known", known) in error.evidence
        assert error.tail == ("step_i: 100, training loss: 6.35",)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_no_permission(self, write_log: WriteLog) -> None:
        path = write_log(maxtext(0, "4.0"))
        path.chmod(0)
        assert refused(read_log, path, MAXTEXT).fact == wording(
            "cannot be read", what="the log", why="run.log: " + wording("no permission")
        )


class TestDetectFormat:
    @pytest.mark.parametrize("name", sorted(EXAMPLES))
    def test_each(self, write_log: WriteLog, name: str) -> None:
        assert detect_format(write_log(NOISE + EXAMPLES[name] + NOISE)).name == name

    @pytest.mark.parametrize(
        ("content", "name"),
        [
            (pipe(1, "4.0") + megatron(1, "4000.0") + pipe(2, "4.0"), "megatron"),
            (throughput(10, "12.5") + summary("3.5"), "huggingface"),
            (bar(1, "0.000", "4.0") + dll(0, "4.0"), "nemo"),
            (EXAMPLES["deepspeed"] + EXAMPLES["maxtext"], "maxtext"),
        ],
    )
    def test_precedence(self, write_log: WriteLog, content: bytes, name: str) -> None:
        assert detect_format(write_log(content)).name == name

    def test_steps_in_the_middle_of_a_large_log(self, write_log: WriteLog) -> None:
        noise = NOISE * (5_000_000 // len(NOISE))
        assert detect_format(write_log(noise + EXAMPLES["maxtext"] + noise)).name == "maxtext"


class TestIdentity:
    LINE = (
        b"GSW: MODEL=llama9 FRAMEWORK=maxtext MODEL_SIZE=7b JOB_NUM_NODES=8 GPUS_PER_NODE=4 DTYPE=fp8 "
        b"SYNTHETIC_DATA=True XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 GSW_VERSION=24.11 FW_VERSION=2031.02 "
        b"IMAGE='/images/a b.sqsh' JOB_ID=4711 JOB_MODE=training OPTIMIZATION_NAME='' OPTIMIZATION_CODE='' "
        b"BASE_CONFIG='x'\n"
    )

    def test_recipe_line(self, read: Read) -> None:
        log = read("maxtext", b"3: " + self.LINE + maxtext(0, "4.0"))
        assert log.identity == Identity(
            "maxtext", "llama9", "7b", "fp8", 32, "4711", None, release="24.11", image="/images/a b.sqsh"
        )

    def test_the_command_that_prints_it_says_nothing(self, read: Read) -> None:
        quoted = b"GSW: MODEL=m JOB_ID=4711 OPTIMIZATION_CODE='export XLA_FLAGS=$FLAGS;'\n"
        assert read("maxtext", quoted + maxtext(0, "4.0")).identity.job_id == "4711"
        echo = b"+ echo 'GSW: MODEL=other FRAMEWORK=x JOB_ID=1'\n  echo \"GSW: MODEL=${MODEL} JOB_ID=$SLURM_JOB_ID\"\n"
        assert read("maxtext", echo + maxtext(0, "4.0")).identity == Identity()

    def test_the_last_attempts_counts_deep_in_a_large_log(self, read: Read) -> None:
        noise = NOISE * (9_000_000 // len(NOISE))
        again = self.LINE.replace(b"4711", b"4712")
        log = read("megatron", self.LINE + megatron(1, "4.0") + megatron(2, "4.0") + noise + again + megatron(1, "4.0"))
        assert (log.attempts, log.identity.job_id) == (2, "4712")

    def test_which_of_several_lines_counts(self, read: Read) -> None:
        # Of lines before the same attempt the last counts.
        other = self.LINE.replace(b"MODEL_SIZE=7b", b"MODEL_SIZE=70b")
        assert read("maxtext", self.LINE + NOISE + other + maxtext(0, "4.0")).identity.size == "70b"
        # A line between steps begins another run.
        late = self.LINE.replace(b"4711", b"4712")
        for first in (self.LINE, b""):
            log = read("maxtext", first + maxtext(0, "9.0") + late + maxtext(1, "4.0"))
            assert (log.identity.job_id, log.attempts, indexes(log)) == ("4712", 2, [1])
        # What precedes the last attempt counts where nothing precedes it directly.
        run = b"".join(maxtext(step, "4.0") for step in range(4))
        log = read("maxtext", self.LINE + run + run)
        assert (log.attempts, log.identity.job_id) == (2, "4711")

    def test_what_says_nothing_or_less(self, read: Read) -> None:
        # Facts after the first step say nothing.
        size = b"using world size: %d, data-parallel-size: 4\n"
        assert read("maxtext", size % 64 + maxtext(0, "4.0") + size % 128).identity.gpus == 64
        # Incomplete and odd values.
        log = read("maxtext", b"GSW: MODEL=m JOB_NUM_NODES=two GPUS_PER_NODE=8 DTYPE= JOB_ID=\n" + maxtext(0, "4.0"))
        assert log.identity == Identity(model="m")
        # Step lines know the batch best.
        log = read("nemo", b"  global_batch_size: 8\n" + printer(0, 0, "4.0"))
        assert log.identity.global_batch_size == 256

    @pytest.mark.parametrize("label", [b"", b"3: "])
    @pytest.mark.parametrize("noise", [NOISE, NOISE * (9_000_000 // len(NOISE))])
    def test_a_later_run_without_steps(self, write_log: WriteLog, label: bytes, noise: bytes) -> None:
        run = self.LINE + b"".join(maxtext(step, "4.0") for step in range(4))
        path = write_log(run + noise + label + self.LINE + self.LINE + b"Killed\n")
        error = refused(read_log, path, MAXTEXT)
        line = run.count(b"\n") + noise.count(b"\n") + 1
        assert error.fact == wording("no later steps")
        assert (error.evidence, error.tail[-1]) == ((("log", f"{path}:{line}"),), "Killed")
        assert error.advice == wording("next last lines")

    @pytest.mark.parametrize(
        ("line", "steps"),
        [
            (b"I0203 04:05:06.789012 139 pyconfig.py:413] Config param steps: 50\n", 50),
            (b"Config param steps: 15\nConfig param steps: 50\n", 50),
            (b"Config param eval_steps: -1\nConfig param steps: none\n", None),
            (b"Training starts at step 1, with local batch size 2, sequence length 8, total steps 30 (warmup 2)\n", 30),
            (b"  Total optimization steps = 1,200\n", 1200),
        ],
    )
    def test_how_many_steps_there_will_be(self, read: Read, line: bytes, steps: int | None) -> None:
        assert read("maxtext", line + maxtext(0, "4.0")).total_steps == steps


def ranks(step: int, figure: str) -> bytes:
    """MaxText's line of three ranks, whose median has the figure."""
    return b"".join(maxtext(step, took, head=f"{rank}: ") for rank, took in enumerate(("4.1", figure, "9.9")))


#: Ways of writing a step that a run which goes on from a checkpoint is told by.
RESUMED = {"ranks": ("maxtext", "4.5", ranks)} | {
    name: FORMS[name]
    for name in (
        *("maxtext", "paxml", "nemo bar", "nemo dll", "nemo 2", "megatron", "bridge", "torchtitan", "automodel"),
        *("composer", "deepspeed pipe", "deepspeed timer", "huggingface"),
    )
}


class TestResumedFromACheckpoint:
    """A requeued job appends to the log of the one before, and goes on where that one had saved."""

    LINE = b"GSW: MODEL=llama9 FRAMEWORK=any MODEL_SIZE=7b JOB_NUM_NODES=8 GPUS_PER_NODE=4 DTYPE=fp8 JOB_ID=4711\n"

    @staticmethod
    def steps(name: str, first: int, last: int) -> bytes:
        _, figure, line = RESUMED[name]
        if name == "huggingface":  # which sums up at the end
            return line(0, figure) * (last in {11, 19})
        return b"".join(line(step, figure) for step in range(first, last + 1))

    @pytest.mark.parametrize("name", RESUMED)
    @pytest.mark.parametrize("label", [b"", b"3: "])
    def test_only_its_own_steps_count(self, read: Read, name: str, label: bytes) -> None:
        begin = label + self.LINE
        whole = read(RESUMED[name][0], begin * 3 + self.steps(name, 0, 19))
        assert whole.attempts == 1
        once = read(RESUMED[name][0], begin + self.steps(name, 12, 19))
        log = read(RESUMED[name][0], begin * 3 + self.steps(name, 0, 11) + begin * 3 + self.steps(name, 12, 19))
        assert log.attempts == 2
        assert [replace(step, offset=0) for step in log.steps] == [replace(step, offset=0) for step in once.steps]
        again = begin * 2 + self.steps(name, 0, 7) + begin + self.steps(name, 8, 11)
        log = read(RESUMED[name][0], again + begin * 2 + self.steps(name, 12, 19))
        assert log.attempts == (2 if name == "huggingface" else 3)  # whose summary stands at the end alone
        assert [replace(step, offset=0) for step in log.steps] == [replace(step, offset=0) for step in once.steps]

    def test_what_the_run_before_said_does_not_count(self, read: Read) -> None:
        before = self.LINE + maxtext(0, "4.0") + maxtext(1, "nan") + maxtext(2, "4.0", loss="nan")
        log = read("maxtext", before + self.LINE + maxtext(3, "4.0"))
        assert (log.attempts, indexes(log), log.not_finite) == (2, [3], None)
        save = b"time (ms) | save-checkpoint: 17000.00\n"
        log = read("megatron", megatron(1, "4.0") + save + self.LINE + megatron(2, "4.0") + save)
        assert log.checkpoint_saves_s == (17.0,)
        # What is printed before the first step belongs to its run.
        # One rank says who it is when another has started already: how many start tells whose steps are whose.
        start = self.LINE + paxml_start()
        steps = b"".join(paxml(time) for time in ("9.1", "9.2", "9.3", "4.1", "4.3", "4.2"))
        assert seconds(read("paxml", start * 3 + steps)) == [9.2, 4.2]
        log = read("paxml", start * 3 + steps + start * 3 + steps)
        assert (seconds(log), log.attempts) == ([9.2, 4.2], 2)

    def test_a_line_within_others(self, read: Read, write_log: WriteLog) -> None:
        # A line glued to a bar that was killed.
        killed = b"".join(b"\r" + bar(step + 1, f"{step}.000", "9.5") for step in range(12))
        after = b"".join(b"\r" + bar(step + 1, f"{step}.000", "4.5") for step in range(12, 20)) + b"\n"
        log = read("nemo", killed + self.LINE + after)
        assert (log.attempts, indexes(log), set(seconds(log))) == (2, list(range(12, 20)), {4.5})
        with pytest.raises(LogError, match="\\A" + wording("no later steps") + "\\n"):
            read_log(write_log(killed + self.LINE), FORMATS["nemo"])
        # A line that srun broke.
        long = self.LINE.replace(b"DTYPE", b"IMAGE='" + b"x" * 1500 + b"' DTYPE")
        text = b"".join(printer(step, step, "9.5") for step in range(12)) + long
        text += b"".join(printer(step, step, "4.5") for step in range(12, 20))
        log = read("nemo", labelled("3: ", text))
        assert (log.attempts, indexes(log)) == (2, list(range(12, 20)))
        # A format sees but the lines that it asks for.
        log = read(
            "maxtext", maxtext(0, "4.0") + b"+ echo 'GSW: MODEL=m'\n  echo \"GSW: MODEL=$M\"\n" + maxtext(1, "4.0")
        )
        assert (log.attempts, indexes(log)) == (1, [0, 1])


class TestTail:
    def test_lines_are_safe_and_bounded(self, write_log: WriteLog) -> None:
        path = write_log(b"a\nb\n\n\x1b]0;title\x07c\x00\x9b\xff\n" + b"d" * 1000 + b"\n10%\r20%\r\r\n\n")
        tail = tail_lines(path, 3)
        assert tail == ("c\ufffd\ufffd", "d" * 239 + "…", "20%")
        # Of a line longer than what is read.
        assert tail_lines(write_log(b"x" * 1_000_000)) == ("x" * 239 + "…",)

    def test_missing(self, tmp_path: Path) -> None:
        assert tail_lines(tmp_path / "run.log") == ()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[1;38;2;180;60;0mred\x1b[0m", "red"),
        (b"a\tb\r\nc", "a b  c"),
        ("\u202eevil\u200b\u2028".encode(), "evil"),
        (b"caf\xc3\xa9 \xe2\x96\x88 \xe2\x96", "café █ \ufffd"),
        (b"\x1b\x1b[\x07\x08x", "[x"),
    ],
)
def test_safe_text(raw: bytes, text: str) -> None:
    assert safe_text(raw) == text


@pytest.mark.parametrize("letter", UNSAFE)
def test_last_lines_and_causes_have_no_unsafe_letters(write_log: WriteLog, letter: str) -> None:
    path = write_log(f"ValueError: found NaN in {letter}x\n".encode())
    cause = find_cause(path)
    assert cause is not None
    assert (tail_lines(path), cause.text) == (("ValueError: found NaN in x",), "ValueError: found NaN in x")


def test_line_number(write_log: WriteLog) -> None:
    path = write_log(b"a\nb\nc\n")
    assert [line_number(path, offset) for offset in (0, 1, 2, 4, 6, 99)] == [1, 1, 2, 3, 4, 4]


def test_an_earlier_run_that_diverged_before_its_first_step(write_log: WriteLog) -> None:
    recipe = b"GSW: MODEL=m JOB_ID=4711\n"
    lost = b" validation loss at iteration 9 | lm loss value: nan | \n"
    runs = recipe + lost + recipe + megatron(1, "4500.0") + recipe + megatron(2, "4500.0")
    (diverged,) = read_log(write_log(runs), FORMATS["megatron"]).diverged
    assert (diverged.attempt, diverged.text) == (1, wording("not finite line", step=9, loss="nan"))


def test_a_last_line_is_no_command_of_a_ci_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("step 1\n::error file=x::stop\n  ::add-mask::a\n##[error]b\na :: b\n")
    assert tail_lines(log) == ("step 1", "> ::error file=x::stop", "> ::add-mask::a", "> ##[error]b", "a :: b")


# -- memory -------------------------------------------------------------------------------

MANY = 250
STEPS_OF: dict[str, tuple[str, Callable[[int], bytes], int]] = {
    "maxtext": ("maxtext", lambda step: maxtext(step, "4.5"), 1),
    "maxtext on ranks": ("maxtext", lambda step: b"".join(maxtext(step, "4.5", head=f"{r}: ") for r in range(4)), 4),
    "megatron": ("megatron", lambda step: megatron(step + 1, "4500.0"), 1),
    "megatron on ranks": ("megatron", lambda n: megatron(n + 1, "4500.0", head="0:") + megatron(n + 1, "4.0", head="1:"), 2),
    "megatron skips": ("megatron", lambda n: megatron(n + 1, "9.0").replace(b"skipped iterations:   0", b"skipped iterations:   1"), 1),
    "paxml": ("paxml", lambda _: paxml("4.5"), 1),
    "nemo": ("nemo", lambda step: printer(step, step, "4.5"), 1),
    "nemo's bar": ("nemo", lambda step: bar(step + 1, f"{step}.000", "4.500", str(MANY)) + b"\r", 1),
    "torchtitan": ("torchtitan", lambda step: titan(step + 1, "410"), 1),
    "automodel": ("automodel", lambda step: automodel(step, "4.500000"), 1),
    "composer": ("composer", lambda step: composer(step + 1, "410.0000", total=MANY), 3),
    "deepspeed's engine": ("deepspeed", lambda step: pipe(step + 1, "4.5"), 1),
    "deepspeed's timer": ("deepspeed", lambda step: throughput(step + 1, "12.5"), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS_OF)
def test_a_step_line_takes_no_more_than_64_bytes(write_log: WriteLog, name: str) -> None:
    log_format, line, lines_each_step = STEPS_OF[name]
    path = write_log(b"".join(map(line, range(MANY))))
    read_log(path, FORMATS[log_format])  # what is kept from one log to the next is not this one's
    tracemalloc.start()
    try:
        log = with_skipped(path, read_log(path, FORMATS[log_format]))
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(log.steps) == MANY
    assert held <= 64 * MANY * lines_each_step + 6144


def test_steps_that_are_made_when_they_are_asked_for(read: Read) -> None:
    steps = read("maxtext", b"".join(maxtext(step, f"{step}.5") for step in range(5))).steps
    assert steps[1] == Step(1, seconds=1.5, offset=steps[1].offset)
    assert [step.index for step in steps[-2:]] == [3, 4]
    assert steps == tuple(steps)
    assert steps != steps[1:]
    assert steps[::-1][0].index == 4
    with pytest.raises(IndexError):
        steps[5]


def test_steps_out_of_order(read: Read) -> None:
    """A line that one rank lost is told by another one behind the next step's."""
    printed = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 3), (1, 2), (1, 3), (0, 4), (1, 4)]
    log = read("maxtext", b"".join(maxtext(n, f"4.{5 + 2 * r}", f"{n}.5", head=f"{r}: ") for r, n in printed))
    assert [step.index for step in log.steps] == [0, 1, 2, 3, 4]
    assert log.losses is not None
    assert list(log.losses) == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert log.printed is not None
    assert log.printed(log.steps[1]) == [("rank 0", 4.5), ("rank 1", 4.7)]
    assert log.printed(log.steps[2]) == ()


def test_many_steps_in_no_order_are_read_in_linear_time(read: Read) -> None:
    count = 40_000
    with it_ends():
        log = read("maxtext", maxtext(0, "4.5") + b"".join(maxtext(step, "4.5") for step in range(count, 0, -1)))
    assert len(log.steps) == count + 1


def test_the_last_line_counts() -> None:
    # The example is one.
    assert calibration_flops([CALIBRATION_EXAMPLE.encode()]) == 9.5e10
    assert calibration_flops([b"GSW: CALIBRATION_FLOPS=1e10", b"GSW: CALIBRATION_FLOPS=2e10"]) == 2e10
    # One that is no number does not let an older one stand.
    assert calibration_flops([b"GSW: CALIBRATION_FLOPS=1e10", b"GSW: CALIBRATION_FLOPS=nan"]) is None


@pytest.mark.parametrize(
    ("record", "flops"),
    [
        (b"0: GSW: CALIBRATION_FLOPS=1.853e+11", 1.853e11),
        (b"GSW: CALIBRATION_FLOPS=95000000000 (mean of 2 ranks)", 9.5e10),
        (b"GSW: CALIBRATION_FLOPS=0", None),
        (b"GSW: CALIBRATION_FLOPS=-1e10", None),
        (b"GSW: CALIBRATION_FLOPS=nan", None),
        (b"GSW: CALIBRATION_FLOPS=inf", None),
        (b"GSW: CALIBRATION_FLOPS=1e999", None),
        (b"GSW: CALIBRATION_FLOPS=", None),
        (b"GSW: CALIBRATION_FLOPS=9.5e+1x", None),
        (b"GSW: CALIBRATION_FLOPS=$FLOPS", None),
    ],
)
def test_one_line(record: bytes, flops: float | None) -> None:
    assert calibration_flops([record]) == flops


STEPS = b"".join(maxtext(step, "4.0") for step in range(5))
LINE = b"GSW: CALIBRATION_FLOPS=9.5e+10\n"


@pytest.mark.parametrize(
    ("content", "flops"),
    [
        (STEPS, None),
        (STEPS + LINE, 9.5e10),
        (STEPS + b"\n" * 9000 + LINE + b"the end\n", 9.5e10),
        # It was cut while it was written.
        (STEPS + LINE[:-1], None),
        # It is of a run before this one.
        (STEPS + LINE + STEPS, None),
        (LINE + STEPS, None),
    ],
)
def test_it_is_told_behind_the_last_step(write_log: WriteLog, content: bytes, flops: float | None) -> None:
    assert read_log(write_log(content), FORMATS["maxtext"]).calibration_flops == flops
