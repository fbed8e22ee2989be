"""Blocks: figures of programs, read to the digit, or the log is refused; a damaged one never passes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.blocks import PROGRAMS, Block, BlockError, Expression, Pattern, normalized, text_block
from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats import blocks as block_reader
from pytest_gsw.logs.formats.blocks import block_format
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import detect_format, read_log
from pytest_gsw.logs.scan import is_wanted
from tests import programs
from tests.endless import it_ends
from tests.messages import wording
from tests.unit.logs.conftest import WriteLog
from tests.unit.logs.lines import NOISE

LOAD = "{line: '[rank*] checkpoint loaded in {} s', each: 8, statistic: max}"


CUT_BOX = f"+{'-' * 30}+{'-' * 60}+\n| {'GPU  Name':<28s} | {'Persistence-M':<58s} |\n"


def labelled(text: str, label: str = "0: ") -> str:
    return "".join(f"{label}{line}\n" for line in text.splitlines())


#: Name, keys of the table, log, and the figure in it.
GOOD: tuple[tuple[str, str, float], ...] = (
    ("read: hpl", programs.hpl(), 482.21),
    ("read: hpl", labelled(programs.hpl("1.860e+05", 264192, "66.09", " ( 2.325e+04)")), 186000),
    ("read: hpl", programs.hpl("8.5251e+00").replace("WR11C2R4", "WC0     "), 8.5251),
    ("read: hpcg", programs.hpcg(), 231.417),
    ("read: hpcg", labelled(programs.hpcg("18.9342"), "[1,0]<stdout>:"), 18.9342),
    ("read: hpcg", programs.hpcg("1.2e+03"), 1200),
    ("read: hpcg", programs.hpcg().replace("rating of=", "rating of: "), 231.417),
    ("read: stream, at: Triad", programs.stream(), 203451.7),
    ("read: stream, at: Copy", programs.stream(), 188340.2),
    ("read: stream, at: Triad", programs.stream().replace("Best Rate MB/s", "  Rate (MB/s) "), 203451.7),
    ("read: stream, at: Triad", labelled(programs.stream("91.5")), 91.5),
    ("read: osu, at: 4194304", programs.osu(), 24512.37),
    ("read: osu, at: 1", programs.osu(), 3.17),
    ("read: osu, metric: osu_bibw_mbs, at: 4194304", programs.osu(test="MPI Bi-Directional Bandwidth"), 24512.37),
    ("read: osu, metric: osu_latency_us, at: 8", programs.osu("1.62", "Latency (us)", 8), 1.62),
    ("read: osu, metric: osu_avg_latency_us, at: 8", programs.osu("24.05", "Avg Latency(us)", 8), 24.05),
    (
        "read: osu, at: 4096",
        re.sub(r"(?m)^(\d.*)$", r"\1             Pass", programs.osu(kind="Bandwidth (MB/s)      Validation")),
        6410.66,
    ),
    ("read: ior, at: write", programs.ior(), 18432.61),
    ("read: ior, at: read", programs.ior(), 20117.44),
    ("read: ior, at: write", labelled(programs.ior("912.00")), 912),
    ("read: mdtest, at: File creation", programs.mdtest(), 31877.406),
    ("read: mdtest, at: File stat", programs.mdtest(colon=""), 144902.117),
    ("read: mdtest, at: File read", labelled(programs.mdtest()), 98110.552),
    ("read: fio", programs.fio(), 7113.48224),
    ("read: fio, metric: fio_read_iops", programs.fio(), 1736.690123),
    ("read: fio", labelled(programs.fio(2_000_000_000)), 2000),
    ("read: nvbandwidth, at: host_to_device_memcpy_ce", programs.nvbandwidth(), 442.87),
    (
        "read: nvbandwidth, at: device_to_host_memcpy_sm",
        programs.nvbandwidth().replace(
            "SUM", "SUM other 3\nRunning device_to_host_memcpy_sm.\nSUM device_to_host_memcpy_sm 55.6\nSUM"
        ),
        55.6,
    ),
    ("read: nvbandwidth, at: all", programs.nvbandwidth("1,442.87", "all"), 1442.87),
    ("read: dcgm", programs.dcgm(), 1),
    ("read: dcgm", programs.dcgm("Pass"), 1),
    ("read: dcgm", f"{CUT_BOX}{programs.dcgm()}{CUT_BOX}", 1),
    ("read: aiperf", programs.aiperf(), 10944.03),
    ("read: aiperf", programs.aiperf("91.19", "NVIDIA GenAI-Perf | LLM Metrics"), 91.19),
    ("read: aiperf", programs.aiperf(wrapped=True), 10944.03),
    ("read: aiperf", f"| a | b |\n|---|---|\n| 1 | 2 |\n\n{programs.aiperf()}", 10944.03),
    ("read: aiperf, metric: requests_per_s", programs.aiperf(wrapped=True), 255.54),
    ("read: aiperf", labelled(programs.aiperf("8.13", wrapped=True)), 8.13),
    ("read: aiperf, metric: ttft_ms_mean", programs.aiperf(), 151.23),
    ("read: trtllm-bench", programs.trtllm(), 5530.7382),
    ("read: trtllm-bench, metric: total_tokens_per_s", programs.trtllm(), 94022.5497),
    ("read: trtllm-bench, metric: requests_per_s", programs.trtllm(user=""), 43.2089),
    ("read: ib_write_bw, at: 65536", programs.ib_write_bw(), 390.87),
    (
        "read: ib_write_bw, at: 8388608",
        programs.ib_write_bw(
            "98.02", 8388608, "Conflicting CPU frequency values detected: 1500.000000 != 3300.016000.\n"
        ),
        98.02,
    ),
    ("read: ib_write_bw, at: 65536", labelled(programs.ib_write_bw("18.58")), 18.58),
    (f"metric: load_s, unit: s, better: lower, read: {LOAD}", programs.checkpoint(), 41.52),
)


@pytest.mark.parametrize(("keys", "text", "wanted"), GOOD)
def test_figures_of_programs_are_read_to_the_digit(
    write_log: WriteLog, tmp_path: Path, keys: str, text: str, wanted: float
) -> None:
    row = programs.row_of(tmp_path, keys)
    assert programs.figure(row, write_log(NOISE + text.encode() + NOISE)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("keys", "text", "wanted"), GOOD)
def test_colours_change_no_figure(write_log: WriteLog, tmp_path: Path, keys: str, text: str, wanted: float) -> None:
    row = programs.row_of(tmp_path, keys)
    coloured = re.sub(r"(\S+)(?=\s)", "\x1b[1;32m\\1\x1b[0m", text)
    assert programs.figure(row, write_log(coloured.encode())) == pytest.approx(wanted, rel=1e-12)


def test_every_program_has_a_good_output() -> None:
    assert {keys.split(",")[0].removeprefix("read: ") for keys, _, _ in GOOD[:-1]} == {*PROGRAMS}


# -- Damaged outputs -------------------------------------------------------------------------------


OTHER_UNITS = {
    "Gflops": "Mflops",
    "(MiB)": "(MB)",
    "MB/s": "GB/s",
    "(GB/s)": "(MB/s)",
    "(MB/s)": "(GB/s)",
    " s\n": " ms\n",
}


class Output:
    """A good output, with the text of its figure, and what its program prints."""

    def __init__(
        self, keys: str, write: Callable[[str], str], good: str, slow: str, failed: tuple[str, str], unit: str
    ):
        self.keys, self.write, self.good, self.slow, self.failed, self.unit = keys, write, good, slow, failed, unit

    @property
    def value(self) -> float:
        return float(self.good.replace(",", ""))

    def inserted(self) -> list[str]:
        """The outputs with a number too many at each place of the figure's line."""
        text = self.write(self.good)
        line = next(line for line in text.splitlines() if self.good in line)
        return [
            text.replace(line, f"{line[: gap.start()]}{number}{line[gap.start() :]}")
            for gap in re.finditer(r"(?<=\S)(?= |$)", line)
            for number in (" 777777.5", "      777777.5", "      777777.5    777778.5", " | 777777.5")
        ]

    def begun(self) -> str:
        """The output up to the first line of the program."""
        lines = self.write(self.good).splitlines(keepends=True)
        sign = PROGRAMS[self.keys.partition(",")[0].removeprefix("read: ")]
        return "".join(lines[: 1 + next(at for at, line in enumerate(lines) if is_wanted(line.encode(), (sign,)))])

    def damaged(self) -> Mapping[str, str]:
        good, text, slow = self.good, self.write(self.good), self.write(self.slow)
        at = text.rindex(good)
        line = text[text.rindex("\n", 0, at) + 1 : text.index("\n", at) + 1]
        before, _, behind = line.partition(good)
        other = "UCX WARN  12 of 482 retries, 480.2 GB/s so far "
        return {
            "cut before the figure": text[: text.index(line)],
            "cut in the number": text[: at + len(good) - 2],
            "cut in the line": text[: at + len(good)],
            "slow, then good": slow + text,
            "good, then slow": text + slow,
            "two good runs": text + text,
            "good, then a run that was cut before its figure": text + text[: text.index(line)],
            "failed": text.replace(*self.failed),
            "nan": text.replace(good, "nan"),
            "-nan": text.replace(good, "-nan"),
            "inf": text.replace(good, "inf"),
            "zero": text.replace(good, "0.00"),
            "negative": text.replace(good, f"-{good}"),
            "a decimal comma": text.replace(good, "1,5"),
            "a decimal comma and two digits": text.replace(good, "999999,53"),
            "a decimal comma and three digits": text.replace(good, "0,125"),
            "killed before the figure": f"{text[: text.index(line)]}srun: error: node7: task 0: Killed\n",
            "lines of two runs in turn": "".join(
                f"0: {one}\n1: {two}\n" for one, two in zip(text.splitlines(), slow.splitlines(), strict=True)
            ),
            "no figure": text.replace(good, "N/A"),
            "stars": text.replace(good, "*" * len(good)),
            "another unit": text.replace(self.unit, OTHER_UNITS.get(self.unit, "x")),
            "no row": text.replace(line, ""),
            "the row twice": text.replace(line, line + line),
            "a warning in the row, before the figure": text.replace(line, f"{before}{other}{good}{behind}"),
            "a warning in place of the row": text.replace(line, f"{other}\n"),
            "the row torn in two": text.replace(line, f"{before}{other}\n{good}{behind}"),
            "the end of the row lost": text.replace(line, f"{before.rstrip()}\n"),
        }


