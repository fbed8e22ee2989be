"""``pytest-gsw audit``: tables and documents against themselves, digit for digit."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.cli.answer import Answer, answer_to
from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.documents.audit.report import github_report, json_report, junit_report, summary, text_report
from pytest_gsw.documents.audit.run import Source, audit
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.bundled import FACTS_FILE, bundled_baselines
from pytest_gsw.tables.load import table_files
from pytest_gsw.tables.stated import stated_rows

if TYPE_CHECKING:
    from pytest_gsw.documents.importing import DocumentFacts

_TABLES = frozenset({".yaml", ".yml"})
#: What documents are called in a directory; a file that is named itself may be called anything.
_DOCUMENTS = frozenset({".md", ".markdown"})


#: How findings may be said, perhaps strictly.
_FORMATS: Mapping[str, Callable[..., str]] = {
    "text": text_report,
    "json": lambda found, strict: json_report(found),  # noqa: ARG005 - which says all in any case
    "github": github_report,
    "junit": junit_report,
}


def run(asked: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    strict: bool = asked.strict
    found = quoted(audit(_sources(asked.paths or [bundled_baselines()])), os.environ)
    text = _FORMATS[asked.format](found, strict=strict)
    status = 1 if found.fails(strict=strict) else 0
    return answer_to(asked.output, text, summary(found), status)


def _sources(paths: Sequence[Path]) -> Iterator[Source]:
    """Every table and document that these paths stand for, each once."""
    seen: set[Path] = set()
    facts: Mapping[str, DocumentFacts] | None = None
    for path in paths:
        for file in _files(path):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            if file.suffix.lower() in _TABLES:
                shown = from_here(file)
                yield Source(str(shown), stated_rows(shown))
            else:
                facts = _facts(paths) if facts is None else facts
                yield _document(file, facts)


def _files(path: Path) -> tuple[Path, ...]:
    if not path.is_dir():
        if not path.is_file():
            raise ConfigurationError(f"there is nothing to audit at {path}: there is no such file or directory")
        return (path,)
    below = (file for file in path.rglob("*") if file.suffix.lower() in _DOCUMENTS and file.is_file())
    documents = sorted(file for file in below if not any(part[0] == "." for part in file.relative_to(path).parts))
    found = (*table_files(path), *documents)
    if not found:
        raise ConfigurationError(f"there is nothing to audit in {path}: there is no .yaml, .yml or .md file")
    return found


def _document(path: Path, facts: Mapping[str, DocumentFacts]) -> Source:
    """A document's rows and text, as the importer reads them; a ConfigurationError where it cannot."""
    # Only documents need Markdown's parser, which is an extra.
    from pytest_gsw.documents.importing import facts_of, import_document

    imported = import_document(path, facts_of(path, facts))
    shown = str(from_here(path))
    return Source(shown, tuple(replace(row, file=shown) for row in imported.documented), imported.lines)


def _facts(paths: Sequence[Path]) -> dict[str, DocumentFacts]:
    """What documents do not say: of the bundled tables, and of the directories that are audited."""
    from pytest_gsw.documents.importing import read_facts

    directories = [bundled_baselines(), *(path if path.is_dir() else path.parent for path in paths)]
    found: dict[str, DocumentFacts] = {}
    for directory in directories:
        if (directory / FACTS_FILE).is_file():
            found.update(read_facts(directory / FACTS_FILE))
    return found
