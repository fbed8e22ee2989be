"""Text against itself and against tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.documents.audit.text import read_text
from tests.endless import it_ends
from tests.unit.documents.audit.rows import LLAMA2, found, row, told

#: A row of a recipe with 576 GPUs.
FULL = {
    **LLAMA2,
    "model": "big",
    "size": "405b",
    "dtype": "fp8",
    "gpus": "576",
    "sequence_length": "8192",
    "global_batch_size": "252",
    "micro_batch_size": "1",
    "model_flops": "2.17e+16",
    "step_time_s": "11.24",
    "tokens_per_s": "183664",
    "mfu": "42.68%",
    "days_to_train_1t_tokens": "63.02",
}
#: One of a table of experiments.
EXPERIMENT = {
    "model": "gpt2",
    "size": "52b",
    "dtype": "fp16",
    "accelerator": "V100-32GB",
    "gpus": "64",
    "gpus_per_node": "4",
    "sequence_length": "1024",
    "global_batch_size": "1024",
    "step_time_s": "129",
}


def prose(text: str, *bases: dict[str, str]) -> list[tuple[str, str, str, str, str]]:
    """What is found at the lines of a text beside a table with these rows."""
    rows = [row(f"row{place}", base) for place, base in enumerate(bases)]
    return [told(one) for one in found(*rows, lines=text.splitlines()) if one.row is None]


def test_an_equation_that_is_right() -> None:
    assert prose("E.g. 2048 * 256 / 7.47 = 70185.81\nE.g. 1e12 / 70185.81 / 86400 = 164.9 days") == []


@pytest.mark.parametrize(
    ("line", "severity", "documented", "computed", "text"),
    [
        (
            "2048 * 256 / 7.47 = 70185.80",
            "rounding",
            "70185.80",
            "70185.81",
            "cut, not rounded: 70185.8099 was cut, not rounded",
        ),
        ("2 * 2 / 3 = 2", "rounding", "2", "1", "last digit: less than one unit of the last digit away"),
        (
            "12 * 8192 * 48 * 5120^2 * 2 = 247390116864000",
            "rounding",
            "247390116864000",
            "247390116249600",
            "last digit: right to seven digits, as single precision has them",
        ),
        (
            "8129 * 2,650,791,739,392 = 2.17E16",
            "contradiction",
            "2.17E16",
            "2.15E16",
            "digits swapped: 8192 gives it: two digits of 8129 are swapped",
        ),
        (
            "8 * 8 * 2 = 218",
            "contradiction",
            "218",
            "128",
            "digits swapped: 128 would fit: two digits of 218 are swapped",
        ),
        ("100 * 3.5 = 700", "contradiction", "700", "350", "factor: it is twice what the formula gives"),
        ("7000 / 7 = 1003", "contradiction", "1003", "1000", "typo: 1000 would fit: one digit of 1003 is wrong"),
        (
            "1024 * 8.92e14 / 7.781 / 128 / 2.45e15 = 46.34%",
            "contradiction",
            "46.34%",
            "37.43%",
            "wrong peak: 1.979e15 FLOP/s, the peak of H100 FP8, gives it",
        ),
        (
            "7 * 11 * 13 = 5",
            "contradiction",
            "5",
            "1001",
            "unknown: no single change of what it is computed from gives it",
        ),
    ],
)
def test_an_equation_that_is_wrong(line: str, severity: str, documented: str, computed: str, text: str) -> None:
    assert prose(line) == [("line_1", severity, documented, computed, text)]


def test_model_flops_before_they_were_rounded() -> None:
    architecture = {"formula": "llama", "layers": "126", "hidden_size": "16384", "ffn_size": "53248"}
    architecture |= {"attention_heads": "128", "query_groups": "16", "vocabulary_size": "128256"}
    base = FULL | {f"architecture.{key}": text for key, text in architecture.items()}
    assert prose("MFU = 252 * 2.17E+16 / 11.24 / 576 / 1979E+12 = 42.71%", base) == [
        (
            "line_1",
            "discrepancy",
            "42.71%",
            "42.68%",
            "formula: 2.1715e16 gives it: model FLOPs before they were rounded to 2.17E+16",
        )
    ]


def test_a_result_on_the_next_line() -> None:
    (one,) = found(lines=["    attention flops = 12 * 48 * (1 + 2)", "        = 1729"])
    assert (one.line, one.column, one.documented, one.computed) == (2, 11, "1729", "1728")
    assert found(lines=["    attention flops = 12 * 48 * (1 + 2)", "        = 1728"]) == ()


def test_days_of_another_throughput() -> None:
    text = "E.g. 8192 * 768 / 15.892 = 395888\nE.g. 1e12 / 395895 / 86400 = 29.24 days"
    assert prose(text) == [
        ("line_2", "discrepancy", "395895 tokens/s", "395888 tokens/s", "another run: the examples are of two runs")
    ]


EXAMPLE = """\
E.g. Big 405b FP8 on 576x H100 GPUs (GBS=252)
```shell
peak FP8 FLOPS for H100 = 1979 TFLOPS
training step time = {time}
model flops = 2.17E+16

MFU = 252 * 2.17E+16 / {time} / 576 / 1979E+12 = {mfu}
```
"""


def test_an_example_of_the_tables_row() -> None:
    assert prose(EXAMPLE.format(time="11.24", mfu="42.68%"), FULL) == []


def test_an_example_of_another_run() -> None:
    assert prose(EXAMPLE.format(time="12.84", mfu="37.36%"), FULL) == [
        (
            "line_4",
            "contradiction",
            "12.84 s",
            "11.24 s",
            "another run: no row has a step time of 12.84 s: it is of another run",
        )
    ]


def test_an_example_that_is_a_little_off() -> None:
    (one,) = prose(EXAMPLE.format(time="11.25", mfu="42.64%"), FULL)
    assert one[:4] == ("line_4", "discrepancy", "11.25 s", "11.24 s")


def test_an_example_with_the_step_time_of_another_row() -> None:
    other = {**FULL, "gpus": "32", "step_time_s": "12.84"}
    assert prose(EXAMPLE.format(time="12.84", mfu="37.36%"), FULL, other) == [
        ("line_4", "contradiction", "12.84 s", "11.24 s", "stale copy: 12.84 s is the step time of row1")
    ]


def test_an_example_with_more_digits_than_another_row() -> None:
    """4.77 is no 4.7: at best it was cut to it, in the row that the example is of."""
    other = {**FULL, "gpus": "32", "step_time_s": "12.8"}
    assert prose(EXAMPLE.format(time="12.84", mfu="37.36%"), FULL, other) == [
        (
            "line_4",
            "contradiction",
            "12.84 s",
            "11.24 s",
            "another run: no row has a step time of 12.84 s: it is of another run",
        )
    ]
    assert prose(EXAMPLE.format(time="12.84", mfu="37.36%"), other | {"gpus": "576"}) == []
    assert prose(EXAMPLE.format(time="12.80", mfu="37.48%"), FULL, other)[0][4] == (
        "stale copy: 12.80 s is the step time of row1"
    )
    fine = {**FULL, "gpus": "32", "step_time_s": "12.8412"}
    assert prose(EXAMPLE.format(time="12.84", mfu="37.36%"), FULL, fine)[0][4] == (
        "stale copy: 12.84 s is the step time of row1"
    )


def test_an_example_with_another_batch() -> None:
    text = "E.g. Big 405b FP8 on 576x H100 GPUs (GBS=504)"
    assert prose(text, FULL) == [
        ("line_1", "contradiction", "GBS=504", "GBS=252", "another run: the example has another batch than the table")
    ]
    assert prose(text, FULL, {**FULL, "global_batch_size": "504"}) == []


def test_an_example_whose_equation_takes_something_else() -> None:
    text = EXAMPLE.format(time="11.24", mfu="42.68%").replace(
        "training step time = 11.24", "training step time = 11.42"
    )
    assert [one[2:] for one in prose(text)] == [
        (
            "11.42",
            "none of 252, 2.17E+16, 11.24, 576, 1979E+12",
            "stale copy: the equation takes another step time than the example says",
        )
    ]


@pytest.mark.parametrize(
    ("stated", "told_as"),
    [
        (
            "The peak theoretical throughput for H100 FP8 is **1979** TFLOPS and for H100 BF16 is **989** TFLOPS.",
            "line 1",
        ),
        ("For H100 GPUs, peak theoretical throughput for FP8 is 1.979 PFLOPS and for BF16 is 989 TFLOPS.", "line 1"),
        ("", "the accelerator's data sheet"),
    ],
)
def test_the_peak_of_another_dtype(stated: str, told_as: str) -> None:
    text = EXAMPLE.format(time="11.24", mfu="42.68%").replace("1979 TFLOPS", "989 TFLOPS")
    (one,) = [one for one in found(row("", FULL), lines=f"{stated}\n{text}".splitlines()) if one.row is None]
    assert told(one) == (
        "line_4",
        "contradiction",
        "989 (9.89e14 FLOP/s)",
        "1.979e15 FLOP/s",
        "wrong peak: it is the peak of H100 BF16",
    )
    assert one.formula == f"the peak of H100 FP8, {told_as}"


def test_a_peak_that_is_no_ones() -> None:
    text = EXAMPLE.format(time="11.24", mfu="42.68%").replace("1979 TFLOPS", "19.79 TFLOPS")
    assert prose(text)[0][4] == "factor: it is 1/100 of what the formula gives"


def test_a_document_with_another_peak_than_the_table_of_peaks() -> None:
    assert prose("The peak theoretical throughput for H100 FP8 is 1900 TFLOPS.") == [
        ("line_1", "notice", "1.9e15 FLOP/s", "1.979e15 FLOP/s", "wrong peak: the document states another peak")
    ]


NEMO = (
    "Epoch 0: : 100%|███| 50/50 [16:26<00:00, global_step=49.00, consumed_samples=12600.0, train_step_timing in s={}]"
)


def test_a_log_line_of_the_table() -> None:
    assert prose(f"{NEMO.format('11.24')}\nE.g. 8192 * 252 / 11.24 = 183664", FULL) == []
    for line in (
        "I0411 15:03 programs.py:366] [PAX STATUS]: train_step() took 11.24 seconds.",
        "completed step: 49, seconds: 11.240, TFLOP/s/device: 460.480",
        " iteration 5/ 12 | elapsed time per iteration (ms): 11240.0 | global batch size: 252 |",
    ):
        assert prose(line, FULL) == []
        assert len(prose(line.replace("11", "13"), FULL)) == 1


def test_a_log_line_and_an_example_of_other_runs() -> None:
    assert prose(f"{NEMO.format('12.80')}\nE.g. 8192 * 252 / 12.84 = 160778", FULL) == [
        (
            "line_1",
            "contradiction",
            "12.80 s",
            "11.24 s",
            "another run: no row has a step time of 12.80 s: it is of another run",
        ),
        (
            "line_2",
            "contradiction",
            "12.84 s",
            "11.24 s",
            "another run: no row has a step time of 12.84 s: it is of another run; the log line 1 has 12.80 s",
        ),
    ]


def test_an_example_with_the_batch_of_another_run() -> None:
    large = {**FULL, "gpus": "1152", "global_batch_size": "504", "step_time_s": "11.31"}
    text = f"{NEMO.format('11.24')}\nE.g. 8192 * 504 / 11.24 = 367328"
    (batch, step) = found(
        row("small", FULL),
        row("large", large, tokens_per_s="365055", mfu="42.42%", days_to_train_1t_tokens="31.71"),
        lines=text.splitlines(),
    )
    assert told(batch)[2:] == (
        "a batch of 504",
        "a batch of 252",
        "another run: the example takes the log line's step time, and the batch of another run",
    )
    assert batch.formula == "the log line 1 above: 12600.0 samples in 50 steps"
    assert (batch.line, batch.column) == (2, 13)
    assert told(step)[2:] == (
        "11.24 s",
        "11.31 s",
        "stale copy: 11.24 s is the step time of small; the log line 1 has 11.24 s",
    )


def test_a_log_line_with_a_batch_that_no_row_has() -> None:
    assert prose(NEMO.format("11.24").replace("12600", "12650"), FULL) == [
        ("line_1", "contradiction", "a batch of 253", "a batch of 252", "another run: no row has such a batch")
    ]


COUNTED = NEMO.replace("49.00", "{}").replace("12600.0", "{}")


@pytest.mark.parametrize(
    ("step", "samples", "batch", "words"),
    [
        ("49.00", "12650.0", "253", "12650.0 samples in 50 steps"),
        # Counted from 1.
        ("50.0", "76800.0", "1536", "76800.0 samples in 50 steps"),
        # Either way; the rows' batch is none of the two.
        ("1", "2048", "1024", "2048 samples in 2 steps"),
    ],
)
def test_the_batch_of_a_log_line(step: str, samples: str, batch: str, words: str) -> None:
    text = f"{COUNTED.format(step, samples, '11.24')}\nE.g. 8192 * 252 / 11.24 = 183664"
    in_log, in_example = (one for one in found(row("", FULL), lines=text.splitlines()) if one.row is None)
    assert (in_log.line, in_log.documented, in_log.computed) == (1, f"a batch of {batch}", "a batch of 252")
    assert in_log.formula == f"the tables' rows; the log line has {words}"
    assert (in_example.line, in_example.documented, in_example.computed) == (2, "a batch of 252", f"a batch of {batch}")


def test_a_log_line_whose_steps_may_be_counted_from_0_or_1() -> None:
    assert prose(COUNTED.format("1", "504", "11.24"), FULL) == []
    assert prose(COUNTED.format("1", "252", "11.24"), FULL) == []
    assert prose(COUNTED.format("9", "2520", "11.24"), FULL) == []
    assert prose(COUNTED.format("0", "252", "11.24"), FULL) == []
    assert prose(COUNTED.format("10", "7", "11.24"), FULL) == []


def test_an_example_with_another_step_time_and_batch_than_the_log_line() -> None:
    (batch,) = (
        one
        for one in prose(f"{COUNTED.format('50.0', '76800.0', '11.24')}\nE.g. 8192 * 252 / 11.30 = 182689", FULL)
        if one[2] == "a batch of 252"
    )
    assert batch[4] == "another run: the example and the log line are of two runs"


def test_a_log_line_of_an_examples_run() -> None:
    """The step time is told once, where the example names its run; that line says where else it stands."""
    text = f"{NEMO.format('12.840')}\n{EXAMPLE.format(time='12.84', mfu='37.36%')}"
    (one,) = prose(text, FULL)
    assert (one[0], one[4]) == (
        "line_5",
        "another run: no row has a step time of 12.84 s: it is of another run; the log line 1 has it, too",
    )
    # An example of no row of the tables is compared with none.
    assert [one[0] for one in prose(text, {**FULL, "gpus": "1152"})] == ["line_1"]


PERL = "perl -le '$ng=64; $ms=52; $gbs={batch}; $sp={time}; print $ms*4*2*1024*$gbs / ( $sp * $ng * 1e3)'"


def test_a_script_and_what_it_prints() -> None:
    base = {**EXPERIMENT, "global_batch_size": "512", "step_time_s": "139"}
    assert prose(f"{PERL.format(batch=512, time='139.52')}\n24.4", base) == []
    assert prose(f"{PERL.format(batch=512, time='139.52')}\n22", base) == [
        ("line_2", "contradiction", "22", "24.4", "factor: it is 10**9 / 2**30 of what the formula gives")
    ]


def test_a_script_of_no_row() -> None:
    other = {**EXPERIMENT, "global_batch_size": "768", "step_time_s": "127"}
    text = PERL.format(batch=1024, time=127)
    assert prose(text, EXPERIMENT, other) == [
        ("line_1", "notice", "127 s", "129 s", "stale copy: 127 s is the step time of row1")
    ]
    assert prose(PERL.format(batch=1024, time=129), EXPERIMENT) == []
    assert prose(PERL.format(batch=2048, time=129), EXPERIMENT) == []


SHELL = """\
```
THROUGHPUT={time}
NNODES=16
MSIZE=52
MICRO_BATCH_SIZE=4 # samples
DP_SIZE=1
PP_CHUNKS=256
echo "($MSIZE*4*2*1024*$MICRO_BATCH_SIZE*$DP_SIZE*$PP_CHUNKS)/($THROUGHPUT*$NNODES*4*1000)" | bc -l
{result}
```
"""


def test_a_shell_script() -> None:
    assert prose(SHELL.format(time=129, result="52.83522480620155038759"), EXPERIMENT) == []
    assert prose(SHELL.format(time=122, result="55.86675409836065573770"), EXPERIMENT) == [
        (
            "line_2",
            "contradiction",
            "122 s",
            "129 s",
            "another run: no row has a step time of 122 s: it is of another run",
        )
    ]
    assert prose(SHELL.format(time=129, result="55.8"), EXPERIMENT)[0][2:4] == ("55.8", "52.8")


def test_a_script_whose_variables_are_set_elsewhere() -> None:
    assert prose('THROUGHPUT=122\n```\necho "($MSIZE*4)/($THROUGHPUT)" | bc -l\n```\n17') == []


def test_a_title_that_holds_for_some_columns() -> None:
    text = """\