OUTPUTS = {
    "hpl": Output("read: hpl", programs.hpl, "4.8221e+02", "1.1000e+02", ("PASSED", "FAILED"), "Gflops"),
    "ior": Output(
        *("read: ior, at: write", programs.ior, "18432.61", "3211.09"),
        *(("Finished  ", "WARNING: Incorrect data on read (3 errors found).\nFinished"), "(MiB)"),
    ),
    "stream": Output(
        *("read: stream, at: Triad", programs.stream, "203451.7", "31022.9"),
        *(("Solution Validates: avg", "Failed Validation on array a[], AvgRelAbsErr > epsilon, avg"), "MB/s"),
    ),
    "nvbandwidth": Output(
        *("read: nvbandwidth, at: host_to_device_memcpy_ce", programs.nvbandwidth, "442.87", "91.02"),
        *(("Running", "Invalid value when checking the pattern at 0x7f\nRunning"), "(GB/s)"),
    ),
    "osu": Output(
        *("read: osu, at: 4194304", programs.osu, "24512.37", "6120.88"),
        *(("24512.37\n", "24512.37             Fail\n"), "(MB/s)"),
    ),
    "checkpoint": Output(
        *(f"metric: load_s, unit: s, better: lower, read: {LOAD}", programs.checkpoint, "41.52", "97.31"),
        *(("[rank 3] checkpoint loaded in 41.52 s", "[rank 3] checkpoint failed after 41.52 s"), " s\n"),
    ),
    "ib_write_bw": Output(
        *("read: ib_write_bw, at: 65536", programs.ib_write_bw, "390.87", "97.10"),
        *((" 65536 ", " Couldn't post send\n 6553 "), "Gb/sec"),
    ),
    "aiperf": Output(
        *("read: aiperf", programs.aiperf, "10,944.03", "2,911.40"),
        *(("Request Count", "NVIDIA AIPerf | Error Summary\nRequest Count"), "tokens/sec)"),
    ),
    "trtllm-bench": Output(
        *("read: trtllm-bench", programs.trtllm, "5530.7382", "1200.1000"),
        *(("= PERFORMANCE OVERVIEW", "no overview"), "(tokens/sec)"),
    ),
    "hpcg": Output("read: hpcg", programs.hpcg, "231.417", "90.112", ("VALID", "INVALID"), "GFLOP"),
    "mdtest": Output(
        *("read: mdtest, at: File creation", programs.mdtest, "31877.406", "8000.125"),
        *(("-- finished", "ERROR: cannot create file\n-- finished"), "Operation"),
    ),
    "fio": Output(
        *("read: fio", lambda rate: programs.fio(int(rate)), "7113482240", "1113482240"),
        *(('"error" : 0,', '"error" : 5,'), "bw_bytes"),
    ),
}  # fmt: skip
#: Damages that a program's output has besides.
FURTHER = {
    ("hpl", "one of two tests failed"): programs.hpl().replace(
        "  0 tests completed and failed", "  1 tests completed and FAILED"
    ),
    ("hpl", "other columns"): programs.hpl().replace("Time                 Gflops", "Gflops                 Time"),
    ("checkpoint", "a rank twice, another one missing"): programs.checkpoint().replace("[rank 5]", "[rank 4]"),
    ("checkpoint", "a rank missing"): programs.checkpoint(ranks=7),
    ("checkpoint", "ranks of two runs"): programs.checkpoint(ranks=5) + programs.checkpoint(ranks=3),
    ("hpl", "a number in a row with a remark"): programs.hpl(behind=" ( 2.325e+04)").replace("34.37", "34.37 999999"),
    ("aiperf", "a table that was cut, with text behind"): programs.aiperf().partition("└")[0] + "srun: error\n",
    ("aiperf", "a table that was cut, with a box behind"): f"{programs.aiperf().partition('└')[0]}{CUT_BOX}{CUT_BOX}",
    ("aiperf", "a column too many"): programs.aiperf().replace("10,944.03", "777777 │ 10,944.03"),
    ("aiperf", "a number in two cells"): programs.aiperf()
    .replace("10,944.03", "7777.5 10,944.03")
    .replace("N/A", "7777.5 N/A"),
    ("trtllm-bench", "killed in the figure"): programs.trtllm().partition("30.7382")[0] + "\nsrun: error\n",
    ("aiperf", "two numbers in a cell"): programs.aiperf().replace("10,944.03", "777777 10,944.03"),
    ("hpl", "one of two rows"): programs.hpl().replace("1 tests", "2 tests"),
    ("osu", "both directions"): programs.osu(test="MPI Bi-Directional Bandwidth"),
    ("ib_write_bw", "both directions"): programs.ib_write_bw(test="RDMA_Write Bidirectional BW"),
    ("ib_write_bw", "another operation"): programs.ib_write_bw(test="RDMA_Read BW"),
    ("osu", "a heading twice"): programs.osu().replace("# Size", "# Size      Bandwidth (MB/s)\n# Size"),
    ("aiperf", "a wrapped row of another figure"): programs.aiperf(wrapped=True).replace(
        " (tokens/sec) ", "(tokens/min) "
    ),
    ("aiperf", "a table that was cut"): programs.aiperf().partition("└")[0],
    ("stream", "a heading twice"): programs.stream().replace(
        "Copy:", "Function    Best Rate MB/s  Avg time     Min time     Max time\nCopy:"
    ),
    ("stream", "other columns"): programs.stream().replace("Best Rate MB/s  Avg time", "Avg time  Best Rate MB/s"),
}
DAMAGED = [
    pytest.param(name, text, id=f"{name}-{damage}")
    for name, output in OUTPUTS.items()
    for damage, text in [*output.damaged().items(), *((d, text) for (of, d), text in FURTHER.items() if of == name)]
]


