"""A document becomes rows: its tables, what its prose says of all of them, and the facts that it leaves unsaid."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing import conventions
from pytest_gsw.importing.facts import DocumentFacts, Facts
from pytest_gsw.importing.labels import FIGURES, JUDGED, accelerator
from pytest_gsw.importing.markdown import Document, Table, Unread
from pytest_gsw.importing.prose import Architecture, Prose, read_prose, section_degree, section_scripts
from pytest_gsw.importing.rows import Configuration, Draft, DraftTable, Extracted, Remark, extract, proven, repaired
from pytest_gsw.importing.titles import Title, framework_of, read_title
from pytest_gsw.performance import flops
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.load import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.stated import Stated

#: Keys without which a row cannot run; where neither document nor facts have one, the YAML has a blank.
NEEDED = ("model", "framework", "size", "dtype", "accelerator", "gpus", "gpus_per_node", "sequence_length")

_UNSAID = "the document does not say"

#: In place of a line: what comes from the facts, and what neither they nor the document say.
FACT = -1
CONVENTION = 0


@dataclass(frozen=True)
class Row:
    """One row with everything that goes into the YAML."""

    #: By key; an empty text is a blank.
    values: Mapping[str, Stated]
    attributes: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, Stated | Mapping[str, str]] = field(default_factory=dict)
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    #: Why each blank is one.
    blanks: Mapping[str, str] = field(default_factory=dict)
    #: Line of its table's header.
    table_line: int = 0
    #: Its place among all rows of the document.
    number: int = 0

    @property
    def id(self) -> str:
        """As the plugin will name it; ``?`` where a part of the name is blank."""
        text = {key: stated.text or "?" for key, stated in self.values.items()}
        case = f"-{text['case']}" if "case" in text else ""
        name = f"{text.get('model', '?')}_{text.get('size', '?')}_{text.get('dtype', '?')}"
        return f"{name}[{text.get('accelerator', '?')}x{text.get('gpus', '?')}{case}]"


@dataclass(frozen=True)
class RowTable:
    """The rows of one table that go to one file."""

    title: str
    #: Line of the header in the document.
    line: int
    rows: tuple[Row, ...]
    comment: str = ""
    acknowledged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowFile:
    """One YAML file to be."""

    #: Relative, such as ``maxtext/llama2_70b.yaml``.
    path: str
    tables: tuple[RowTable, ...]
    architecture: Architecture | None
    #: TFLOP/s count recomputed activations.
    activation_recomputation: bool
    comment: str = ""
    release: str = ""
    acknowledged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Read:
    """What was read from one document."""

    document: Document
    files: tuple[RowFile, ...]
    left_out: tuple[Unread, ...]
    #: Cells that were not taken as they stand, by row id.
    remarks: tuple[tuple[str, Remark], ...]


@dataclass(frozen=True)
class Section:
    """What the prose around a table says of its rows."""

    #: Tensor parallelism, where it is one for all.
    tp: str | None
    #: Each GPU is a data-parallel rank of its own.
    dp_is_gpus: bool
    #: The directory of scripts that it links.
    directory: Stated | None


def read_rows(document: Document, facts: DocumentFacts, *, directory: str | None = None) -> Read:
    """All rows of a document.

    Args:
        document: The document.
        facts: What it does not say.
        directory: The recipe's directory, where the document's place tells it.

    Raises:
        ConfigurationError: Facts of a table, a row or a file that the document does not have, or that contradict
            what a table states.
    """
    extracted = extract(document)
    prose = read_prose(document)
    rows: list[tuple[DraftTable, Row, tuple[Remark, ...]]] = []
    for table in extracted.tables:
        section = _section(document, table.table)
        for draft in table.rows:
            if "row" in {remark.key for remark in draft.remarks} and not draft.values:
                rows.append((table, Row({}), draft.remarks))
                continue
            whole = _whole(draft, table, extracted, prose, section)
            if whole.doubt and not proven(whole):
                place = next(iter(whole.values.values()))
                remark = Remark(place.line, place.column, "row", f"left out: {whole.doubt}")
                rows.append((table, Row({}), (remark,)))
                continue
            row = replace(_row(whole, table, prose, section, document, facts, directory), number=len(rows))
            rows.append((table, row, whole.remarks))
    _check_facts(facts, extracted, rows)
    files = _files(rows, facts, prose)
    ids = {row.number: row.id for file in files for table in file.tables for row in table.rows}
    remarks = tuple(
        (ids.get(row.number, "") if row.values else "", remark) for _, row, found in rows for remark in found
    )
    return Read(document, files, extracted.left_out, remarks)


def _whole(draft: Draft, table: DraftTable, extracted: Extracted, prose: Prose, section: Section) -> Draft:
    """The draft with the settings of the one configuration that fits it, what prose says, and its repairs."""
    values = dict(draft.values)
    remarks = draft.remarks
    fitting = _fitting(extracted.configurations, draft, table.title)
    if fitting:
        for key in sorted({key for one in fitting for key in one.values}):
            texts = {one.values[key].text for one in fitting if key in one.values}
            given = values.get(key)
            if len(texts) > 1 and given is None:
                place = values["gpus"] if "gpus" in values else next(iter(values.values()))
                message = f"not joined: {len(fitting)} configurations fit, with {' and '.join(sorted(texts))}"
                remarks = (*remarks, Remark(place.line, place.column, key, message))
            elif given is None and key not in draft.absent:
                values[key] = next(one.values[key] for one in fitting if key in one.values)
            elif given is not None and given.text not in texts:
                other = " and ".join(sorted(texts))
                message = f"{given.text} here, {other} in the configuration: what stands with the figures was taken"
                remarks = (*remarks, Remark(given.line, given.column, key, message))
    if {"pp", "dp"} & set(values) and "tp" not in values and section.tp is not None:
        values["tp"] = Stated(section.tp, table.table.line, 1)
    if "dp" not in values and "gpus" in values and section.dp_is_gpus:
        values["dp"] = values["gpus"]
    if "sequence_length" not in values and prose.sequence_length is not None:
        values["sequence_length"] = prose.sequence_length
    absent = {key: stated for key, stated in values.items() if key not in draft.absent or key in draft.values}
    return repaired(replace(draft, values=absent, remarks=remarks))


def _section(document: Document, table: Table) -> Section:
    """What the prose around a table says."""
    own = [document.lines[n - 1] for n in document.sections[table.section] if n <= len(document.lines)]
    # The directory may be linked further up: from the table's section to the document's first.
    up = [
        (n, document.lines[n - 1])
        for number in range(table.section, -1, -1)
        for n in document.sections[number]
        if n <= len(document.lines)
    ]
    return Section(
        tp=section_degree("TP", _prose_of(own)),
        dp_is_gpus=any(re.search(r"\bDP ?= ?GPUs\b", line) for line in own),
        directory=section_scripts(up),
    )


def _prose_of(lines: Sequence[str]) -> list[str]:
    """Lines that are no rows of tables."""
    return [line for line in lines if line.count("|") < 2]


def _fitting(configurations: Sequence[Configuration], draft: Draft, title: Title) -> list[Configuration]:
    """The configurations of a run's GPU count; of several, those that contradict its batch and sequence nowhere."""
    found = [one for one in configurations if _fits(one, draft, title)]
    if len(found) < 2:
        return found
    telling = ("global_batch_size", "sequence_length", "micro_batch_size")
    narrowed = [
        one
        for one in found
        if not any(
            key in one.values and key in draft.values and one.values[key].text != draft.values[key].text
            for key in telling
        )
    ]
    return narrowed or found


