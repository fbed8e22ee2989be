"""``pytest-gsw import``: recipe READMEs become baseline tables."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pytest_gsw.cli.answer import Answer, write_answer
from pytest_gsw.common.words import command, counted, shortened
from pytest_gsw.documents.audit.findings import Severity
from pytest_gsw.documents.audit.run import Source, audit
from pytest_gsw.documents.importing import (
    DocumentFacts,
    Imported,
    facts_of,
    import_card,
    import_document,
    read_facts,
)
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.bundled import FACTS_FILE, SCHEMA_FILE, schema_text
from pytest_gsw.tables.load import read_table, table_files
from pytest_gsw.tables.model import BLANK


def run(asked: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    directory: Path = asked.output
    facts = _facts(asked.facts, directory)
    read = (
        [import_card(path) for path in asked.documents]
        if asked.cards
        else [_read(path, of, asked.release) for path, of in _distinct(asked.documents, facts)]
    )
    contradictions = [_contradictions(one) for one in read]
    imported = [one.with_comments(found) for one, found in zip(read, contradictions, strict=True)]
    schema = _schema(directory)
    texts = _texts(imported, directory, schema)
    written = {name: _write(directory / name, text, overwrite=asked.overwrite) for name, (text, _) in texts.items()}
    if texts and schema.parent == directory:
        _write(schema, schema_text(), overwrite=True)  # as the tables name it, in their first lines
    kept = [name for name, state in written.items() if state == "differs"]
    lines = [line for one, found in zip(imported, contradictions, strict=True) for line in _told(one, found)]
    for name, (_, rows) in texts.items():
        lines.append(f"{directory / name}: {counted(len(rows), 'row')}, {_STATES[written[name]]}")
    alike = list(_called_alike(directory, {name: rows for name, (_, rows) in texts.items()}))
    lines += alike
    if kept:
        lines.append("next: pytest-gsw diff TABLES README.md, then the same again with --overwrite")
    if any(one.blanks for one in imported) and not asked.cards:  # of cards there are no facts
        lines.append(f"next: {command('pytest-gsw', 'rows', str(directory))} shows what to write into {FACTS_FILE}")
    empty = [one for one in imported if not one.rows]
    left = any(one.remarks or one.blanks for one in imported) or any(contradictions) or bool(alike)
    return Answer("\n".join(lines), 1 if kept or empty or (asked.strict and left) else 0)


def _read(path: Path, facts: DocumentFacts, release: str | None) -> Imported:
    if release is not None:
        facts = replace(facts, whole=replace(facts.whole, values={**facts.whole.values, "release": release}))
    return import_document(path, facts)


def _contradictions(one: Imported) -> dict[str, list[str]]:
    """What no rounding explains and is not acknowledged, by row: the figure stays, and the YAML says so."""
    found: dict[str, list[str]] = {}
    for finding in audit([Source(one.name, one.rows)]).findings:
        if finding.severity is Severity.CONTRADICTION and finding.acknowledged is None and finding.row is not None:
            text = f"{finding.identity}: {finding.documented} as documented; {finding.formula} is {finding.computed}"
            found.setdefault(finding.row, []).append(f"{text} ({finding.explanation.text}; line {finding.line})")
    return found


_STATES = {
    "written": "written",
    "unchanged": "unchanged",
    "replaced": "replaced",
    "differs": "NOT written: the file is there and differs",
}


def _distinct(documents: Sequence[Path], facts: Mapping[str, DocumentFacts]) -> Sequence[tuple[Path, DocumentFacts]]:
    """The documents and their facts; rows say whose they are by the document's name alone."""
    seen: dict[str, tuple[Path, DocumentFacts]] = {}
    for path in documents:
        of = facts_of(path, facts)
        other = seen.setdefault(of.name, (path, of))[0]
        if path.resolve() != other.resolve():
            raise ConfigurationError(
                f"{other} and {path} have the same name, by which rows say where they come from\n"
                f"next: import them one after the other, each into a directory of its own; or name more of their paths "
                f"in {FACTS_FILE}, such as {{document: {'/'.join(path.absolute().parts[-2:])}}}"
            )
    return list(seen.values())


def _facts(given: Path | None, directory: Path) -> dict[str, DocumentFacts]:
    if given is not None:
        return dict(read_facts(given))
    beside = directory / FACTS_FILE
    return dict(read_facts(beside)) if beside.is_file() else {}