@pytest.mark.parametrize(("name", "text"), DAMAGED)
def test_no_damaged_output_passes(write_log: WriteLog, tmp_path: Path, name: str, text: str) -> None:
    output = OUTPUTS[name]
    row = programs.row_of(tmp_path, output.keys)
    assert text != output.write(output.good)
    with pytest.raises(LogError):
        programs.figure(row, write_log(text.encode()))


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_number_too_many_never_changes_the_figure(write_log: WriteLog, tmp_path: Path, name: str) -> None:
    output = OUTPUTS[name]
    row = programs.row_of(tmp_path, output.keys)
    read = set()
    for text in output.inserted():
        with contextlib.suppress(LogError):
            read.add(programs.figure(row, write_log(text.encode())))
    assert read <= {programs.figure(row, write_log(output.write(output.good).encode()))}


@pytest.mark.parametrize("name", sorted({*OUTPUTS} - {"checkpoint"}))
def test_a_run_that_begins_behind_the_figure_is_a_second_one(write_log: WriteLog, tmp_path: Path, name: str) -> None:
    output = OUTPUTS[name]
    with pytest.raises(LogError):
        programs.figure(
            programs.row_of(tmp_path, output.keys), write_log(f"{output.write(output.good)}{output.begun()}".encode())
        )