def _fits(one: Configuration, draft: Draft, title: Title) -> bool:
    """Whether a configuration is one of a run: of as many GPUs, and of no other model, dtype or kind of scaling."""
    of_run = {key: stated.text for key, stated in draft.values.items()}
    if one.values.get("gpus", Stated("", 0, 0)).text != of_run.get("gpus", "?"):
        return False
    pairs = (
        (one.size, title.size),
        (one.accelerator.split("-")[0], (of_run.get("accelerator", "") or title.accelerator).split("-")[0]),
        (one.variant, of_run.get("variant", "") or title.variant if one.variant else ""),
    )
    if any(a and b and a.lower() != b.lower() for a, b in pairs):
        return False
    return not (one.dtypes and title.dtype and title.dtype not in one.dtypes)


def _row(
    draft: Draft,
    table: DraftTable,
    prose: Prose,
    section: Section,
    document: Document,
    facts: DocumentFacts,
    directory: str | None,
) -> Row:
    """The row with what only prose, conventions and facts say."""
    title = table.title
    place = draft.values.get("gpus") or next(iter(draft.values.values()))
    values: dict[str, Stated] = {k: v for k, v in draft.values.items() if k not in {"nodes", "memory", "variant"}}
    comments = [f"{remark.key}: {remark.message} (line {remark.line})" for remark in draft.remarks]

    def state(key: str, text: str | None, at: Stated | None = None) -> None:
        if text and key not in values:
            values[key] = Stated(text, at.line if at else table.table.line, at.column if at else 1)

    model, size = _model_and_size(title, prose, document)
    if "accelerator" in values:
        values["accelerator"] = replace(values["accelerator"], text=_accelerator(values["accelerator"].text))
    cells = {key: values.pop(key) for key in ("model", "size", "dtype") if key in values}
    for cell_key, cell in cells.items():
        # A cell "LLAMA3_70B" below "Model" says both, "70b" there the size alone.
        for key in (cell_key, *(k for k in ("size", "dtype") if k not in cells and k != cell_key)):
            name = _name(key, cell.text)
            if name and key not in values:
                values[key] = replace(cell, text=name)
    state("model", model)
    state("size", size)
    state("dtype", title.dtype)
    state("dtype", prose.dtype.text.lower() if prose.dtype else None, prose.dtype)
    memory = draft.values.get("memory")
    if memory is not None and prose.accelerator is not None:
        values["accelerator"] = replace(memory, text=f"{prose.accelerator.text.split('-')[0]}-{memory.text}GB")
    state("accelerator", title.accelerator)
    state("accelerator", prose.accelerator.text if prose.accelerator else None, prose.accelerator)
    framework = _framework(draft, table, prose)
    state("framework", framework)
    recipe: dict[str, Stated | Mapping[str, str]] = {}
    if prose.steps is not None:
        recipe["steps"] = prose.steps
    layers_of = _facts_of(table, draft, facts, _path_guess(values))
    for given in layers_of:
        for key, text in given.values.items():
            if key in {"title", "release"}:
                continue  # of the table and of the file
            _check_fact(key, text, draft, table, document)
            values[key] = Stated(text, place.line, place.column)
        recipe |= {key: Stated(told, FACT, 1) if isinstance(told, str) else told for key, told in given.recipe.items()}
    _conventions(values, recipe, draft, table, prose, section, directory)
    _model_flops(values, prose)
    if "expected_failure" not in values and not JUDGED & (set(values) | set(draft.blanks)):
        comments.append("no figure to judge by")
    values["line"] = _judged_line(draft, values)
    if values.get("framework") and _log_format(table, values["framework"].text):
        state("log_format", "megatron")
    refused = _refused(values)
    blanks = {key: refused.get(key, _UNSAID) for key in NEEDED if key not in values or key in refused}
    comments += [f"{key}: left out: {reason}" for key, reason in refused.items() if key not in {*blanks, *JUDGED}]
    values = {key: stated for key, stated in values.items() if key not in refused}
    if gpus_per_node := _unfilled(values):
        blanks["gpus_per_node"] = gpus_per_node
    throughputs = sorted(JUDGED & set(values))
    # A throughput that cannot be read is no loss where the step time is there; the other way round, a reader decides.
    first = {"step_time_s", "checkpoint_save_time_s"} if throughputs else JUDGED
    blanks |= {k: reason for k, reason in {**refused, **draft.blanks}.items() if k in first and k not in values}
    if "step_time_s" not in values and "metric" not in values and throughputs and "global_batch_size" not in values:
        blanks["global_batch_size"] = f"{_UNSAID}, and the step time follows from it and {throughputs[0]}"
    for key in blanks:
        values[key] = Stated("", place.line, place.column)
    attributes = dict(draft.attributes)
    for given in layers_of:
        attributes |= dict(given.attributes)
    of_row = _row_facts(draft, facts) or Facts()
    comments += of_row.comment.splitlines()
    variant = draft.values.get("variant")
    if "case" not in values and (variant or title.variant):
        values["case"] = Stated(variant.text if variant else title.variant, place.line, place.column)
    return Row(values, attributes, recipe, of_row.acknowledged, tuple(comments), blanks, table.table.line)