def _schema(directory: Path) -> Path:
    """Where the tables' JSON Schema is to be: beside them, or in the directory of tables that this one is part of."""
    above = (place / SCHEMA_FILE for place in directory.absolute().parents)
    found = next((path for path in above if path.is_file()), None)
    return found if found is not None else directory / SCHEMA_FILE


def _texts(imported: Sequence[Imported], directory: Path, schema: Path) -> dict[str, tuple[str, Sequence[str]]]:
    """The YAML files by name, with their rows' ids; a name that two documents give gets the document's behind it."""
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for one in imported:
        yaml_text = one.yaml_text
        for file in one.files:
            name = file.path
            if name in found:
                stem = re.sub(r"[^a-z0-9._-]+", "-", Path(one.name).stem.lower()).strip("-.")
                base = f"{PurePosixPath(name).with_suffix('')}-{stem}"
                names = (f"{base}.yaml", *(f"{base}-{number}.yaml" for number in range(2, len(imported) + 1)))
                name = next(name for name in names if name not in found)
            there = os.path.relpath(schema, (directory / name).parent)
            text = yaml_text[file.path].replace(f"$schema=../{SCHEMA_FILE}", f"$schema={there}", 1)
            found[name] = (text, [row.id for table in file.tables for row in table.rows])
    return found


def _called_alike(directory: Path, written: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What to say of rows that are called as rows of another table: a session would refuse both tables."""
    tables = {directory / name: rows for name, rows in written.items()}
    taken = {row: path for path in _others(directory, set(tables)) for row in _ids(path)}
    for path, rows in tables.items():
        alike: dict[Path, list[str]] = {}
        for row in (row for row in rows if BLANK not in row):
            if taken.setdefault(row, path) != path:
                alike.setdefault(taken[row], []).append(row)
        for other, same in alike.items():
            told = f"{counted(len(same), 'row')} called as in {other}, such as {same[0]}"
            yield f"look at {path}: {told}: a session takes one of these tables, not both"


def _others(directory: Path, written: Collection[Path]) -> Sequence[Path]:
    try:
        return [path for path in table_files(directory) if path not in written]
    except ConfigurationError:
        return []  # a session says what is wrong there


def _ids(path: Path) -> Sequence[str]:
    try:
        table = read_table(path)
    except ConfigurationError:
        return []
    return [*(row.id for row in table.rows), *(row.id for row in table.blanks)]


def _write(path: Path, text: str, *, overwrite: bool) -> str:
    """Write one table, and say what came of it; figures that clusters have accepted stay in it."""
    try:
        there = path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is there and cannot be read: {error}") from None
    if there is None:
        write_answer(path, text.rstrip("\n"))
        return "written"
    accepted = _accepted(there)
    text = text + accepted
    if there == text:
        return "unchanged"
    if not overwrite:
        return "differs"
    write_answer(path, text.rstrip("\n"))
    return "replaced"


def _accepted(text: str) -> str:
    """The part of a table that lists accepted figures, with what stands right before it; it is the last one."""
    match = re.search(r"^\n?(?:#[^\n]*\n)*accepted:.*\Z", text, re.MULTILINE | re.DOTALL)
    return match[0] if match else ""


def _told(one: Imported, contradictions: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What a reader must know of one document: what was left out, what was not taken as it stands, what is missing."""
    yield f"{one.name}: {counted(len(one.rows), 'row')}"
    for table in one.joined:
        rows = counted(table.rows, "row")
        yield f"  joined     line {table.line}: the settings of '{shortened(table.title, 60)}' to {rows}"
    for part in one.left_out:
        title = f" '{shortened(part.title, 60)}'" if part.title else ""
        yield f"  left out   line {part.line}: the {part.what}{title} {part.reason}"
    for row, remark in one.remarks:
        of = f"{row}, " if row else ""
        yield f"  look at    line {remark.line}: {of}{remark.key}: {shortened(remark.message, 200)}"
    for row, texts in contradictions.items():
        yield from (f"  look at    {row}, {shortened(text, 240)}" for text in texts)
    blanks: dict[tuple[str, str, str], list[str]] = {}
    for file, row, key, reason in one.blanks:
        blanks.setdefault((file, key, reason), []).append(row)
    for (file, key, reason), of_rows in blanks.items():
        number = f"{len(of_rows)} rows" if len(of_rows) > 1 else of_rows[0]
        yield f"  fill in    {file}: {key} of {number}: {reason}"