@pytest.mark.parametrize("name", ["hpl", "stream", "ior", "mdtest", "aiperf"])
def test_a_required_text_before_the_program_is_not_the_programs(write_log: WriteLog, tmp_path: Path, name: str) -> None:
    output = OUTPUTS[name]
    row = programs.row_of(tmp_path, output.keys)
    assert row.criterion.read is not None
    *_, text = row.criterion.read.require
    script, log = f"grep -q '{text}' out || echo '{text}'\n", output.write(output.good)
    assert programs.figure(row, write_log(f"{script}{log}".encode())) > 0
    with pytest.raises(LogError, match=f"{text}' is not in it"):
        programs.figure(row, write_log(f"{script}{log.replace(text, 'x')}".encode()))


def test_there_are_eleven_damages_of_each_program() -> None:
    assert all(len({*output.damaged().values()}) >= 11 for output in OUTPUTS.values())


@pytest.mark.parametrize(
    "text",
    [
        programs.dcgm("Fail - GPU: 3"), programs.dcgm("Warn - GPU: 3"), programs.dcgm("Not Run"),
        programs.dcgm().replace("Pass", "Skip"), programs.dcgm().replace("Successfully ran", "Unable to complete"),
        programs.dcgm().partition("| pcie")[0] + "srun: error: node7: task 0: Killed\n",
        programs.dcgm().partition("| pcie")[0] + CUT_BOX + CUT_BOX, programs.dcgm("Pass").partition("+-----  Hardware")[0] + "x\n",
        programs.dcgm() + programs.dcgm("Fail"), programs.dcgm() + "Successfully ran diagnostic for group.\n", programs.dcgm().partition("+-----  Hardware")[0], "Error: Diagnostic could not be run\n",
    ],
)  # fmt: skip
def test_a_diagnosis_that_is_not_all_good_is_an_error(write_log: WriteLog, tmp_path: Path, text: str) -> None:
    with pytest.raises(LogError):
        programs.figure(programs.row_of(tmp_path, "read: dcgm"), write_log(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        programs.fio(error=5), programs.fio(jobs=2), programs.fio(read=0), programs.fio() + programs.fio(),
        programs.fio()[:-40] + "\n", programs.fio(1e9) + programs.fio()[:200] + "\n", programs.fio().replace('"jobs"', '"job"'),
        programs.fio().replace("7113482240", "NaN"), programs.fio().replace("7113482240", "true"),
        programs.fio().replace('"timestamp"', 'fio: io_u error\n"timestamp"'), '{\n"a": ' + "[" * 100_000 + "\n",
        "no document\n",
    ],
)  # fmt: skip
def test_a_document_that_is_not_whole_and_alone_is_an_error(write_log: WriteLog, tmp_path: Path, text: str) -> None:
    with pytest.raises(LogError):
        programs.figure(programs.row_of(tmp_path, "read: fio"), write_log(text.encode()))