def _refused(values: Mapping[str, Stated]) -> dict[str, str]:
    """What no table can hold, such as a model's name of hundred letters, and why."""
    found: dict[str, str] = {}
    for key, stated in values.items():
        known = ROW_FIELDS.get(key) or FILE_FIELDS.get(key)
        if isinstance(known, Field):
            try:
                known.read(stated.text)
            except ValueError as error:
                found[key] = str(error)[:200]
    return found


def _unfilled(values: Mapping[str, Stated]) -> str | None:
    """Why a row's GPUs cannot be whole nodes, ``None`` where they can."""
    if "gpus" not in values or "gpus_per_node" not in values:
        return None
    gpus, per_node = int(values["gpus"].text), int(values["gpus_per_node"].text)
    return f"{gpus} GPUs do not fill whole nodes of {per_node}" if gpus > per_node and gpus % per_node else None


def _accelerator(text: str) -> str:
    """A cell such as ``DGX-H100`` as the accelerator that it names; what names no known one stays."""
    return accelerator(text) or text


def _name(key: str, text: str) -> str:
    """A cell of a column "Model", "Size" or "Precision" as the name that rows have."""
    title = read_title(text)
    return {"model": title.model, "size": title.size, "dtype": title.dtype}[key] or ""


def _path_guess(values: Mapping[str, Stated]) -> str:
    text = {key: stated.text for key, stated in values.items()}
    return f"{text.get('framework', 'unknown')}/{text.get('model', 'unknown')}"


