"""A row's own identities decide before it is written: what they prove is taken, what they refute is left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pytest_gsw.documents.importing.contradictions import BATCH, decided
from pytest_gsw.documents.importing.draft import Draft, Remark
from pytest_gsw.documents.importing.labels import JUDGED
from pytest_gsw.documents.importing.model_flops import Chosen, KnownFlops, model_flops
from pytest_gsw.documents.importing.prose import Prose
from pytest_gsw.documents.importing.row import FACT
from pytest_gsw.tables.yamlfile import Stated

_SETTINGS = frozenset({BATCH, "sequence_length"})


def settled(
    values: Mapping[str, Stated],
    draft: Draft,
    prose: Prose,
    acknowledged: Collection[str],
    impossible: Collection[str],
    of_others: KnownFlops,
) -> tuple[dict[str, Stated], Draft, tuple[Remark, ...]]:
    """The values and their draft with what the row's identities prove and without what they refute; remarks on both.

    Contradictions that facts acknowledge stay as documented; ``impossible`` values are left out elsewhere;
    ``of_others`` is what other rows of the document say of model FLOPs.
    """
    known = {key: stated for key, stated in values.items() if key not in impossible}
    if prose.counts_recomputation:
        known["activation_recomputation"] = Stated("true", FACT, 1)
    is_given = "model_flops" in values or "gpus" not in values
    flops = Chosen() if is_given else model_flops(known, prose, acknowledged, of_others)
    assumed = {} if flops.flops is None else {"model_flops": flops.flops}
    found = decided({**known, **assumed}, acknowledged)
    wrong = {**found.refuted, **found.doubted}
    if not JUDGED & values.keys() - wrong.keys():
        # The row cannot run before a reader decides; until then its settings are the document's.
        wrong = {key: reason for key, reason in wrong.items() if key not in _SETTINGS}
    right = {key: replace(values[key], text=text) for key, (text, _) in found.proven.items()}
    if not is_given and (wrong or right):
        decided_values = {k: right.get(k, stated) for k, stated in known.items() if k not in wrong}
        flops = model_flops(decided_values, prose, acknowledged, of_others)
    told = [
        (values[k], k, f"{values[k].text} is refuted: it is {text}, as {why}")
        for k, (text, why) in found.proven.items()
    ]
    told += [(values[key], key, f"left out: {reason}") for key, reason in {**wrong, **flops.refuted}.items()]
    told += [(stated, "model_flops", f"left out: {stated.text}: {reason}") for stated, reason in flops.refused]
    left = {k: right.get(k, stated) for k, stated in values.items() if k not in {*wrong, *flops.refuted}}
    left |= {} if flops.flops is None else {"model_flops": flops.flops}
    # Without any figure to judge by, a reader has to decide.
    blank = {key: reason for key, reason in wrong.items() if key in found.doubted or not JUDGED & left.keys()}
    stays = {key: stated for key, stated in draft.values.items() if key not in wrong}
    remarks = (_remark(at if at.line > 0 else draft.place, key, message) for at, key, message in told)
    return left, replace(draft, values=stays, blanks={**draft.blanks, **blank}), tuple(remarks)


def _remark(at: Stated, key: str, message: str) -> Remark:
    return Remark(at.line, at.column, key, message)