# -- Blocks of a table's own ------------------------------------------------------------------------


def read_block(write_log: WriteLog, text: str, **keys: Any) -> float:
    log = read_log(write_log(text.encode()), block_format(Block(**keys), "own", "read"))
    return log.figures["own"][0]


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("tokens/s: {}", "tokens/s: 18,400.5", 18400.5),
        ("tokens/s: {}", "tokens/s:    1.84e4,", 18400),
        ("{} output tokens/s", "Throughput: 4.25 requests/s, 1.84e4 output tokens/s", 18400),
        ("IOPS={}", "read: IOPS=125k, BW=488MiB/s (512MB/s)", 125_000),
        ("({}MB/s)", "read: IOPS=125k, BW=488MiB/s (512MB/s)", 512),
        ("BW={}MiB/s", "read: IOPS=125k, BW=488MiB/s", 488),
        ("rate: {}", "rate: 1.25K", 1250),
        ("rate: {}", "rate: 3M", 3e6),
        ("latency: {} µs", "latency: 4.5 µs", 4.5),
        ("│ Throughput │ {}", "│ Throughput  │  10,944.03 │ N/A │", 10944.03),
        ("rate (GB/s) = {}", "rate  (GB/s)   = 12.5", 12.5),
        ("tokens/s: {}", "tokens/s: 12,500", 12500),
        ("tokens/s: {}", "tokens/s: 1,234,567.5", 1234567.5),
    ],
)
def test_a_text_around_the_number(write_log: WriteLog, text: str, line: str, wanted: float) -> None:
    assert read_block(write_log, f"other\n{line}\nother\n", **text_block(text).stated()) == wanted


