"""What stands outside of a row's table and is about it: the configuration of its scale, the section's prose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pytest_gsw.common.words import enumerated
from pytest_gsw.documents.importing.around import surrounded
from pytest_gsw.documents.importing.cases import release_of
from pytest_gsw.documents.importing.draft import Draft
from pytest_gsw.documents.importing.evidence import DocumentEvidence, Finding
from pytest_gsw.documents.importing.markdown import Document, Table
from pytest_gsw.documents.importing.prose import SectionProse
from pytest_gsw.documents.importing.rows import Configuration, DraftTable
from pytest_gsw.documents.importing.sentences import LOCAL_BATCH
from pytest_gsw.documents.importing.titles import Title, is_model, read_title, same_model
from pytest_gsw.tables.yamlfile import Stated

#: Degrees of data parallelism.
_RANKS = ("dp", "fsdp")
#: Frameworks that are configured by the samples of one device: PERCORE_BATCH_SIZE, per_device_batch_size.
_BY_GPU = frozenset({"paxml", "maxtext"})
_BATCH_OF_A_GPU = re.compile(
    r"(?:bs|batch(?:_size)?)_(?:per_)?(?:gpu|device|chip)|per_(?:gpu|device|chip)_(?:bs|batch(?:_size)?)"
)


@dataclass(frozen=True)
class Section:
    """What the prose around a table says of its rows."""

    #: What trains them.
    framework: Finding
    prose: SectionProse
    #: The release that its headings name.
    release: Stated | None


def joined(draft: Draft, table: DraftTable, fitting: Sequence[Configuration], section: Section) -> Draft:
    """The draft with the settings of the configurations that fit it, and what the prose around its table says."""
    draft = surrounded(_configured(draft, fitting), table.title, table.around)
    if {"pp", "dp"} & set(draft.values) and "tp" not in draft.values and section.prose.tp is not None:
        draft = draft.having("tp", section.prose.tp, Stated("", table.table.line, 1))
    if "dp" not in draft.values and "gpus" in draft.values and section.prose.dp_is_gpus:
        draft = draft.having("dp", draft.values["gpus"].text, draft.values["gpus"])
    framework = section.framework.framework
    return _of_each_gpu(_with_global_batch(draft, framework), framework).without(LOCAL_BATCH)


def _of_each_gpu(draft: Draft, framework: str) -> Draft:
    """The draft with Paxml's or MaxText's batch of one GPU * GPUs, where no global batch size is stated.

    Both are configured by the samples of one device, whatever its parallelism is.
    """
    text = next((text for name, text in draft.attributes.items() if _BATCH_OF_A_GPU.fullmatch(name)), "")
    gpus = draft.values.get("gpus")
    is_known = {"global_batch_size", "gradient_accumulation_steps"} & {*draft.values, *draft.blanks}
    if framework not in _BY_GPU or gpus is None or not re.fullmatch(r"[1-9][0-9]{0,4}", text) or is_known:
        return draft
    batch = str(int(text) * int(gpus.text))
    message = f"not stated: it is {batch}, as {text} of each GPU * {gpus.text} GPUs"
    return draft.having("global_batch_size", batch, gpus).remarked("global_batch_size", message, gpus)


def _with_global_batch(draft: Draft, framework: str) -> Draft:
    """The draft with torchtitan's local batch size * data-parallel ranks, where no global batch size is stated.

    The ranks are those that it states, where they and the degrees of model parallelism fill its GPUs.
    """
    local = draft.values.get(LOCAL_BATCH) or draft.place
    text = draft.values[LOCAL_BATCH].text if LOCAL_BATCH in draft.values else draft.attributes.get(LOCAL_BATCH, "")
    if framework != "torchtitan" or not text.isdigit() or "global_batch_size" in {*draft.values, *draft.blanks}:
        return draft
    degrees = {key: int(draft.values[key].text) for key in (*_RANKS, "tp", "pp", "cp") if key in draft.values}
    stated = [key for key in _RANKS if key in degrees]
    is_all = "gpus" in draft.values and prod(degrees.values()) == int(draft.values["gpus"].text)
    if not stated or not is_all or "gradient_accumulation_steps" in draft.values:
        where = f"the document has a local batch size of {text} (line {local.line})"
        return draft.blanked("global_batch_size", f"{where}, and does not say how many data-parallel ranks there are")
    batch = int(text) * prod(degrees[key] for key in stated)
    ranks = " * ".join(f"{key} {degrees[key]}" for key in stated)
    message = f"not stated: it is {batch}, as local batch size {text} * {ranks}"
    return draft.having("global_batch_size", str(batch), local).remarked("global_batch_size", message, local)


def _configured(draft: Draft, fitting: Sequence[Configuration]) -> Draft:
    """What all configurations that fit agree in; where they do not, or contradict the draft, a remark."""
    own = draft
    for key in sorted({key for one in fitting for key in one.values}):
        stated = [one.values[key] for one in fitting if key in one.values]
        texts = {one.text for one in stated}
        given = own.values.get(key)
        if given is not None and given.text not in texts:
            others = f"{enumerated(sorted(texts))} in the configuration"
            message = f"{given.text} here, {others}: what stands with the figures was taken"
            draft = draft.remarked(key, message, given)
        elif given is None and len(texts) > 1:
            message = f"not joined: {len(fitting)} configurations fit, with {enumerated(sorted(texts))}"
            draft = draft.remarked(key, message, own.place)
        elif given is None and key not in draft.blanks and key not in draft.absent:
            draft = draft.having(key, stated[0].text, stated[0])
    return draft


def fitting(configurations: Sequence[Configuration], draft: Draft, title: Title) -> list[Configuration]:
    """The configurations of a run's GPU count; of several, those that contradict its batch and sequence nowhere."""
    gpus = draft.values["gpus"].text if "gpus" in draft.values else ""
    found = [one for whole in configurations if _fits(one := whole.at(gpus), draft, title)]
    if len(found) < 2:
        return found
    telling = ("global_batch_size", "sequence_length", "micro_batch_size")
    stated = [(key, draft.values[key].text) for key in telling if key in draft.values]
    narrowed = [
        one for one in found if all(key not in one.values or one.values[key].text == text for key, text in stated)
    ]
    return narrowed or found


def _fits(one: Configuration, draft: Draft, title: Title) -> bool:
    """Whether a configuration is one of a run: of as many GPUs, and of no other model, dtype or kind of scaling."""
    of_run = {key: stated.text for key, stated in draft.values.items()}
    if one.values.get("gpus", Stated("", 0, 0)).text != of_run.get("gpus", "?"):
        return False
    named = read_title(of_run.get("model", ""))
    size = read_title(of_run.get("size", "")).size or named.size or title.size
    model = named.model or title.model
    own = one.title
    if own.model and is_model(model) and not same_model(own.model, model):
        return False
    pairs = (
        (own.size, size),
        (own.accelerator.split("-")[0], (of_run.get("accelerator", "") or title.accelerator).split("-")[0]),
        (own.variant, of_run.get("variant", "") or title.variant),
    )
    if any(a and b and a.lower() != b.lower() for a, b in pairs):
        return False
    return not (one.dtypes and title.dtype and title.dtype not in one.dtypes)


def section_of(document: Document, table: Table, prose: SectionProse, said: DocumentEvidence) -> Section:
    """What the text around a table says."""
    return Section(framework=said.of(table), prose=prose, release=release_of(document, table))
