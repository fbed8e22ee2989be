"""The sequence length of a table's rows: the document's, or the one that their own figures leave."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from pytest_gsw.documents.audit.written import Span, read_written
from pytest_gsw.documents.importing.draft import Draft
from pytest_gsw.documents.importing.prose import Prose
from pytest_gsw.documents.importing.row import UNSAID
from pytest_gsw.documents.importing.titles import Title
from pytest_gsw.tables.metrics import STEP_TIME, TOKENS_PER_S, TOKENS_PER_S_PER_GPU
from pytest_gsw.tables.yamlfile import Stated

#: Step times of two digits give a sequence length to within some percent; another one is half or twice as long.
_NEAR = Fraction(1, 10)
#: What shows a sequence length tells it within two percent, so that one of another length fits by chance once in fifty.
_TELLING = Fraction(102, 100)


@dataclass(frozen=True)
class _Given:
    """The sequence lengths that a row's throughput, step time and batch may be of."""

    value: Fraction
    span: Span
    #: ``256000 * 2.048 / 128``.
    formula: str
    at: Stated

    @property
    def shown(self) -> int | None:
        """The one power of two that the digits leave."""
        powers = [2**n for n in range(9, 21) if Fraction(2**n) in self.span]
        return powers[0] if len(powers) == 1 and self.span.high <= self.span.low * _TELLING else None

    def agrees_with(self, length: int) -> bool:
        """Whether it is of this sequence length to within two percent."""
        return self.span.overlap(Span(length / _TELLING, length * _TELLING)) is not None


@dataclass(frozen=True)
class _Proof:
    """A sequence length that the figures of a row show."""

    row: Draft
    length: int
    equation: str
    at: Stated

    def taken(self, draft: Draft, instead: str) -> Draft:
        """A draft with it, where the document says nothing, or something else."""
        whose = "" if draft is self.row else f" in the row of {_scale(self.row)}"
        message = f"{instead}: it is {self.length}, as {self.equation}{whose}"
        return draft.having("sequence_length", str(self.length), self.at).remarked("sequence_length", message, self.at)


def with_sequence_lengths(drafts: Sequence[Draft], title: Title, prose: Prose) -> list[Draft]:
    """The drafts of a table with the sequence length of the document's notes, or of their own figures.

    Where nothing states it, a row's figures may leave one alone. It is that of all such rows of its table, unless the
    figures of one of them say otherwise.
    """
    stated = [_stated(draft, title, prose) for draft in drafts]
    found = [
        draft.having("sequence_length", one.text, one) if isinstance(one, Stated) else draft
        for draft, one in zip(drafts, stated, strict=True)
    ]
    unsaid = {number: one for number, one in enumerate(stated) if isinstance(one, str)}
    given = {number: one for number in unsaid if (one := _given(drafts[number])) is not None}
    proofs = {
        number: _Proof(drafts[number], one.shown, f"{one.formula} = {one.shown}", one.at)
        for number, one in given.items()
        if one.shown is not None
    }
    known = {draft.values["sequence_length"].text for draft in found if "sequence_length" in draft.values}
    of_table = _of_table(list(proofs.values()), list(given.values()), known)
    for number, instead in unsaid.items():
        draft = drafts[number]
        near = (one for one in of_table if number in given or _run(one.row) == _run(draft))
        proof = proofs.get(number) or next(near, None)
        if proof is not None:
            found[number] = proof.taken(draft, instead)
        elif instead != UNSAID:
            reason = f"{instead}, and the row's throughput gives {float(given[number].value):.0f}"
            found[number] = draft.blanked("sequence_length", reason)
    return found


def _of_table(proofs: Sequence[_Proof], given: Sequence[_Given], known: Collection[str]) -> Sequence[_Proof]:
    """The rows that show the one sequence length of their table; none where it may have several."""
    lengths = {proof.length for proof in proofs}
    if len(lengths) != 1 or {*known} - {str(proofs[0].length)}:
        return []
    all_agree = all(one.agrees_with(proofs[0].length) for one in given)
    return [proof for proof in proofs if not proof.row.doubt] if all_agree else []


def _stated(draft: Draft, title: Title, prose: Prose) -> Stated | str | None:
    """What the document's notes say of a row, or why they say nothing; ``None`` where there is no question.

    An example's is of the example: where the row's own throughput gives another one, it is not the row's.
    """
    if not draft.values or "sequence_length" in {*draft.values, *draft.blanks}:
        return None
    size = draft.values["size"].text if "size" in draft.values else title.size
    notes = {one.sequence_length for one in prose.architectures if one.sequence_length and one.size in {size, ""}}
    example = prose.example_sequence_length
    if len(notes) == 1 or example is None:
        return notes.pop() if len(notes) == 1 else UNSAID
    given = _given(draft)
    if given is None or abs(given.value / int(example.text) - 1) <= _NEAR:
        return example
    return f"the example has {example.text} (line {example.line})"


def _given(draft: Draft) -> _Given | None:
    """What tokens/s * step time / global batch size leaves of a row's sequence length; ``None`` without all three."""
    rate = TOKENS_PER_S.key if TOKENS_PER_S.key in draft.values else TOKENS_PER_S_PER_GPU
    keys = [rate, STEP_TIME.key, "global_batch_size", *(["gpus"] if rate == TOKENS_PER_S_PER_GPU else [])]
    texts = [draft.values[key].text for key in keys if key in draft.values]
    numbers = [number for text in texts if (number := read_written(text)) is not None and number.value > 0]
    if len(numbers) < len(keys):
        return None
    measured, seconds, batch, *gpus = numbers
    counts = prod(one.value for one in gpus) / batch.value
    low = measured.either.low * seconds.either.low * counts
    high = measured.either.high * seconds.either.high * counts
    formula = f"{' * '.join((*texts[:1], *texts[3:], texts[1]))} / {texts[2]}"
    return _Given(measured.value * seconds.value * counts, Span(low, high), formula, draft.values[keys[0]])


def _run(draft: Draft) -> tuple[object, ...]:
    """What a table may tell its runs apart by, besides their scale: rows of others may have other sequence lengths."""
    words = {name: text for name, text in draft.attributes.items() if re.search(r"[A-Za-z]", text)}
    return (*(draft.values[key].text if key in draft.values else "" for key in ("model", "size", "variant")), words)


def _scale(draft: Draft) -> str:
    """How a reader finds a row in its table."""
    key = "gpus" if "gpus" in draft.values else "nodes"
    return f"{draft.values[key].text} {'GPUs' if key == 'gpus' else key}" if key in draft.values else "other figures"