@pytest.mark.parametrize(
    ("keys", "text", "wanted"),
    [
        ({"after": "T/V", "line": "WR*", "column": "3"}, "T/V N a b\nWR1 2 30.5 4\nXR1 2 9 4\n", 30.5),
        ({"line": "WR*", "column": "3", "unit_in": "G"}, "T/V N G\n---\nWR1 2 30.5\n", 30.5),
        ({"line": "WR*", "column": "3", "unit_in": "G"}, "T/V N\nWR1 2 30.5 G\n", 30.5),
        ({"line": "WR*", "column": "2", "each": 2, "statistic": "min"}, "WR1 2   3\nx y\nWR1   4 3\n", 2),
        ({"after": "T/V", "column": "best rate"}, "T/V  N  best rate  (a)\nWR1 2 30.5 4\n", 30.5),
        ({"after": "T/V", "column": "3"}, "T/V  N  best rate  (a)\nWR1 2 30.5 4\n", 30.5),
        ({"after": "op", "column": "Mean"}, "op  Max  Mean  Std Dev\nFile read :  9  7  1\n", 7),
        ({"after": "op", "column": "Mean"}, "op  Max  Mean  Std Dev\nFile read   :  9  7  1\n", 7),
        ({"line": "step * x {}", "each": 3, "statistic": "median"}, "step 1 x 9\nstep 2 x 4\nstep 3 x 5\n", 5),
        ({"line": "a {}", "each": 2, "statistic": "last"}, "a 1\na 2\n", 2),
        ({"line": "a {}", "each": 2, "statistic": "mean"}, "a 1\na 2\n", 1.5),
        ({"line": "a {}", "each": 2, "statistic": "min"}, "a 1\na 2\n", 1),
        ({"line": "a {}", "each": 2, "statistic": "max"}, "0: a 1\n1: a 2\n", 2),
        ({"line": "a {}", "times": 0.001}, "a 1500\n", 1.5),
        ({"line": "* rate {} *", "unit_in": "GB/s"}, "the rate 7 GB/s\n", 7),
        ({"line": "*rate(GB/s)={}", "unit_in": "GB/s"}, "rate(GB/s)=7\n", 7),
        ({"line": "*rate(GB/s)={}", "unit_in": "(GB/s)"}, "rate(GB/s)=7\n", 7),
        ({"line": "* {}GB/s", "unit_in": "GB/s"}, "rate 7GB/s\n", 7),
        ({"after": "name rate", "column": "rate"}, "name rate\n---- ----\nx 7\n\ny 9\n", 7),
        ({"after": "name", "column": "rate", "unit_in": "GB/s"}, "name rate (GB/s)\nx 7\n---\ny 9\n", 7),
        ({"after": "name", "line": "y *", "column": "2"}, "y 1\nname rate\nx 7\ny 9\n\ny 3\n", 9),
        ({"after": "name", "column": "rate", "each": 2, "statistic": "min"}, "│ name │ rate │\n│ x y │ 7 │\n│ z │ 9 │\n", 7),
        ({"json": "a[1].b"}, 'text\n{"a": [{"b": 1}, {"b": 2.5}]}\n', 2.5),
        ({"json": "a.b[p 99.0]"}, '{\n"a": {"b": {"p 99.0": "7"}}\n}\n', 0),
        ({"json": "[0].b"}, '{"a": 1}\n', 0),
        ({"json": "b"}, '{"a": 1, "a": 2, "b": 3}\n', 3),
        ({"json": "a[*]", "each": 2, "statistic": "max"}, '{"a": [3, 4]}\n', 4),
        ({"after": "name", "column": "rate"}, "name | rate\n-----+-----\nx    |    7\n", 7),
        ({"line": "* rate: {} GB/s"}, "╭ now ─────────╮\n│ the rate: 7 GB/s │\n╰──────────────╯\n", 7),
        ({"line": "a {} GB/s *"}, "| n | avg | p9 |\n| a | 7 GB/s | 9 GB/s |\n", 7),
        ({"require": ("all good",)}, "all good\n", 1),
    ],
)  # fmt: skip
def test_blocks(write_log: WriteLog, keys: Mapping[str, Any], text: str, wanted: float) -> None:
    if wanted:
        assert read_block(write_log, text, **keys) == wanted
    else:
        with pytest.raises((LogError, BlockError)):
            read_block(write_log, text, **keys)


