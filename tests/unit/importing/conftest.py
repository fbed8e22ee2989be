"""Documents and facts, as they are typed, become what import makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pytest_gsw.importing.document import Imported, import_document
from pytest_gsw.importing.facts import read_facts

Read: TypeAlias = Callable[..., Imported]

#: What no cell of the documents here says.
DECLARED = """\
    model: llama3
    framework: nemo
    sequence_length: 8192
    recipe: {directory: llama3, steps: 50}
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Import a document; ``facts`` are lines of its entry in facts.yaml, ``labels`` what stands below that key."""

    def read_text(text: str, facts: str = DECLARED, labels: str = "", *, checked: bool = True) -> Imported:
        document, given = tmp_path / "doc.md", tmp_path / "facts.yaml"
        document.write_text(text)
        above = f"labels:\n{labels}" if labels else ""
        given.write_text(f"{above}documents:\n  - document: doc.md\n{facts}")
        return import_document(document, read_facts(given).of("doc.md"), checked=checked)

    return read_text


def values(imported: Imported, number: int = 0) -> dict[str, str]:
    """A row's values, without its places."""
    return {key: stated.text for key, stated in imported.rows[number].values.items() if key not in {"document", "line"}}


def said(imported: Imported) -> list[str]:
    """What a reader has to look at."""
    return [f"{remark.line}: {remark.text}" for remark in imported.remarks]
