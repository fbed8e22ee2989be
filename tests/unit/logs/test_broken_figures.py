"""No part of a figure counts as a figure, and none that cannot be is passed over: each format, each way of writing."""

from __future__ import annotations

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import StepLog
from pytest_gsw.logs.reader import read_log
from tests.unit.logs.conftest import Read, WriteLog
from tests.unit.logs.lines import (
    FORMS,
    automodel,
    bar,
    composer,
    dll,
    maxtext,
    megatron,
    summary,
    throughput,
    titan,
)

#: Figures that end their line: what is left of one that the launcher ended with a line feed looks whole.
ENDS_ITS_LINE = {"nemo 2", "nemo delta", "deepspeed 2020", "huggingface block", "olmo-core"}


def values(log: StepLog) -> set[float]:
    return {step.seconds or step.samples_per_s or step.tokens_per_s_per_gpu or 0 for step in log.steps}


#: What may follow a line that was cut.
ENDS = ("", "slurmstepd: error: a task ended\n", "\n", "\r")


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("name", "end"), [(name, end) for name in FORMS for end in (ENDS[:2] if name in ENDS_ITS_LINE else ENDS)]
)
def test_a_figure_that_was_cut_never_counts(write_log: WriteLog, name: str, end: str) -> None:
    format_name, figure, line = FORMS[name]
    before = b"".join(line(step, figure) for step in range(5))
    last = line(5, figure) or line(0, figure)
    whole = values(read_log(write_log(before + last), FORMATS[format_name]))
    for cut in range(len(last)):
        try:
            log = read_log(write_log(before + last[:cut] + end.encode()), FORMATS[format_name])
        except LogError:
            continue
        assert values(log) <= whole


#: What a clock that failed may print; only JSON writes Infinity.
IMPOSSIBLE = ("nan", "inf", "-inf", "NaN", "1e999", "-4.5", "1.#INF00", "-1.#IND", "Infinity")


@pytest.mark.sampled(150)
@pytest.mark.parametrize(
    ("name", "figure"),
    [(name, figure) for name in FORMS for figure in IMPOSSIBLE[: 9 if "json" in name or "mlperf" in name else 8]],
)
@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_figure_that_cannot_be_is_never_passed_over(read: Read, name: str, figure: str, at: int) -> None:
    format_name, good, line = FORMS[name]
    content = b"".join(line(step, figure if step == at else good) for step in range(6))
    if format_name == "huggingface":  # of two nodes
        content = line(0, figure) + line(0, good) if at else line(0, good) + line(0, figure)
    assert read(format_name, content).not_finite is not None


def test_what_is_not_finite_counts_wherever_nemo_says_it(read: Read) -> None:
    # Bars pad what is not finite.
    bars = b"".join(b"\r" + bar(step + 1, f"{step}.000", "nan.0" if step == 3 else "4.567") for step in range(6))
    assert read("nemo", bars + b"\n").not_finite == (3, "step time nan")
    healthy = b"".join(bar(step + 1, f"{step}.000", "4.567") + dll(step, "4.56789") for step in range(6))
    assert read("nemo", healthy).not_finite is None
    assert read("nemo", healthy.replace(b"loss=9.250, global_step=3", b"loss=nan.0, global_step=3")).not_finite == (
        3,
        "reduced_train_loss=nan",
    )


def test_a_save_whose_time_is_not_finite(read: Read) -> None:
    save = "time (ms) | save-checkpoint: {}\n"
    log = megatron(1, "4.0") + save.format("17960.68").encode()
    assert read("megatron", log).not_finite is None
    for figure in ("nan", "inf", "1e999", "-17.5"):
        bad = save.format(figure).encode()
        assert read("megatron", log + bad).not_finite == (None, f"save-checkpoint: {figure}")
        # The next attempt's are others.
        assert read("megatron", megatron(1, "4.0") + bad + log.replace(b"4.0", b"5.0")).not_finite is None


def test_a_save_that_was_cut(read: Read) -> None:
    line = b"    save-checkpoint ................................: (17960.61, 17960.68)\n"
    assert read("megatron", megatron(1, "4.0") + line).checkpoint_saves_s == (17.96068,)
    for cut in range(len(line) - 2):
        assert read("megatron", megatron(1, "4.0") + line[:cut] + b"\n").checkpoint_saves_s == ()


@pytest.mark.parametrize(
    "loss", ["Infinity", "-Infinity", "inf", "nan", "NaN", "1.#INF", "-1.#IND", "1.#QNAN", "-1.#INF00", "1.#J"]
)
@pytest.mark.parametrize(
    ("log_format", "good", "line"),
    [
        ("megatron", "9.500000E+00", megatron(1, "4567.8")),
        ("maxtext", "8.125", maxtext(0, "4.567")),
        ("nemo", "9.25", dll(0, "4.56789")),
        ("torchtitan", "7.50000", titan(1, "6,785")),
        ("automodel", "7.5000", automodel(1, "4.250000")),
        ("composer", "7.5000", composer(1, "6785.0000")),
    ],
)
def test_a_loss_that_is_not_finite_however_it_is_written(
    read: Read, log_format: str, good: str, line: bytes, loss: str
) -> None:
    log = read(log_format, line.replace(good.encode(), loss.encode()))
    assert log.not_finite is not None
    assert log.not_finite[1].lower().startswith(("loss", "reduced_train_loss"))


@pytest.mark.parametrize("figure", ["1.#INF", "-1.#IND", "1.#QNAN", "1.#SNAN0"])
def test_what_microsofts_c_runtime_writes_is_not_finite(read: Read, figure: str) -> None:
    def lost(name: str, content: bytes) -> str | None:
        found = read(name, content).not_finite
        return None if found is None else found[1]

    norm = megatron(1, "4567.8").replace(b"grad norm: 1.250", f"grad norm: {figure}".encode())
    assert lost("megatron", norm) == f"grad norm: {figure}"
    assert lost("maxtext", maxtext(0, "4.567", loss=figure)) == f"loss: {figure}"
    assert lost("huggingface", summary("95.339", loss=figure)) == f"'train_loss': {figure}"
    assert lost("deepspeed", throughput(1, "12.3") + f"loss: {figure}\n".encode()) == f"loss: {figure}"


def test_a_version_is_no_figure_of_microsofts_c_runtime(read: Read) -> None:
    noise = b"fetching 1.#HEAD, loss is fine\n"
    assert read("deepspeed", throughput(1, "12.3") + noise).not_finite is None


def test_an_evaluation_whose_loss_is_not_finite(read: Read) -> None:
    validate = titan(1, "6,785").replace(b"\x1b[31mstep", b"\x1b[31mvalidate step").replace(b"7.50000", b"nan")
    assert read("torchtitan", titan(1, "6,785") + validate + titan(2, "6,785")).not_finite == (1, "validate loss:  nan")
    evaluated = b"{'eval_loss': nan, 'eval_runtime': 1.5, 'epoch': 1.0}\n"
    assert read("huggingface", evaluated + summary("95.339")).not_finite == (None, "'eval_loss': nan")