| Big 405b FP8 (TP=8, PP=9, GA=63) | 32x H100 GPUs | 576x H100 GPUs |
|---|---|---|
| PP | 1 | 9 |
| TP | 8 | 8 |
| GBS | n/a | 252 |
"""
    assert prose(text) == [
        (
            "line_3",
            "notice",
            "PP 1, 9",
            "PP=9",
            "one of its inputs: the title holds for some of its columns only; others have 1",
        )
    ]


def test_a_term_that_nothing_defines() -> None:
    text = """\
model flops = (sequence length) * ((attention flops) + (mlp flops) + (normalization flops))
attention flops = 12 * (number of layers)
mlp flops = 18 * (number of layers)
"""
    assert prose(text) == [
        (
            "line_1",
            "notice",
            "normalization flops",
            "nothing",
            "formula: the formula names it, and no line of the document says what it is",
        )
    ]


HOSTILE = (
    "E.g. " * 20_000,
    "E.g. " + "a" * 100_000 + " on 1x H100 GPUs",
    "peak " + "H100 FP8 " * 10_000 + "TFLOPS",
    "| PP=9 |" * 10_000 + "\n" + "|-" * 10_000,
    "$a=1;" * 20_000 + "perl print $a",
    "model flops = (" + "a " * 50_000 + "flops)",
    "\n".join("1 * 2 * 3 * 4 * 5 * 6 * 7 * 8 = 5" for _ in range(3_000)),
    "\n".join("train_step() took 5 seconds" for _ in range(20_000)),
    "\n".join(f"NAME{n}=5" for n in range(20_000)),
    "\x00\x1b[31m\u202e" * 1000,
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_takes_no_time(text: str) -> None:
    with it_ends():
        found(row("", FULL), lines=text.splitlines())


@given(st.lists(st.text(max_size=60), max_size=12))
def test_any_text_can_be_read(lines: list[str]) -> None:
    read_text("README.md", lines)