@pytest.mark.parametrize(
    ("keys", "text", "why"),
    [
        ({"line": "a {}"}, "a 1\na 2\n", "more than 1 figures, and the table's 'each' is 1: 1, 2"),
        ({"line": "*a {}*"}, "a 1 a 2\n", "more than 1 figures"),
        ({"line": "a {}"}, "a 12,5\n", "no single positive number at its place: a 12,5"),
        ({"line": "a {}"}, "a 0,125\n", "no single positive number at its place: a 0,125"),
        ({"line": "a {}"}, "a 1,860e+05\n", "no single positive number at its place: a 1,860e+05"),
        ({"line": "a {}"}, "a 1,2345\n", "no single positive number at its place: a 1,2345"),
        ({"line": "a {}"}, "a 1,234,5\n", "no single positive number at its place: a 1,234,5"),
        ({"line": "a {} *"}, "| n | avg | p9 |\n| a 7 | 8 | 9 |\n", "no single positive number at its place"),
        ({"after": "op", "column": "Mean"}, "op  Max  Mean  Std Dev\nFile read  9  8  7  1\n", "its columns are not"),
        ({"after": "op", "column": "Mean"}, "op  Max  Mean  Std Dev\nFile read  9  7\n", "its columns are not"),
        ({"line": "a {} *"}, "| n | avg | p9 |\n| a | 7 8 | 9 |\n", "no single positive number at its place"),
        ({"line": "a {} *"}, "| n | avg | p9 |\n| a | 7 | 8 | 9 |\n", "no single positive number at its place"),
        ({"line": "x*", "column": "2", "unit_in": "s"}, "a s\na ms\nx 7\n", "no 's' in the line or its heading"),
        ({"line": "x*", "column": "2", "each": 2, "statistic": "min"}, "x 7 8\nx 9 7 8\n", "its columns are not"),
        ({"after": "a", "column": "2"}, "a b\nx 7 8\n", "its columns are not those of its heading: x 7 8"),
        ({"after": "a", "column": "2"}, "a  b c\nx 7 8\n", "its columns are not those of its heading: x 7 8"),
        ({"after": "a", "column": "b"}, "a b\nx 7 8\n", "its columns are not those of its heading: x 7 8"),
        ({"line": "*a {}*"}, "a 1 " * 20 + "\n", "no single positive number"),
        ({"line": "a {}", "each": 2, "statistic": "min"}, "a 1\na 2\na 3\n", "more than 2 figures"),
        ({"line": "a {}", "each": 3, "statistic": "min"}, "0: a 1\n0: a 2\n1: a 3\n", "some ranks print 1 figures"),
        ({"line": "rank * {}", "each": 3, "statistic": "min"}, "rank 1 a 1\nrank 1 a 2\nrank 2 a 3\n", "some ranks"),
        ({"line": "a {}"}, "a x\n", "no single positive number at its place: a x"),
        ({"after": "a", "column": "3"}, "a b\nx 7\n", "no single positive number"),
        ({"line": "a {}", "unit_in": "GB/s"}, "a 1\n", "no 'GB/s' in the line or its heading"),
        ({"line": "a {} *", "unit_in": "s"}, "a 41.5 ms\n", "no 's' in the line or its heading"),
        ({"line": "a {} *", "unit_in": "B/s"}, "a 41.5 GB/s\n", "no 'B/s' in the line or its heading"),
        ({"line": "a {} *", "unit_in": "GB/s"}, "a 41.5 GB/s/GPU\n", "no 'GB/s' in the line or its heading"),
        ({"line": "a {}", "require": ("fine",)}, "a 1\n", "'fine' is not in it"),
        ({"line": "a {}", "refuse": ("b*d",)}, "a 1\nb c d\n", "'b*d' is in it"),
        ({"after": "name rate", "column": "rate"}, "name rate rate\nx 7 8\n", "its columns are not"),
        ({"after": "name", "column": "2"}, "name rate\nx 7\nname rate\n", "2 runs, or headings, and the table's"),
        ({"json": "a"}, '{"a": 1}\n{"a": 2}\n', "more than 1 figures"),
        ({"json": "a"}, '{"a": 1, "a": 2}\n', "no whole JSON document, or no number at a"),
        ({"json": "a"}, '{"a": 1\n', "no whole JSON document, or no number at a"),
        ({"json": "a"}, '{"a": -1}\n', "no whole JSON document, or no number at a"),
    ],
)  # fmt: skip
def test_a_log_that_is_not_what_the_block_says_is_an_error(
    write_log: WriteLog, keys: Mapping[str, Any], text: str, why: str
) -> None:
    with pytest.raises(LogError, match=re.escape(why)):
        read_block(write_log, text, **keys)


def test_a_log_without_the_figure_names_what_was_searched(write_log: WriteLog) -> None:
    with pytest.raises(LogError, match=wording("no figures", figures="read")) as caught:
        read_block(write_log, "b 1\n", line="a {}")
    assert ("searched", "a {}") in caught.value.evidence


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "has no 'line', 'after', 'json' or 'require'"),
        ({"line": "a *"}, "'{}' in 'line', or 'column'"),
        ({"line": "a {}", "after": "b", "column": "2"}, "'{}' in 'line', or 'column'"),
        ({"line": "a {} {}"}, "one {}"),
        ({"line": "a*{}"}, "next to plain text"),
        ({"line": "{}"}, "plain text"),
        ({"line": "x" * 201}, "at most 200"),
        ({"line": "a\x07 {}"}, "plain text"),
        ({"line": "*a?b* {}"}, "between two '*'"),
        ({"after": "a {}", "column": "1"}, "has '{}' elsewhere than in 'line'"),
        ({"line": "a *", "column": "rate"}, "no 'after'"),
        ({"line": "a {}", "each": 2}, "both 'each' and 'statistic'"),
        ({"line": "a {}", "statistic": "min"}, "both 'each' and 'statistic'"),
        ({"json": "a", "line": "a {}"}, "has 'json' and a line"),
        ({"json": "a..b"}, "wanted a path"),
        ({"require": ("a",), "column": "1"}, "'unit_in' without one"),
        ({"require": ("a",), "unit_in": "s"}, "'unit_in' without one"),
    ],
)
def test_a_block_that_finds_no_number_is_refused(keys: Mapping[str, Any], why: str) -> None:
    with pytest.raises(BlockError, match=re.escape(why)):
        Block(**keys)


@pytest.mark.parametrize(
    "text",
    [
        r"tokens/s: (\d+)+", r"tokens/s: ((?:\d+\s?)*)x", r"tokens/s: (a|ab)", r"(\d+) tokens/s \1",
        r"(?<=tokens/s: )(\d+)", r"^tokens/s: (\S+)$", r"(\S+) tokens/s: (\d+)", "tokens/s", r"(\S+)", "*: {}", "tokens/s? {}",
        "abc(d", "abc(.)(.)", "(.+) abc", "ab(.)", "abc|d(e)", "abc(.+?)", r"abc(\1)", "abc[z-a](.)",
    ],
)  # fmt: skip
def test_another_expression_is_refused(text: str) -> None:
    with pytest.raises(
        BlockError, match=r"write 'images/sec|begin with 3 plain|no regular expression|belong into a block"
    ):
        text_block(text)


