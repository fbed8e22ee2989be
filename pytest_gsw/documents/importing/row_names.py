"""What the name of a row states of its run: ``+ Float8``, ``TP=2 PP=1``, ``2 nodes`` below "Configuration"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pytest_gsw.documents.importing.around import SAID
from pytest_gsw.documents.importing.draft import Draft
from pytest_gsw.documents.importing.markdown import Cell
from pytest_gsw.documents.importing.sentences import said_in

#: Columns that name how a run was made.
_NAMING = re.compile(
    r"(?<![a-z])(?:config\w*|techniques?|parallelisms?|settings?|strateg(?:y|ies)|methods?|runs?|cases?|experiments?|"
    r"set-?ups?|variants?|names?|optimi[sz]ations?|recipes?|modes?)(?![a-z])",
    re.IGNORECASE,
)
_KEYS = ("gpus", "nodes", *SAID)


def names_runs(header: str) -> bool:
    """Whether a column that has no key of its own says how its runs were made."""
    return _NAMING.search(header) is not None


def with_names(rows: Sequence[tuple[Draft, Sequence[Cell]]]) -> list[Draft]:
    """Drafts with what their names state, where no column of the table does.

    Where a name only adds to the one above it, what that one has added may hold for it, too: blank. So is the GPU count
    of a row whose name says none, where another one's says one.
    """
    said = [said_in(", ".join(cell.text for cell in names)) for _, names in rows]
    counted = {key for one in said for key in one} & {"gpus", "nodes"}
    found: list[Draft] = []
    added: dict[str, str] = {}
    for (draft, names), stated in zip(rows, said, strict=True):
        own = {*draft.values, *draft.blanks, *draft.absent}
        text = names[0].text if names else ""
        for key in (key for key in _KEYS if key in stated and key not in own):
            if len(stated[key]) == 1:
                draft = draft.having(key, stated[key][0], names[0])
            else:
                draft = draft.blanked(key, f"the row's name is '{text}'")
        adds = text.startswith("+")
        if adds:
            for key, name in added.items():
                if key not in stated and key not in own:
                    draft = draft.blanked(key, f"the row's name is '{text}', and '{name}' stands above it")
            added |= dict.fromkeys(stated, text)
        if counted and not {"gpus", "nodes"} & {*stated, *own}:
            draft = draft.blanked("gpus", f"the row's name is '{text}', and those of other rows say how many")
        found.append(replace(draft, named=frozenset(stated) - own))
    return found
