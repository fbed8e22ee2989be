"""``pytest-gsw diff``: two sets of tables, such as two releases of a recipe, row by row."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pytest_gsw.cli.answer import Answer, json_answer
from pytest_gsw.common.redact import MASK, is_secret, quoted
from pytest_gsw.common.words import counted, listed, percent
from pytest_gsw.documents.diff import Change, RowChange, compare
from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.tables.blanks import blank_error
from pytest_gsw.tables.load import Table, read_tables
from pytest_gsw.tables.metrics import PERCENTAGES
from pytest_gsw.tables.model import Baseline

#: Fractions that people read as percentages.
_PERCENTAGES = PERCENTAGES | {"tolerance", "max_gain", "spread"}
#: Variables of a job, whose names tell secrets.
_VARIABLES = ("recipe.environment.", "attributes.")


def run(asked: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    before, after = _rows(asked.before), _rows(asked.after)
    changes = [_without_secrets(change) for change in compare(before, after)]
    status = 1 if changes else 0
    if asked.json:
        facts = {"before": len(before), "after": len(after), "changes": [asdict(change) for change in changes]}
        return json_answer(facts, status)
    return Answer(_text(changes, len(before), len(after)), status)


def _rows(path: Path) -> tuple[Baseline, ...]:
    """The rows of a table, of a directory of tables, or of a document that can be imported."""
    if path.is_dir() or path.suffix in {".yaml", ".yml"} or not path.exists():
        return _complete(read_tables([path]))
    return _imported(path)


def _complete(table: Table) -> tuple[Baseline, ...]:
    """The rows; a ConfigurationError where one has a blank: a row that is left out would look as if it were gone."""
    if table.blanks:
        row = table.blanks[0]
        raise ConfigurationError(f"{row.id}: {blank_error(row)}")
    return table.rows


def _imported(path: Path) -> tuple[Baseline, ...]:
    from pytest_gsw.documents.importing import import_document  # it reads Markdown, which tables need not

    with tempfile.TemporaryDirectory() as directory:
        for name, text in import_document(path).yaml_text.items():
            file = Path(directory, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        try:
            table = read_tables([Path(directory)])
        except FileError as error:
            why = f"{path} does not say all that a table needs: {error.faults[0].problem}"
        except ConfigurationError:
            why = f"there are no tables of performance in {path}"
        else:
            if not table.blanks:
                return table.rows
            row = table.blanks[0]
            why = f"{path} does not say all that a table needs, such as {row.blanks[0].key} of {row.id}"
    raise ConfigurationError(f"{why}\nnext: pytest-gsw import {path}, and compare the tables that it writes")


def _without_secrets(change: RowChange) -> RowChange:
    """A change that may be printed: a secret has changed, and that is all that is said of it."""
    configuration = {
        name: Change(*(MASK if value else value for value in (one.before, one.after)))
        if name.startswith(_VARIABLES) and is_secret(name.rpartition(".")[2])
        else one
        for name, one in change.configuration.items()
    }
    return quoted(replace(change, configuration=configuration), os.environ)


def _text(changes: Sequence[RowChange], before: int, after: int) -> str:
    if not changes:
        return f"{counted(before, 'row')}, no difference"
    table = [
        (change.id, _seconds(change.judged_s), _throughput(change), "; ".join(_details(change)))
        for change in changes
        if change.kind == "changed"
    ]
    lines = []
    if table:
        lines += [plain_table(table, "row", ">seconds", ">throughput", "changed", style="simple"), ""]
    lines += [f"{change.kind}: {change.id}" for change in changes if change.kind != "changed"]
    return "\n".join([*lines, _sum(changes, before, after)])


def _seconds(change: Change) -> str:
    if change.before == change.after:
        return "" if change.before is None else f"{change.before:.10g}"
    return f"{_value('', change.before)} -> {_value('', change.after)}"


def _throughput(change: RowChange) -> str:
    throughput = change.throughput_change
    if throughput is None or throughput == 0:
        return ""
    return f"{percent(throughput)} ({'slower' if throughput < 0 else 'faster'})"


def _details(change: RowChange) -> Iterable[str]:
    named: Mapping[str, Change] = {**change.figures, **change.configuration}
    return (f"{name} {_value(name, one.before)} -> {_value(name, one.after)}" for name, one in named.items())


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value * 100:.10g}%" if name.rpartition(".")[2] in _PERCENTAGES else f"{value:.10g}"
    return str(value)


def _sum(changes: Sequence[RowChange], before: int, after: int) -> str:
    throughputs = [change.throughput_change or 0.0 for change in changes]
    counts = {
        "slower": sum(one < 0 for one in throughputs),
        "faster": sum(one > 0 for one in throughputs),
        "otherwise changed": sum(
            change.kind == "changed" and not one for change, one in zip(changes, throughputs, strict=True)
        ),
        "removed": sum(change.kind == "removed" for change in changes),
        "added": sum(change.kind == "added" for change in changes),
    }
    return f"{counted(before, 'row')} before, {after} after: {listed(counts)}"