# -- A log that no row claims -----------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "text"), [(keys, text) for keys, text, _ in GOOD[:-1]])
def test_an_output_is_recognized(write_log: WriteLog, keys: str, text: str) -> None:
    name = keys.split(",")[0].removeprefix("read: ")
    path = write_log(text.encode())
    with pytest.raises(LogError) as caught:
        detect_format(path)
    assert caught.value.advice == f"this is the output of {name}: write 'read: {name}' into the table"
    with pytest.raises(LogError) as caught:
        read_log(path, FORMATS["megatron"])
    assert caught.value.advice == f"this is the output of {name}: write 'read: {name}' into the table"


# -- Time -------------------------------------------------------------------------------------------


def test_no_line_is_read_when_more_figures_than_wanted_are_there(write_log: WriteLog) -> None:
    with (
        patch.object(block_reader, "normalized", wraps=normalized) as read,
        pytest.raises(LogError, match="more than 1 figures"),
    ):
        read_block(write_log, "a 1\n" * 1000, line="a {}")
    assert read.call_count == 2


@pytest.mark.parametrize(
    ("expression", "lines", "wanted"),
    [
        (r"tokens/sec[)] │ +(\S+)", "│ Throughput (tokens/sec) │ 10,944.03 │ N/A │", 10944.03),
        (r" 65536 +5000 +[0-9.]+ +([0-9.]+)", " 65536      5000     391.02    390.87    0.745524", 390.87),
        (r"\] Dispatch bandwidth: (\S+) GB/s", "[rank 3] Dispatch bandwidth: 5.90 GB/s, avg_t=1 us", 5.9),
        (r"abc[^0-9]+(\d+)", "abc of x: 12", 12),
        (r"rate=([\d.,]*)", "rate=1,250.5;", 1250.5),
    ],
)
def test_a_simple_expression(write_log: WriteLog, expression: str, lines: str, wanted: float) -> None:
    assert read_block(write_log, f"other\n{lines}\n", **text_block(expression).stated()) == wanted


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        (r"abc[^0-9]+(\d+)", "abc: 12.5"),
        (r"abc[^0-9]+(\d+)", "abc: 12,500"),
        (r"abc[^0-9]+(\d+)", "abc: 12e5"),
        (r"abc[^0-9]+(\d+)", "abc: -12"),
        (r"abc[^0-9]+(\d+)", "abc: .12"),
        (r"abc (\S+)", "abc nan"),
        (r"abc (\S+)", "abc 1 abc 2"),
        (r"abc (\S+)", "abc " * 9),
    ],
)
def test_a_part_of_a_number_is_none(write_log: WriteLog, expression: str, line: str) -> None:
    with pytest.raises(LogError, match=r"no single positive number|more than 1 figures"):
        read_block(write_log, f"{line}\n", pattern=expression)


@given(
    st.lists(st.sampled_from(["a", "b", r"\S", ".", "[^0-9]", " "]), max_size=6),
    st.lists(st.sampled_from(["", "+", "*", "?"]), min_size=8, max_size=8),
    st.sampled_from(["a", "aaab", "aaa ", "aaa 1 "]),
)
def test_no_expression_is_slow(atoms: list[str], many: list[str], filling: str) -> None:
    repeated = "".join(map("".join, zip(atoms, many, strict=False)))
    with it_ends(20):
        assert Expression(f"aaa{repeated}(.{many[-1]})b").numbers((filling * 8192)[:8192]) is not None


ATOMS = st.sampled_from(["a", "b", "ab", " ", "*", "?", "{}", ".", "aaaaaaaa", "1", "| "])
FILLINGS = st.sampled_from(["a", "ab", "a ", "a1 ", "1 ", "b a", "| ", "{", "aaaaaaab", "\u00b5"])


@given(st.lists(ATOMS, min_size=1, max_size=20), FILLINGS)
def test_no_pattern_that_is_accepted_is_slow(atoms: list[str], filling: str) -> None:
    try:
        pattern = Pattern("".join(atoms))
    except BlockError:
        return
    line = normalized((filling * 8192)[:8192])
    with it_ends(20):
        assert (pattern.numbers(line) if pattern.has_number else pattern.matches(line)) is not None


@given(st.lists(st.sampled_from(["a", "b", " ", "*", "?"]), max_size=8), st.text("ab ", max_size=12))
def test_a_pattern_without_a_number_is_that_of_a_shell(atoms: list[str], text: str) -> None:
    try:
        pattern = Pattern("".join(["*a", *atoms]))
    except BlockError:
        return
    line = normalized(text)
    expression = "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern.text)
    assert pattern.matches(line) == (re.fullmatch(expression, line) is not None)