def _facts_of(table: DraftTable, draft: Draft, facts: DocumentFacts, path: str) -> list[Facts]:
    """The facts that hold for a row, from the widest to the nearest."""
    files = [given for name, given in facts.files.items() if name.startswith(path)]
    found = [facts.whole, *files, facts.tables.get(table.table.line), _row_facts(draft, facts)]
    return [one for one in found if one is not None]


def _row_facts(draft: Draft, facts: DocumentFacts) -> Facts | None:
    """The facts of one row: by its line and GPUs, or by its line alone."""
    line, gpus = _line_of(draft), draft.values.get("gpus")
    by_gpus = facts.rows.get((line, int(gpus.text))) if gpus is not None else None
    return by_gpus or facts.rows.get((line, None))


def _line_of(draft: Draft) -> int:
    judged = next((draft.values[key] for key in FIGURES if key in draft.values), None)
    place = judged or draft.values.get("expected_failure") or next(iter(draft.values.values()))
    return place.line


def _judged_line(draft: Draft, values: Mapping[str, Stated]) -> Stated:
    """The line of the figure that the verdict rests on."""
    metric = values.get("metric")
    first = "checkpoint_save_time_s" if metric is not None and metric.text == "checkpoint_save_time" else "step_time_s"
    order = (first, *(key for key in FIGURES if key in JUDGED))
    place = next((draft.values[key] for key in order if key in draft.values), None)
    place = place or draft.values.get("expected_failure") or next(iter(draft.values.values()))
    return Stated(str(place.line), place.line, place.column)


def _check_fact(key: str, text: str, draft: Draft, table: DraftTable, document: Document) -> None:
    """Facts fill in what is not there: what a table states in its own cells they cannot change."""
    stated = draft.values.get(key)
    if stated is not None and stated.text != text and stated.line >= table.table.line and key != "dtype":
        raise ConfigurationError(
            f"facts of {document.name}: {key} is {text}, but line {stated.line} of the document states {stated.text}; "
            "facts fill in what is not there"
        )


def _framework(draft: Draft, table: DraftTable, prose: Prose) -> str | None:
    """The framework: of the run's own cells, the title, the nearest heading that names one, the document."""
    stated = draft.values.get("framework")
    if stated is not None:
        return framework_of(stated.text) or stated.text.lower()
    about = (table.title.framework, *map(framework_of, reversed(table.table.headings)))
    found = next((name for name in about if name), None)
    # A run of a table about DeepSpeed, with DeepSpeed switched off, is one of the framework below it.
    if found == "deepspeed" and draft.attributes.get("ds", "").upper() in {"N", "NO"}:
        return "megatron"
    if found == "megatron" and prose.framework == "nemo":
        return "nemo"  # "NeMo Megatron": the log is NeMo's
    return found or prose.framework


