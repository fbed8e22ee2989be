"""Damaged inputs for an hour: import, arithmetic, table loading and log parsing refuse them in words or read what is there.

    python tests/fuzz.py --seconds 3600 --seed 1 --keep DIR
    python tests/fuzz.py --seconds 3600 --only import

A run says how many inputs each reader got and how many it refused. An input after which a reader raised anything
but its own error, said a figure that its document does not hold, or took more than ten seconds, is kept in DIR and
ends the run with status 1. It is no test that CI runs: the properties in tests/unit are the short form of it.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pytest_gsw.ageing.patch import accepted_text
from pytest_gsw.errors import ConfigurationError, LogError
from pytest_gsw.importing.arithmetic import findings
from pytest_gsw.importing.cells import FIGURES
from pytest_gsw.importing.document import import_document
from pytest_gsw.importing.facts import read_facts
from pytest_gsw.importing.markdown import read_document
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import detect_format, last_step, read_log
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, table_files
from pytest_gsw.tables.load import read_table as read_whole_table
from pytest_gsw.tables.stated import stated_rows
from tests.truth.cases import cases
from tests.truth.model import Case
from tests.unit.tables.texts import ENTRY, TINY

ROOT = Path(__file__).parent
SLOW_S = 10.0
LABELS = read_facts(None)

#: Pieces that are put in: syntax of Markdown, YAML and logs, odd numbers, characters that are not what they seem.
PIECES = [
    *("|", "||", "\\|", "---|---|", "\n", "\r", "\r\n", "\t", "#", "```", "**", "<table>", "&nbsp;", "`"),
    *("0", "9", "1e400", "-1", "nan", "inf", "1,2,3", "%", ".", "..", "OOM", "NA", "x H100 GPUs", "FP8", "TP=0"),
    *("{", "}", "[", "]", ":", ": ", ",", "&a", "*a", "!!python/object", "null", "~", '"', "'", "- ", "? "),
    *("train_step_timing in s=", "completed step: ", "seconds: ", "took ", "global_step=", "iteration ", "nan"),
    *("<tr>", "</tr>", "<td>", "</td>", "<th>", "</table>", "<!--", "-->", "<details>", "~~", "[^1]", "<sup>1</sup>"),
    *('<td colspan="1000000000">', '<td rowspan="0">', '<th colspan="2">', "<table>" * 40, "&#52;", "<br>"),
    *("(", ")", " ms", "k", " ± 0.1", "4,5", "1.234,5", "12 (11)", "TP=2", "GBS=64", "8k", "2x8", "16 nodes"),
    *(" on 64 H100 GPUs ", " in FP8 ", "Sequence length 8192", "Step time (s)", "Tokens/s/GPU", "Average", "MaxText"),
    *("\x00", "\x1b[31m", "\u202e", "\ufeff", "\u2028", "\u00b2", "\u0663", "\uff17", "\ud83d\ude00"),
]

HTML = """<table><thead><tr><th rowspan="2">GPUs</th><th colspan="2">Batch</th><th rowspan="2">Step</th></tr>
<tr><th>GBS</th><th>MBS</th></tr></thead><tr><td rowspan=2>8</td><td>64</td><td>1</td><td>2.5</td></tr>
<tr><td>128</td><td>2</td><td>5.0</td></tr></table>
"""
DIGITS = re.compile(rb"[0-9][0-9.,]*")


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A copy with one to twelve damages."""
    for _ in range(rng.randint(1, 12)):
        at = rng.randrange(len(content) + 1)
        kind = rng.randrange(9)
        if kind == 0:
            content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + content[at + rng.randint(1, 40) :]
        elif kind == 2:
            piece = rng.choice(PIECES).encode("utf-8", "surrogatepass")
            content = content[:at] + piece * rng.choice((1, 1, 1, 2, 50)) + content[at:]
        elif kind == 7:
            content = DIGITS.sub(lambda digits: other_digits(digits[0], rng), content)
        elif kind == 8:
            content = content[:at] + rng.choice(PIECES).encode("utf-8", "surrogatepass") * 3000 + content[at:]
        else:
            content = b"\n".join(damaged_lines(content.split(b"\n"), kind, rng))
    return content


def other_digits(number: bytes, rng: random.Random) -> bytes:
    """Most numbers as they are; the others with two neighbours swapped, another separator, or a unit."""
    at = rng.randrange(len(number))
    kind = rng.randrange(120)
    if kind == 0:
        return number[:at] + number[at + 1 : at + 2] + number[at : at + 1] + number[at + 2 :]
    if kind == 1:
        return number.translate(bytes.maketrans(b".,", b",."))
    return number + rng.choice((b" ms", b"k", b"%", b"*", b" (1)")) if kind == 2 else number


def damaged_lines(lines: list[bytes], kind: int, rng: random.Random) -> list[bytes]:
    """Lines with one of them lost, doubled, moved, or with a cell lost."""
    n = rng.randrange(len(lines))
    if kind == 3:
        return lines[:n] + lines[n + rng.randint(1, 5) :] or [b""]
    if kind == 4:
        return [*lines[:n], lines[n], *lines[n:]]
    if kind == 5:
        lines[n], lines[n - 1] = lines[n - 1], lines[n]
        return lines
    cells = lines[n].split(b"|")
    del cells[rng.randrange(len(cells))]
    return [*lines[:n], b"|".join(cells), *lines[n + 1 :]]


