"""``pytest-gsw import``: documents become baseline tables; ``--check`` computes their figures from each other."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from pytest_gsw.cli.output import Answer, write_answer
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import command, enumerated, plural, shortened
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.arithmetic import Finding, findings
from pytest_gsw.importing.cards import import_card
from pytest_gsw.importing.document import Imported, import_document
from pytest_gsw.importing.facts import AllFacts, read_facts
from pytest_gsw.importing.rows import RowFile
from pytest_gsw.importing.writer import flow_text
from pytest_gsw.tables import bundled, load, stated_rows

_CARD = "card.yaml"
_DIFFERS = "NOT written: the file is there and differs"


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if args.check:
        return _check(args)
    if args.output is None:
        raise ConfigurationError("-o says which directory the tables go to\nnext: add -o DIR, or --check to write none")
    return _import(args)


def _facts(args: argparse.Namespace) -> AllFacts:
    own = args.output / bundled.FACTS_FILE if args.output is not None else None
    return read_facts(args.facts or (own if own is not None and own.is_file() else None))


# ---- Tables out of documents -----------------------------------------------------------------------


def _import(args: argparse.Namespace) -> Answer:
    directory: Path = args.output
    imported = _import_documents(args)
    schema = _schema(directory)
    texts = _texts(imported, directory, schema)
    written = {name: _write(directory / name, text, overwrite=args.overwrite) for name, (text, _) in texts.items()}
    if texts and schema.parent == directory:
        _write(schema, bundled.schema_text(), overwrite=True)  # as the tables name it, in their first lines
    kept = [name for name, state in written.items() if state == _DIFFERS]
    lines = [line for one in imported for line in _document_lines(one)]
    unnamed = [line for one in imported for line in _missing_names(one)]
    lines += unnamed
    for name, (_, rows) in texts.items():
        lines.append(f"{directory / name}: {plural(len(rows), 'row')}, {written[name]}")
    blanks = [blank for one in imported for blank in one.blanks]
    if kept:
        lines.append("next: commit the tables, the same again with --overwrite, then git diff")
    facts: Path = args.facts or directory / bundled.FACTS_FILE
    if unnamed or any(one.add for document in imported for one in document.remarks):
        make = "" if facts.parent.is_dir() else f"{command('mkdir', '-p', str(facts.parent))}, then "
        where = f"{facts}, at their documents (labels at its top)"
        lines.append(f"next: {make}write the lines behind 'add' into {where}, and import again")
    if blanks and texts and not args.cards:  # of cards there are no facts
        lines.append(f"next: {command('pytest-gsw', 'rows', str(directory))} shows what to write into {facts}")
    empty = [one for one in imported if not one.rows]
    left = any(one.remarks for one in imported) or blanks
    return Answer("\n".join(lines), 1 if kept or empty or unnamed or (args.strict and left) else 0)


def _import_documents(args: argparse.Namespace) -> list[Imported]:
    """The imported documents; those of a directory without rows are left out."""
    if args.cards:
        paths = [path for given in args.documents for path in (sorted(given.rglob(_CARD)) or [given])]
        cards = [import_card(path) for path in paths]
        return [one for one in cards if one.files or len(cards) == 1]
    facts, found = _facts(args), []
    for path, name in _named_documents(args.documents, facts):
        document = import_document(path, facts.of(name, args.labels, args.release))
        found += [document] if document.rows or path in args.documents else []
    if not found:
        raise ConfigurationError(f"no README with tables of training below {', '.join(map(str, args.documents))}")
    return found


def _documents_in(directory: Path, facts: AllFacts) -> Iterator[Path]:
    """The documents of a directory: those that facts name, or else its READMEs."""
    named = [directory / name for name in facts.documents if (directory / name).is_file()]
    readmes = (path for path in sorted(directory.rglob("*.md")) if path.name.lower().startswith("readme"))
    yield from named or readmes


def _named_documents(given: Iterable[Path], facts: AllFacts) -> Iterator[tuple[Path, str]]:
    """The documents, each with the end of its path in the facts, or with the shortest unique end."""
    paths = [path for place in given for path in (_documents_in(place, facts) if place.is_dir() else [place])]
    parts = {path: Path(os.path.realpath(path)).parts for path in paths}
    for path, own in parts.items():
        ends = ["/".join(own[-count:]) for count in range(1, len(own) + 1)]
        known = next((end for end in reversed(ends) if end in facts.documents), None)
        others = [other for other in parts.values() if other != own and other[-1] == own[-1]]
        alone = next(n for n in range(1, len(own) + 1) if all(other[-n:] != own[-n:] for other in others))
        yield path, known or ends[alone - 1]


def _schema(directory: Path) -> Path:
    """The path of the tables' JSON Schema: next to them, or in the directory of tables that contains this one."""
    above = (place / bundled.SCHEMA_FILE for place in directory.absolute().parents)
    found = next((path for path in above if path.is_file()), None)
    return found if found is not None else directory / bundled.SCHEMA_FILE