def _log_format(table: DraftTable, framework: str) -> bool:
    """Whether DeepSpeed runs within Megatron, whose training loop and log it is then."""
    return framework == "deepspeed" and any("megatron" in heading.lower() for heading in table.table.headings)


def _model_and_size(title: Title, prose: Prose, document: Document) -> tuple[str, str]:
    """The model's name in full, and its size.

    "GPT175B" is the "GPT 3 175B" of the same document's text, "Nemotron 340b" its "Nemotron4".
    """
    named = [one for one in prose.models if one.model]
    model, size = title.model, title.size
    same_size = [one for one in named if not one.size or not size or one.size == size]
    if not model:
        model = same_size[0].model if same_size else _from_heading(document)
    else:
        longer = [one.model for one in named if re.fullmatch(rf"{re.escape(model)}[0-9]+(\.[0-9]+)?", one.model)]
        model = longer[0] if longer else model
    if not size:
        sizes = {one.size for one in named if one.size and one.model == model}
        in_name = re.search(r"(?<![0-9])([0-9]+(?:\.[0-9]+)?b)(?![a-z0-9])", document.name.lower())
        size = sizes.pop() if len(sizes) == 1 else in_name[1] if in_name else ""
    return model, size


def _from_heading(document: Document) -> str:
    """The model that the document's first heading names, such as "GPT2 Experiments"."""
    for line in document.lines:
        match = re.match(r"#\s+(?P<name>(?:[A-Za-z]+[- ]?[0-9]+(?:\.[0-9]+)?)) ", line)
        if match is not None:
            return read_title(match["name"]).model
    return ""


def _conventions(
    values: dict[str, Stated],
    recipe: dict[str, Stated | Mapping[str, str]],
    draft: Draft,
    table: DraftTable,
    prose: Prose,
    section: Section,
    directory: str | None,
) -> None:
    """What prose says of all rows, and after it what everybody knows."""
    here = Stated("", CONVENTION, 1)
    kind = values["accelerator"].text if "accelerator" in values else ""
    if "gpus_per_node" not in values:
        known = conventions.GPUS_PER_NODE.get(kind)
        if prose.gpus_per_node is not None and not (known and kind.startswith("GB")):
            values["gpus_per_node"] = prose.gpus_per_node
        elif known:
            values["gpus_per_node"] = replace(here, text=str(known))
    nodes = draft.values.get("nodes")
    if "gpus" not in values and nodes is not None and "gpus_per_node" in values:
        values["gpus"] = replace(nodes, text=str(int(nodes.text) * int(values["gpus_per_node"].text)))
    if "checkpoint_save_time_s" in values and "step_time_s" not in values:
        values.setdefault("metric", replace(here, text="checkpoint_save_time"))
    if "statistic" not in values and prose.statistic is not None:
        values["statistic"] = prose.statistic
    if "tolerance" not in values and prose.tolerance is not None:
        values["tolerance"] = replace(prose.tolerance, text=f"{prose.tolerance.text}%")
    framework = values["framework"].text if "framework" in values else ""
    if "steps" not in recipe and "min_steps" not in values:
        fewest = conventions.FEWEST_STEPS.get(framework, conventions.FEWEST_STEPS_ELSEWHERE)
        of_saves = "metric" in values and values["metric"].text == "checkpoint_save_time"
        values["min_steps"] = replace(here, text="1" if of_saves else str(fewest))
    below = prose.proxy_below
    gpus = int(values["gpus"].text) if "gpus" in values else None
    small = below is not None and gpus is not None and gpus < int(below.text)
    if "proxy" not in values and (table.title.proxy or small):
        values["proxy"] = replace(below or here, text="true")
    if "directory" not in recipe:
        linked = section.directory
        by_convention = conventions.RECIPE_DIRECTORIES.get(framework) or (
            values["model"].text if "model" in values else ""
        )
        if linked is not None:
            recipe["directory"] = linked
        else:
            recipe["directory"] = replace(here, text=directory or by_convention)


