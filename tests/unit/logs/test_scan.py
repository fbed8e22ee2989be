from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.logs import scan
from pytest_gsw.logs.scan import LogFile, matching_records, opened
from tests.endless import it_ends
from tests.unit.logs.conftest import Read, WriteLog
from tests.unit.logs.lines import bar, dll, indexes, maxtext, megatron, seconds

BLOCKS = (1, 7, 64, 1023, 1 << 20)


def records(path: Path, *markers: bytes, wraps: bool = False, block_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
    with patch.object(scan, "BLOCK_BYTES", block_bytes):
        return list(matching_records(path, markers, wraps=wraps))


def labelled(task: str, text: bytes) -> bytes:
    """Text as ``srun --label`` writes it: in lines of 1024 bytes at most, each after the label."""
    lines = []
    for line in text.split(b"\n"):
        pieces = [line[at : at + 1024] for at in range(0, len(line), 1024)] or [b""]
        lines += [task.encode() + piece + b"\n" for piece in pieces]
    return b"".join(lines[:-1]) if text.endswith(b"\n") else b"".join(lines)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_lines_that_hold_a_marker(write_log: WriteLog, block_bytes: int) -> None:
    path = write_log(b"xx\na mark 1\r\nyy\nb mark 2 mark 3\n\nmark 4\rmark 5\n mark 6")
    assert records(path, b"mark", block_bytes=block_bytes) == [
        (3, b"a mark 1"),
        (16, b"b mark 2 mark 3"),
        (33, b"mark 4"),
        (40, b"mark 5"),
    ]


def test_several_markers_and_strings_that_stand_together(write_log: WriteLog) -> None:
    path = write_log(b"one (a)\ntwo [b]\nthree {c}\none\nfour, five: 1\nfour\nfive: 1\nfour, fi\x1b[0mve: 2\n")
    found = [line for _, line in matching_records(path, (b"one (", b"two [", (b"four", b"five: ")))]
    assert found == [b"one (a)", b"two [b]", b"four, five: 1", b"four, five: 2"]


@pytest.mark.parametrize("noise", [b"(((((((((((\n", b"plain words\n", b"per iteration\n"])
def test_whatever_the_noise_holds(write_log: WriteLog, noise: bytes) -> None:
    path = write_log((noise * 3000 + b"elapsed per iteration (ms)\n") * 3)
    assert len(records(path, b"per iteration (")) == 3


@pytest.mark.parametrize("filler", [0, 3000])
def test_many_markers_are_found_as_few_are(write_log: WriteLog, filler: int) -> None:
    """Many are searched for at once: each alone on a line, the first and the last of a file, and side by side."""
    text = "Xid|XID|ABORT|bort|[F|(): |rror|error: ***|a.b*c|train|died|F10|F1|w|x|ab|é"
    many = tuple(mark.encode() for mark in text.split("|"))
    path = write_log(b"".join(b"%s\n%s" % (mark, b"0 0\n" * filler) for mark in (*many, many[0] + many[1])))
    assert [line for _, line in records(path, *many)] == [*many, b"XidXID"]


class Counted(bytearray):
    """A block that counts the searches in it."""

    searches = 0

    def find(self, *args: Any) -> int:
        self.searches += 1
        return super().find(*args)

    def rfind(self, *args: Any) -> int:
        self.searches += 1
        return super().rfind(*args)

    def startswith(self, *args: Any) -> bool:
        self.searches += 1
        return super().startswith(*args)


PLAIN = b"plain words\n" * 87_000
FREQUENT = {
    "one byte": b"X" * (1 << 20),
    "half of the bytes": b"0X" * (1 << 19),
    "lines": b"NVRM: X\n" * (1 << 17),
    "NUL": b"\0" * (1 << 20),
    "all bytes": bytes(range(256)) * (1 << 12),
    "all but the samples": PLAIN[:4096]
    + b"X" * 345_429
    + PLAIN[:4096]
    + b"X" * 345_429
    + PLAIN[:4096]
    + b"X" * 345_430,
}


@pytest.mark.parametrize("noise", FREQUENT.values(), ids=FREQUENT)
def test_few_searches_in_a_log_whose_rare_bytes_become_frequent(noise: bytes) -> None:
    finder = scan._Finder(((b"NVRM: Xid",), (b"Xid error",), (b"rror",)))
    searches = []
    for content in (PLAIN, noise, noise):
        middle = len(content) // 2
        block = Counted(content[:middle] + b"\nNVRM: Xid error\n" + content[middle:])
        found = finder.places(block, len(block))
        assert all(any(begin <= place < begin + 9 for place in found) for begin in (middle + 1, middle + 7))
        searches.append(block.searches)
    assert max(searches) < len(noise) // 50
    # Samples are taken again.
    assert searches[2] <= searches[1]
    assert noise is not FREQUENT["one byte"] or searches[2] < 20 < searches[1]


@given(
    st.lists(st.text("aeX: ", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=20, unique=True),
    st.lists(st.one_of(st.text("aeX: \n\r\x1b[0m", max_size=300).map(str.encode), st.binary(max_size=9)), max_size=9),
    st.integers(1, 64),
)
def test_rare_bytes_change_no_result(markers: list[bytes], pieces: list[bytes], sample_bytes: int) -> None:
    def find_all(finder: scan._Finder, block: bytearray, end: int) -> list[int]:
        return sorted(
            found.start() for word, *_ in finder._groups for found in re.finditer(re.escape(word), block[:end])
        )

    block = bytearray(b"".join(pieces))
    constants = {"_LARGE_BYTES": 0, "_SAMPLE_BYTES": sample_bytes, "_OFTEN_EVERY_BYTES": 4}
    for groups in (tuple(markers), (tuple(markers[:2]), *markers[2:])):
        with patch.object(scan._Finder, "places", find_all):
            wanted = scan.Scanner(groups).records(block, len(block), 0)
        assert scan.Scanner(groups).records(block, len(block), 0) == wanted
        with patch.multiple(scan, **constants):
            scanner = scan.Scanner(groups)
            # By samples of another block.
            scanner.records(bytearray(b"aaaa e\n"), 7, 0)
            assert scanner.records(block, len(block), 0) == wanted
            assert scan.Scanner(groups).records(block, len(block), 0) == wanted


def test_a_trace_that_is_wanted(write_log: WriteLog) -> None:
    log = write_log(b"+ serve --num-prompts 8\n0: ++ grep --num-prompts 9 x\n+ serve\n--num-prompts 7\n")
    plain, traced = (b"--num-prompts",), (b"+ ", b"--num-prompts")
    assert [record for _, record in matching_records(log, (plain,))] == [b"--num-prompts 7"]
    assert [record for _, record in matching_records(log, (plain, traced))] == [
        *(b"+ serve --num-prompts 8", b"0: ++ grep --num-prompts 9 x", b"--num-prompts 7")
    ]


def test_escapes_nul_and_the_shells_trace(write_log: WriteLog) -> None:
    # Escapes and NUL are taken out.
    path = write_log(b"\x1b[34mmark: \x1b[38;2;1;2;3m6\x1b[0m\0\0\x1b[K\n\0\0\0mark 7\x1b[Amark 8\n")
    assert [line for _, line in records(path, b"mark")] == [b"mark: 6", b"mark 7", b"mark 8"]
    # The shell's trace is left out.
    path = write_log(b"+ echo mark\n++ mark\n 12: +++ mark\nx + mark\n")
    assert [line for _, line in records(path, b"mark")] == [b"x + mark"]


@pytest.mark.parametrize("block_bytes", [4096, 1 << 20])
def test_a_line_of_megabytes_is_passed_over(
    write_log: WriteLog, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(scan, "LONGEST_LINE_BYTES", 100_000)
    long = b"mark " + b"x" * 200_000 + b" mark"
    path = write_log(b"mark 1\n" + long + b"\nmark 2\n" + long + b"\rmark 3\n" + long)
    assert [line for _, line in records(path, b"mark", block_bytes=block_bytes)] == [b"mark 1", b"mark 2", b"mark 3"]


def test_a_hole_of_megabytes_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with path.open("wb") as log:
        log.write(b"mark 1\n")
        log.seek(1 << 28)
        log.write(b"\nmark 2\n")
    with it_ends():
        assert [line for _, line in records(path, b"mark", b"\0mark")] == [b"mark 1", b"mark 2"]


@pytest.mark.parametrize("block_bytes", [5000, 1 << 20])
def test_a_bar_of_megabytes_without_a_line_end(write_log: WriteLog, block_bytes: int) -> None:
    path = write_log(b"".join(b"\rmark %06d" % number for number in range(50_000)))
    found = records(path, b"mark", block_bytes=block_bytes)
    assert found[0] == (1, b"mark 000000")
    assert found[-1] == (12 * 49_998 + 1, b"mark 049998")
    assert len(found) == 49_999


@pytest.mark.parametrize("start", [0, 1, 6, 7, 8])
def test_a_part_of_a_file_begins_and_ends_with_whole_lines(write_log: WriteLog, start: int) -> None:
    path = write_log(b"mark 1\nmark 2\nmark 3\n")
    found = [line for _, line in matching_records(path, (b"mark",), start=start, stop=20)]
    assert found == {0: [b"mark 1", b"mark 2"], 8: []}.get(start, [b"mark 2"])


class TestSrunLabel:
    """``srun --label`` breaks a message after 1024 bytes and labels each piece."""

    @pytest.mark.parametrize("block_bytes", BLOCKS)
    @pytest.mark.parametrize("task", ["0: ", "  7: ", "127: "])
    def test_a_broken_line_is_mended_wherever_it_was_broken(
        self, write_log: WriteLog, task: str, block_bytes: int
    ) -> None:
        for before in range(1000, 1030, 3):
            text = b"x" * before + b"mark 12.625" + b"y" * 1500 + b"\n"
            path = write_log(b"9: other\n" + labelled(task, text) + labelled(task, b"mark 2\n"))
            first, second = records(path, b"mark 1", b"mark 2", wraps=True, block_bytes=block_bytes)
            assert first == (9, task.encode() + text[:-1])
            assert second[1] == task.encode() + b"mark 2"

    def test_lines_of_other_tasks_come_between(self, write_log: WriteLog) -> None:
        mine = labelled("3: ", b"x" * 1020 + b"mark 12.625\n").splitlines(keepends=True)
        theirs = labelled("4: ", b"y" * 1022 + b"mark 8.5\n").splitlines(keepends=True)
        path = write_log(mine[0] + theirs[0] + b"5: mark 7\n" + mine[1] + theirs[1])
        found = [line for _, line in records(path, b"mark", wraps=True)]
        assert [line[line.index(b"mark") :] for line in found] == [b"mark 7", b"mark 12.625", b"mark 8.5"]

    def test_a_break_within_a_character(self, write_log: WriteLog) -> None:
        path = write_log(labelled("0: ", b"x" * 1022 + "█ mark".encode() + b"\n"))
        assert records(path, b"mark", wraps=True)[0][1].endswith("█ mark".encode())

    def test_what_is_open_at_the_end_does_not_count(self, write_log: WriteLog) -> None:
        assert records(write_log(labelled("0: ", b"mark" + b"x" * 1020 + b"y" * 9)[:-13]), b"mark", wraps=True) == []

    def test_an_unlabelled_line_of_1024_bytes_is_whole(self, write_log: WriteLog) -> None:
        line = b"mark" + b"x" * 1020 + b"\n"
        assert len(records(write_log(line * 2), b"mark", wraps=True)) == 2

    def test_a_message_that_never_ends_is_told_as_it_goes(self, write_log: WriteLog) -> None:
        text = b"".join(b"\rmark %06d" % number for number in range(40_000)) + b"\n"
        path = write_log(labelled("12: ", text))
        assert len(records(path, b"mark", wraps=True)) == 40_000

    def test_nemo_bars(self, read: Read) -> None:
        text = b"".join(
            b"\r" + bar(step + 1, f"{step}.000", f"{40 + step}.50", total="20") for step in range(20)
        ) + dll(0, "4.25") + b"\n"  # fmt: skip
        log = read("nemo", labelled(" 0: ", text.replace(dll(0, "4.25"), b"")))
        assert (indexes(log), seconds(log)) == (list(range(20)), [40.5 + step for step in range(20)])
        assert seconds(read("nemo", labelled(" 0: ", text))) == [4.25]


def test_what_stands_around_a_step(read: Read) -> None:
    # CRLF and labels.
    content = b"".join(b"%3d: " % rank + maxtext(step, "4.5") for step in (0, 1) for rank in (0, 64, 127))
    assert seconds(read("maxtext", content.replace(b"\n", b"\r\n"))) == [4.5, 4.5]
    # Invalid UTF-8 around.
    assert seconds(read("megatron", b"\xff\xfe\n\xe2\x96" + megatron(1, "4250.0") + b"\xc3\n")) == [4.25]


#: A log that is read at once, and one that is not.
NOISE = pytest.mark.parametrize("noise", [b"", b"noise\n" * 200_000], ids=["small", "large"])


@pytest.fixture
def path(tmp_path: Path, noise: bytes) -> Path:
    log = tmp_path / "run.log"
    log.write_bytes(b"mark 1\n" + noise + b"mark 2\n")
    assert (log.stat().st_size > scan._AT_ONCE_BYTES) is bool(noise)
    return log


def marks(log: Path | LogFile) -> list[bytes]:
    return [record for _, record in matching_records(log, (b"mark",))]


@NOISE
def test_what_is_appended_is_not_of_the_log_that_was_opened(path: Path) -> None:
    with LogFile(path) as log:
        with path.open("ab") as file:
            file.write(b"mark 3\n")
        assert marks(log) == [b"mark 1", b"mark 2"]
        assert log.read(log.size - 4, 100) == b"k 2\n"
        assert log.read(log.size + 1, 100) == b""
    assert marks(path) == [b"mark 1", b"mark 2", b"mark 3"]


@given(
    st.lists(
        st.sampled_from([b"mark", b"step", b" a", b"\r", b"\n", b"\x1b[K", b"\x1b[0m", b"\0", b"0: "]), max_size=40
    ),
    st.integers(0, 60),
    st.integers(0, 60),
    st.booleans(),
    st.sampled_from([0, 200, 1 << 20]),
)
def test_what_is_noted_changes_no_search(pieces: list[bytes], start: int, stop: int, wraps: bool, most: int) -> None:
    with tempfile.TemporaryDirectory() as directory, patch.object(scan, "_MOST_NOTED_BYTES", most):
        log = Path(directory, "run.log")
        log.write_bytes(b"".join(pieces))
        with LogFile(log) as noted, LogFile(log) as other:
            steps = [[*matching_records(noted, (b"step",), wraps=wraps, noting=((b"mark",), (b"k",)))]]
            steps += [[*matching_records(other, (b"step",), wraps=wraps)]]
            assert steps[0] == steps[1]
            for markers in ((b"mark",), (b"k",), (b"step",)):
                found = [[*matching_records(one, markers, start=start, stop=stop)] for one in (noted, other)]
                assert found[0] == found[1]


def test_what_is_noted_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"mark 1\nstep 1\nmark 2\nstep 2\n")
    with LogFile(path) as log:
        assert len([*matching_records(log, (b"step",), noting=((b"mark",), (b"none",)))]) == 2
        with patch.object(LogFile, "read_into", side_effect=AssertionError):
            assert not [*matching_records(log, (b"none",))]
            assert [*matching_records(log, (b"mark",), start=14, stop=21)] == [(14, b"mark 2")]
            assert not [*matching_records(log, (b"mark",), stop=6)]


@NOISE
def test_two_looks_at_one_log_do_not_disturb_each_other(path: Path) -> None:
    with LogFile(path) as log:
        looks = [matching_records(log, (b"mark",)) for _ in range(2)]
        assert [[next(look)[1] for look in looks] for _ in range(2)] == [[b"mark 1"] * 2, [b"mark 2"] * 2]


@NOISE
def test_a_log_is_open_until_all_are_done_with_it(path: Path) -> None:
    with LogFile(path) as log:
        with opened(log) as same:
            assert same is log
        assert marks(log) == [b"mark 1", b"mark 2"]
    with pytest.raises(ValueError, match="closed"):
        log.read(0, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"12,500", 12500), (b"1,234,567.5", 1234567.5), (b"6,785,", 6785), (b"-1,250", -1250), (b"12.5", 12.5)],
)
def test_a_comma_divides_thousands(text: bytes, value: float) -> None:
    assert scan.number(text) == value


@pytest.mark.parametrize("text", [b"12,5", b"0,125", b"1,2345", b"1,23,456", b"1,250e+05"])
def test_another_comma_is_no_number_to_compare(text: bytes) -> None:
    assert math.isnan(scan.number(text) or 0)
