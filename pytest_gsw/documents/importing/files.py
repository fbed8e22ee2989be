"""Rows become YAML files to be: one file for each framework and model, and for each release where facts ask for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from pytest_gsw.documents.importing.facts import DocumentFacts, Facts
from pytest_gsw.documents.importing.model_flops import architecture_of
from pytest_gsw.documents.importing.prose import Architecture, Prose
from pytest_gsw.documents.importing.row import Row, RowFile, RowTable
from pytest_gsw.documents.importing.rows import DraftTable, Extracted
from pytest_gsw.errors import ConfigurationError


def check_facts(facts: DocumentFacts, extracted: Extracted, rows: Sequence[tuple[DraftTable, Row]]) -> None:
    """Refuse facts of what is not there: they are of another release.

    Raises:
        ConfigurationError: There is no such table or row in the document.
    """
    tables = {table.table.line for table in extracted.tables}
    lines = {(int(row.values["line"].text), int(row.values["gpus"].text or 0)) for _, row in rows}
    for line in facts.tables:
        if line not in tables:
            found = ", ".join(map(str, sorted(tables))) or "none"
            raise ConfigurationError(
                f"facts of a table at line {line}, where there is none; tables of rows are at: {found}"
            )
    for line, gpus in facts.rows:
        if not any(line == there and gpus in {None, of_gpus} for there, of_gpus in lines):
            of_gpus = "" if gpus is None else f" of {gpus} GPUs"
            raise ConfigurationError(f"facts of a row{of_gpus} at line {line}, where there is none")


def files_of(rows: Sequence[tuple[DraftTable, Row]], facts: DocumentFacts, prose: Prose) -> tuple[RowFile, ...]:
    """Rows by file: one for each framework and model, named after the workload where it has one size.

    Raises:
        ConfigurationError: There are facts of a file that is none of these.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[DraftTable, Row]]] = {}
    for table, row in rows:
        release = _text(row, "release") if facts.by_release is not None else ""
        names = (_text(row, "framework") or "unknown", _text(row, "model") or "unknown", _text(row, "log_format"))
        groups.setdefault((release, *names), []).append((table, row))
    files = []
    often = Counter(group[:3] for group in groups)
    for (release, framework, model, log_format), members in groups.items():
        sizes = {_text(row, "size") for _, row in members}
        name = f"{model}_{sizes.pop()}" if len(sizes) == 1 and "" not in sizes else model
        # A file has one log format.
        name += f"-{log_format}" if log_format and often[release, framework, model] > 1 else ""
        file = _file(f"{framework}/{name}.yaml", members, facts, prose)
        if release:
            file = replace(file, path=f"{release}/{file.path}", releases=(f"{facts.by_release}{release}",))
        files.append(file)
    for path in facts.files:
        if path not in {file.path for file in files}:
            found = ", ".join(sorted(file.path for file in files)) or "none"
            raise ConfigurationError(f"facts of a file {path}, which the document does not give; it gives: {found}")
    return tuple(sorted(files, key=lambda file: file.path))


def _file(path: str, members: Sequence[tuple[DraftTable, Row]], facts: DocumentFacts, prose: Prose) -> RowFile:
    tables: dict[int, tuple[DraftTable, list[Row]]] = {}
    for table, row in members:
        tables.setdefault(table.table.line, (table, []))[1].append(row)
    of_file = facts.files.get(path, Facts())
    whole = facts.whole
    sizes = {_text(row, "size") for _, row in members}
    built = []
    for line, (table, found) in tables.items():
        of_table = facts.tables.get(line, Facts())
        title = str(of_table.values.get("title", table.text))
        deepspeed = {row.attributes.get("ds", "") for row in found}
        if len(found) < len(table.rows) and len(deepspeed) == 1 and "" not in deepspeed:
            title += f", DS = {deepspeed.pop()}"
        section = " / ".join(table.table.headings)
        built.append(RowTable(title, line, tuple(found), of_table.comment, of_table.acknowledged, section))
    return RowFile(
        path=path,
        tables=tuple(built),
        architecture=_architecture(sizes, prose),
        activation_recomputation=prose.counts_recomputation,
        comment="\n\n".join(text for text in (whole.comment, of_file.comment) if text),
        release=str(whole.values.get("release", "")),
        releases=whole.releases,
        acknowledged={**whole.acknowledged, **of_file.acknowledged},
    )


def _architecture(sizes: Collection[str], prose: Prose) -> Architecture | None:
    """What a file has for all its rows: numbers are of one size, a formula without any is of all."""
    one, *others = sizes
    found = architecture_of("" if others else one, prose)
    return None if others and found is not None and found.numbers else found


def _text(row: Row, key: str) -> str:
    return row.values[key].text if key in row.values else ""