def _model_flops(values: dict[str, Stated], prose: Prose) -> None:
    """Model FLOPs of one sample: as stated for the full model, by the document's formula for a smaller one."""
    if "model_flops" in values or "gpus" not in values:
        return
    text = {key: stated.text for key, stated in values.items()}
    architecture = _architecture_of(text.get("size", ""), prose)
    if architecture is not None and architecture.formula == "gpt2":
        size = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)b", text.get("size", ""))
        if size and "sequence_length" in text and ("step_time_s" in text or "expected_failure" in text):
            number = 6 * Decimal(size[1]).scaleb(9) * int(text["sequence_length"])
            values["model_flops"] = replace(values["size"], text=_scientific(number.normalize()))
        return
    stated = _stated_flops(text, prose)
    computed = None if architecture is None else _computed_flops(text, architecture)
    full = computed is None or architecture is None or _is_full(text, architecture)
    if stated is not None and full:
        values["model_flops"] = replace(stated, text=_scientific(Decimal(stated.text)))
    elif computed is not None and architecture is not None:
        place = next(iter(architecture.numbers.values()))
        values["model_flops"] = replace(place, text=str(computed))


def _architecture_of(size: str, prose: Prose) -> Architecture | None:
    """The notes' numbers for a model of this size; those without a size are of the only model there is."""
    same = [one for one in prose.architectures if one.size and one.size == size]
    only = [one for one in prose.architectures if len(prose.architectures) == 1 and (not one.size or not size)]
    return next(iter(same or only), None)


def _stated_flops(text: Mapping[str, str], prose: Prose) -> Stated | None:
    """What the document states for the row's model: of the same size, or the only statement that names no size."""
    same = [flops for title, flops in prose.model_flops if title.size and title.size == text.get("size")]
    if same:
        return same[0] if len({one.text for one in same}) == 1 else None
    unsized = [flops for title, flops in prose.model_flops if not title.size]
    return unsized[0] if len({one.text for one in unsized}) == 1 and len(prose.model_flops) == len(unsized) else None


def _is_full(text: Mapping[str, str], architecture: Architecture) -> bool:
    """Whether a row has the layers and the sequence length that the notes compute with."""
    layers = architecture.numbers.get("layers")
    sequence = architecture.sequence_length
    same_layers = "layers" not in text or layers is None or text["layers"] == layers.text
    return same_layers and (sequence is None or text.get("sequence_length") in {None, sequence.text})


_FORMULAS: Mapping[str, Callable[..., float]] = {"gpt3": flops.gpt3, "llama": flops.llama, "grok": flops.grok}


def _computed_flops(text: Mapping[str, str], architecture: Architecture) -> int | None:
    """By the document's own formula and numbers, with the row's layers and sequence length; exact."""
    numbers = {key: int(stated.text) for key, stated in architecture.numbers.items()}
    if "layers" in text:
        numbers["layers"] = int(text["layers"])
    if "sequence_length" not in text:
        return None
    try:
        return round(_FORMULAS[architecture.formula](sequence_length=int(text["sequence_length"]), **numbers))
    except (TypeError, OverflowError):  # the notes lack a number that the formula needs
        return None


def _scientific(number: Decimal) -> str:
    """``1.82e+15``: the document's digits, in the form that YAML takes for a number."""
    sign, digits, exponent = number.normalize().as_tuple()
    if sign or not isinstance(exponent, int):
        return str(number)
    shown = "".join(map(str, digits))
    kept = len(number.as_tuple().digits) if "E" in str(number) else len(shown)
    shown = shown.ljust(kept, "0")
    power = exponent + len(digits) - 1
    return f"{shown[0]}.{shown[1:] or '0'}e+{power:02d}"


def _check_facts(
    facts: DocumentFacts, extracted: Extracted, rows: Sequence[tuple[DraftTable, Row, tuple[Remark, ...]]]
) -> None:
    """Facts of what is not there are facts of another release."""
    tables = {table.table.line for table in extracted.tables}
    lines = {(int(row.values["line"].text), int(row.values["gpus"].text or 0)) for _, row, _ in rows if row.values}
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