def read_readme(path: Path) -> None:
    """Import by each family of labels, check that each figure stands in a cell of its line, load what was written."""
    cells = {cell.line: "" for table in read_document(path).tables for row in table.rows for cell in row}
    for table in read_document(path).tables:
        for cell in (cell for row in table.rows for cell in row):
            cells[cell.line] += f" {cell.text}"
    for family in LABELS.families:
        found = import_document(path, LABELS.of("doc.md", family))
        for row in found.rows:
            for key in FIGURES & row.values.keys():
                stated = row.values[key]
                digits = re.sub(r"[eE].*|\D", "", stated.text).strip("0")
                assert digits in re.sub(r"[^0-9 ]", "", cells[stated.line]), f"{row.id}: {key} {stated}"
        for name, text in found.yaml_text.items():
            path.with_name("table.yaml").write_text(text, encoding="utf-8")
            table_read = read_whole_table(path.with_name("table.yaml"))
            blank = {row for file, row, *_ in found.blanks if file == name}
            assert {row.id for row in table_read.blanks} == blank, (
                f"{ {row.id for row in table_read.blanks} ^ blank }\n{text}"
            )


def read_table(path: Path) -> None:
    """Load a table, and compute its figures again."""
    load_table(path)
    list(findings(stated_rows(path)))


def read_accepted(path: Path) -> None:
    """Load accepted figures, and write them whole: they are the same."""
    table = path.with_name("a.yaml")
    table.write_text(TINY, encoding="utf-8")
    rows = load_table(table)
    path.write_text(accepted_text(table, []), encoding="utf-8")
    assert load_table(table) == rows, "other figures were written than were read"


def read_given_facts(path: Path) -> None:
    """Load facts."""
    read_facts(path)


def read_any_log(path: Path) -> None:
    """Read a log as each format does."""
    for log_format in FORMATS.values():
        try:
            log = read_log(path, log_format)
            last_step(path, log_format)
        except LogError:
            continue
        assert log.steps, "a log without steps was read"
    detect_format(path)


def corpus() -> dict[str, tuple[list[bytes], str, Callable[[Path], None]]]:
    """Whole inputs by reader, the name of the file that a reader gets, and the reader."""
    tables = [path.read_bytes() for path in table_files(bundled_baselines())]
    return {
        "import": (documents(), "doc.md", read_readme),
        "tables": (tables, "t.yaml", read_table),
        "accepted": (
            [f"accepted:\n{ENTRY}{ENTRY.replace('eos', 'selene')}".encode()],
            "a.accepted.yaml",
            read_accepted,
        ),
        "facts": ([(bundled_baselines() / "facts.yaml").read_bytes()], "facts.yaml", read_given_facts),
        "logs": (logs(), "run.log", read_any_log),
    }


def documents() -> list[bytes]:
    """The tables of documents whose rows are bundled, and small ones in HTML, with spans."""
    return [path.read_bytes() for path in sorted((ROOT / "documents").glob("*.txt"))] + [HTML.encode()]


def logs() -> list[bytes]:
    """Logs of every format, short ones, by the self-test's writers."""
    written = (case.log for case in cases(seed=1, rounds=1) if isinstance(case, Case) and case.log)
    return [log for log in written if len(log) < 60_000][:400]


def main() -> int:
    """Run until the time is over or an input was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    parser.add_argument("--only", help="one reader instead of all")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)  # noqa: S311 - damage, not cryptography
    given, refused = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        readers = {name: reader for name, reader in corpus().items() if asked.only in (None, name)}
        end = time.monotonic() + asked.seconds
        while time.monotonic() < end:
            reader = rng.choice(list(readers))
            whole, file, read = readers[reader]
            content = damaged(rng.choice(whole), rng)
            path = folder / file
            path.write_bytes(content)
            given[reader] += 1
            start = time.process_time()  # not the clock, which runs on while others have the processor
            try:
                read(path)
            except (ConfigurationError, LogError):
                refused[reader] += 1
            except BaseException:
                return found(asked.keep, reader, file, content, traceback.format_exc(), given)
            if time.process_time() - start > SLOW_S:
                why = f"took {time.process_time() - start:.1f} s of CPU"
                return found(asked.keep, reader, file, content, why, given)
    for reader, number in given.items():
        print(f"{reader:<8} {number:>9,} inputs, {refused[reader]:>9,} refused")
    print(f"{sum(given.values()):,} inputs in {asked.seconds:,.0f} s, seed {asked.seed}: nothing found")
    return 0


def found(keep: Path, reader: str, file: str, content: bytes, why: str, given: Counter[str]) -> int:
    """Keep the input, and say what happened."""
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / f"{reader}-{file}"
    path.write_bytes(content)
    print(f"{why[:3000]}\n{reader}: {path}, after {sum(given.values()):,} inputs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