def _texts(imported: Sequence[Imported], directory: Path, schema: Path) -> dict[str, tuple[str, Sequence[str]]]:
    """The YAML files by name, with their rows' ids; a name that two documents give gets the document's behind it."""
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for one in imported:
        yaml_text = one.yaml_text
        for file in filter(_is_named, one.files):
            name = file.path
            if name in found:
                stem = re.sub(r"[^a-z0-9._-]+", "-", str(PurePosixPath(one.name).with_suffix("")).lower()).strip("-.")
                base = f"{PurePosixPath(name).with_suffix('')}-{stem}"
                names = (f"{base}{number}.yaml" for number in ("", *(f"-{n}" for n in range(2, len(imported) + 1))))
                name = next(name for name in names if name not in found)
            there = os.path.relpath(schema, (directory / name).parent)
            text = yaml_text[file.path].replace(f"$schema=../{bundled.SCHEMA_FILE}", f"$schema={there}", 1)
            found[name] = (text, [row.id for row in file.rows])
    return found


def _is_named(file: RowFile) -> bool:
    """True if its rows have a model and a framework, the names of a table and its directory."""
    first = file.rows[0]
    return bool(first.text("model") and first.text("framework"))


def _missing_names(one: Imported) -> Iterator[str]:
    """Lines on the facts that rows of a document need for a table."""
    rows = [row for file in one.files if not _is_named(file) for row in file.rows]
    missing = [key for key in ("model", "framework") if any(not row.text(key) for row in rows)]
    if missing:
        names = enumerated(missing)
        yield f"{one.name}: {plural(len(rows), 'row')}, NOT written: no cell and no fact has the {names}"
        to_add = [f"{key}: NAME" for key in missing]
        lines = (
            to_add if one.is_declared else [f"documents: [{{document: {flow_text(one.name)}, {', '.join(to_add)}}}]"]
        )
        yield from (f"             add {line}" for line in lines)


def _write(path: Path, text: str, *, overwrite: bool) -> str:
    """Write one table unless a different one is there; the result in a word."""
    try:
        there = path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is there and cannot be read: {error}") from None
    if there is not None:
        if there == text:
            return "unchanged"
        if not overwrite:
            return _DIFFERS
    write_answer(path, text.rstrip("\n"))
    return "written" if there is None else "replaced"


def _document_lines(one: Imported) -> Iterator[str]:
    """Lines on one document: parts that are not read, refused or missing."""
    why = "" if one.rows else ": no table has a column of GPUs and one of a figure; docs/importing.md says what is read"
    yield f"{one.name}: {plural(len(one.rows), 'row')}{why}"
    for part in one.left_out:
        yield f"  left out   line {part.line}: {shortened(part.text, 200)}"
    for remark in one.remarks:
        yield f"  look at    line {remark.line}: {shortened(remark.text, 240)}"
        yield from [f"             add {remark.add}"] if remark.add else []
    named = {file.path: f"{file.path}: " for file in one.files if _is_named(file)}
    blanks = grouped([((named.get(file, ""), key, reason), row) for file, row, key, reason in one.blanks])
    for (where, key, reason), of_rows in blanks.items():
        number = f"{len(of_rows)} rows" if len(of_rows) > 1 else of_rows[0]
        yield f"  fill in    {where}{key} of {number}: {reason}"


# ---- Arithmetic alone ------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> Answer:
    rows = list(_rows_of(args))
    found = sorted(findings(rows), key=lambda one: (one.file, one.line))
    new = [one for one in found if one.must_be_settled]
    small = [one for one in found if not one.is_contradiction and not one.acknowledged]
    shown = [one for one in found if args.strict or one not in small]
    lines = [f"{one.file}:{one.line}: {one.row}: {one.text}{_why(one)}" for one in shown]
    acknowledged = len(found) - len(new) - len(small)
    counts = f"{plural(len(new), 'contradiction')}, {len(small)} off by less than 0.25 %, {acknowledged} acknowledged"
    lines.append(f"{plural(len(rows), 'row')}: {counts}")
    if new:
        lines.append(f"next: put it right, or say at the row why it stays: {new[0].line_to_add}")
    return Answer("\n".join(lines), 1 if new or (args.strict and small) else 0)


def _why(finding: Finding) -> str:
    if finding.acknowledged:
        return f" (acknowledged: {finding.acknowledged})"
    return "" if finding.is_contradiction else " (less than 0.25 % off)"


def _rows_of(args: argparse.Namespace) -> Iterator[stated_rows.StatedRow]:
    facts = _facts(args)
    tables: dict[Path, None] = {}
    documents: list[Path] = []
    for given in args.documents:
        is_table = given.suffix in {".yaml", ".yml"}
        tables |= dict.fromkeys(load.table_files(given) if given.is_dir() or is_table else ())
        documents += [] if is_table else [given]
    for path in tables:
        yield from stated_rows.stated_rows(path)
    for path, name in _named_documents(documents, facts):
        yield from import_document(path, facts.of(name, args.labels, args.release), checked=False).rows