def _files(
    rows: Sequence[tuple[DraftTable, Row, tuple[Remark, ...]]], facts: DocumentFacts, prose: Prose
) -> tuple[RowFile, ...]:
    """Rows by file: one for each framework and model, named after the workload where it has one size."""
    groups: dict[tuple[str, str, str], list[tuple[DraftTable, Row]]] = {}
    for table, row, _ in rows:
        if row.values:
            text = {key: stated.text for key, stated in row.values.items()}
            key = (text["framework"] or "unknown", text["model"] or "unknown", text.get("log_format", ""))
            groups.setdefault(key, []).append((table, row))
    files = []
    often = Counter((framework, model) for framework, model, _ in groups)
    for (framework, model, log_format), members in groups.items():
        sizes = {row.values["size"].text for _, row in members}
        name = f"{model}_{sizes.pop()}" if len(sizes) == 1 and "" not in sizes else model
        # A file has one log format.
        name += f"-{log_format}" if log_format and often[framework, model] > 1 else ""
        files.append(_file(f"{framework}/{name}.yaml", members, facts, prose))
    for path in facts.files:
        if path not in {file.path for file in files}:
            found = ", ".join(sorted(file.path for file in files)) or "none"
            raise ConfigurationError(f"facts of a file {path}, which the document does not give; it gives: {found}")
    return tuple(sorted(files, key=lambda file: file.path))


def _file(path: str, members: Sequence[tuple[DraftTable, Row]], facts: DocumentFacts, prose: Prose) -> RowFile:
    named = _with_cases([row for _, row in members])
    tables: dict[int, tuple[DraftTable, list[Row]]] = {}
    for (table, _), row in zip(members, named, strict=True):
        tables.setdefault(table.table.line, (table, []))[1].append(row)
    of_file = facts.files.get(path, Facts())
    whole = facts.whole
    sizes = {row.values["size"].text for _, row in members}
    built = []
    for line, (table, found) in tables.items():
        of_table = facts.tables.get(line, Facts())
        title = str(of_table.values.get("title", table.text))
        if len(found) < len(table.rows) and any(row.attributes.get("ds") for row in found):
            title += f", DS = {found[0].attributes['ds']}"
        built.append(RowTable(title, line, tuple(found), of_table.comment, of_table.acknowledged))
    return RowFile(
        path=path,
        tables=tuple(built),
        architecture=_architecture_of(sizes.pop() if len(sizes) == 1 else "", prose),
        activation_recomputation=prose.counts_recomputation,
        comment="\n\n".join(text for text in (whole.comment, of_file.comment) if text),
        release=str(whole.values.get("release", "")),
        acknowledged={**whole.acknowledged, **of_file.acknowledged},
    )


#: What tells rows of the same name apart, and its short name in a case.
_TELLING: Mapping[str, str] = {
    "tp": "tp",
    "pp": "pp",
    "cp": "cp",
    "ep": "ep",
    "dp": "dp",
    "fsdp": "fsdp",
    "vp": "vp",
    "gradient_accumulation_steps": "gas",
    "micro_batch_size": "mbs",
    "global_batch_size": "gbs",
    "sequence_length": "seq",
    "layers": "layers",
}


def _with_cases(rows: Sequence[Row]) -> list[Row]:
    """Rows with names of their own: by what differs between them, else by the line in the document."""
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row.id, []).append(number)
    named = list(rows)
    for members in groups.values():
        if len(members) == 1:
            continue
        differing = [
            (key, short)
            for key, short in _TELLING.items()
            if len({rows[n].values[key].text if key in rows[n].values else "" for n in members}) > 1
        ]
        told = {n: _case(rows[n], differing) for n in members}
        often = Counter(told.values())
        taken: Counter[str] = Counter()
        for n in members:
            line = rows[n].values["line"]
            case = told[n]
            if often[case] > 1 or len(case) > 60 or not case:
                case = f"{case[:40]}-line{line.text}".strip("-")
            taken[case] += 1
            if taken[case] > 1:
                case += f"-{taken[case]}"
            named[n] = replace(rows[n], values={**rows[n].values, "case": replace(line, text=case)})
    return named


def _case(row: Row, differing: Sequence[tuple[str, str]]) -> str:
    own = [row.values["case"].text] if "case" in row.values else []
    told = [f"{short}{row.values[key].text}" for key, short in differing if key in row.values]
    return "-".join([*own, *told])


def recipe_directory(path: Path) -> str | None:
    """The recipe's directory by the README's place: ``grok1/README.md`` is the recipe grok1's."""
    name = path.resolve().parent.name
    readme = path.name.lower().startswith("readme")
    return name if readme and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name) else None
