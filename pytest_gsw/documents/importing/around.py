"""What stands around a table and is about it: its captions, the text beside it, headings, and what introduces those.

The nearest statement counts. Where two at the same distance differ, nothing is taken, and the blank names both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pytest_gsw.common.words import enumerated
from pytest_gsw.documents.importing.draft import Draft
from pytest_gsw.documents.importing.labels import DTYPE, accelerator
from pytest_gsw.documents.importing.sentences import LOCAL_BATCH, Sentence
from pytest_gsw.documents.importing.titles import Title, read_title, same_model
from pytest_gsw.tables.yamlfile import Stated

#: What tells runs apart: a sentence that names another of these than the row has is about another run.
_TELLING = ("model", "size", "accelerator", "dtype", "gpus")


@dataclass(frozen=True)
class Group:
    """A paragraph with the list that it introduces, or a heading."""

    first: int
    section: int
    sentences: tuple[Sentence, ...]
    #: It names one table: the one below it.
    is_caption: bool = False
    #: It does so by a number: "Table 2: …".
    is_numbered: bool = False
    #: It is about the table above it.
    is_of_above: bool = False
    #: It is about all runs of a table.
    is_of_runs: bool = False

    @property
    def states(self) -> bool:
        """Whether it states anything of runs."""
        return any(sentence.said for sentence in self.sentences)


@dataclass(frozen=True)
class Around:
    """The text around one table, the nearest first."""

    #: What stands directly beside the table: nearer than its heading.
    beside: tuple[Group, ...] = ()
    levels: tuple[tuple[Group, ...], ...] = ()
    #: Of some keys, what the document states anywhere: farther than all levels.
    anywhere: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    #: The table has a title of its own; what is called so of another one are its heading and its captions.
    is_titled: bool = True

    def about(
        self, row: Mapping[str, str], keys: Collection[str], heading: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Stated], dict[str, str]]:
        """What it says of a row of these keys, and why nothing is said of the others that are there.

        What the row has itself decides which sentences are about it; beyond the text beside the table, its heading too.
        """
        known = dict(row)
        settled = {*row}
        found: dict[str, Stated] = {}
        differing: dict[str, str] = {}
        for level in (self.beside, *self.levels):
            if level is not self.beside:
                known = {**(heading or {}), **known}
                settled |= {*(heading or {})}
            said = _stated(sentence for group in level for sentence in _of_row(group, known))
            for key in keys:
                values = said.get(key, {}) if key not in {*settled, *found, *differing} else {}
                if len(values) == 1:
                    found |= {key: next(iter(values.values()))}
                elif values:
                    differing[key] = _differing(values.values())
            known = {**{key: next(iter(said[key])) for key in _TELLING if len(said.get(key, ())) == 1}, **known}
        known = {**(heading or {}), **known}
        for key in (key for key in keys if key not in {*known, *settled, *found, *differing}):
            of_row = (one.said[key][0] for one in self.anywhere.get(key, ()) if _is_of_row((one,), known))
            found.update((key, stated) for stated in islice(of_row, 1))
        return found, differing

    @property
    def captions(self) -> tuple[str, ...]:
        """The texts that name the table."""
        return tuple(sentence.text for group in self.beside if group.is_caption for sentence in group.sentences)

    def states(self, *keys: str) -> bool:
        """Whether any of it states one of these."""
        groups = (group for level in (self.beside, *self.levels) for group in level)
        return any(sentence.said.get(key) for group in groups for sentence in group.sentences for key in keys)


#: What the text around a table may say of its rows, beside how many GPUs they have.
SAID = (
    *("model", "size", "accelerator", "dtype", "gpus_per_node", "sequence_length"),
    *("global_batch_size", "micro_batch_size", LOCAL_BATCH, "gradient_accumulation_steps"),
    *("tp", "pp", "cp", "ep", "dp", "vp", "fsdp"),
)


#: "8x" of "DGX A100 (8xA100)".
_COUNTED = re.compile(r"[0-9][ ]?[xX\u00d7](?![0-9])")


def counted(draft: Draft, title: Title, around: Around) -> Draft:
    """The draft of a row that has no GPU count of its own, with the one that stands around its table."""
    if {"gpus", "nodes"} & {*draft.values, *draft.blanks, *draft.absent}:
        return draft
    hardware = draft.values.get("accelerator")
    if hardware is not None and (accelerator(hardware.text) is None or _COUNTED.search(hardware.text)):
        return draft.blanked("gpus", f"the row's own cell reads '{hardware.text}', and may say how many")
    found, _ = around.about(*_telling(draft, title, around, ("gpus", "nodes")))
    gpus, nodes = found.get("gpus"), found.get("nodes")
    if gpus is not None:
        draft = draft.having("gpus", gpus.text, gpus)
    if nodes is not None and (gpus is None or gpus.line == nodes.line):
        draft = draft.having("nodes", nodes.text, nodes)
    return draft


def surrounded(draft: Draft, title: Title, around: Around) -> Draft:
    """The draft with what stands around its table and is about it, where the row itself says nothing."""
    row, keys, heading = _telling(draft, title, around, SAID)
    own = {*row, *draft.values, *draft.blanks, *draft.absent}
    found, differing = around.about(row, [key for key in keys if key not in own], heading)
    for key, stated in found.items():
        draft = draft.having(key, stated.text, stated) if heading.get(key) != stated.text else draft
    for key, reason in differing.items():
        draft = draft.blanked(key, reason)
    return draft


def _telling(
    draft: Draft, title: Title, around: Around, keys: Sequence[str]
) -> tuple[dict[str, str], Sequence[str], dict[str, str]]:
    """What a row says of its model, size, dtype, accelerator and GPUs, the keys that are asked for, and its heading.

    A name such as ``+ Float8`` says what the row has in place of what the text says of all rows.
    """
    cells = {key: stated.text for key, stated in draft.values.items()}
    named, sized = read_title(cells.get("model", "")), read_title(cells.get("size", ""))
    dtype = DTYPE.search(cells.get("dtype", ""))
    row = {
        "model": named.model,
        "size": sized.size or named.size,
        "dtype": "" if "dtype" in draft.named or dtype is None else dtype[1].lower(),
        "accelerator": accelerator(cells.get("accelerator", "")) or "",
        "gpus": cells.get("gpus", ""),
    }
    heading = {
        "model": title.model,
        "size": title.size if not named.model or not title.model else "",
        "dtype": "" if "dtype" in draft.named else title.dtype,
        "accelerator": title.accelerator,
    }
    row = {key: text for key, text in row.items() if text}
    heading = {key: text for key, text in heading.items() if text and key not in row}
    return ({**heading, **row}, keys, {}) if around.is_titled else (row, keys, heading)


def _stated(sentences: Iterable[Sentence]) -> dict[str, dict[str, Stated]]:
    """What sentences state, by key and text, each where it stands first; of several runs, only which they are."""
    found: dict[str, dict[str, Stated]] = {}
    for sentence in sentences:
        several = any(len(sentence.said.get(key, ())) > 1 for key in _TELLING)
        for key in _TELLING if several else sentence.said:
            for stated in sentence.said.get(key, ()):
                if not several or len(sentence.said[key]) > 1:
                    found.setdefault(key, {}).setdefault(stated.text, stated)
    return found


def _differing(stated: Collection[Stated]) -> str:
    """``line 3 says 8 and line 5 says 16``."""
    lines = sorted({one.line for one in stated})
    return enumerated(f"line {n} says {enumerated(sorted(one.text for one in stated if one.line == n))}" for n in lines)


def _of_row(group: Group, known: Mapping[str, str]) -> Iterator[Sentence]:
    """The sentences of a group that may be about a row; none where the group is about other runs."""
    if _is_of_row(group.sentences, known):
        yield from (sentence for sentence in group.sentences if _is_of_row((sentence,), known))


def _is_of_row(sentences: Collection[Sentence], known: Mapping[str, str]) -> bool:
    """Whether sentences name no other run than the row, of which this is known."""
    return all(_agree(sentences, key, known[key]) for key in _TELLING if known.get(key))


def _agree(sentences: Collection[Sentence], key: str, value: str) -> bool:
    texts = {stated.text for sentence in sentences for stated in sentence.said.get(key, ())}
    return not texts or any(_same(key, text, value) for text in texts)


def _same(key: str, one: str, other: str) -> bool:
    if key == "model":
        return same_model(one, other)
    return one.split("-")[0].lower() == other.split("-")[0].lower()
