"""A row is completed: names, facts, what prose says of all rows, conventions; and what is missing becomes a blank."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pytest_gsw.documents.importing.directories import RECIPE_DIRECTORIES
from pytest_gsw.documents.importing.draft import Draft
from pytest_gsw.documents.importing.evidence import framework_of_cells
from pytest_gsw.documents.importing.facts import DocumentFacts, Facts
from pytest_gsw.documents.importing.fit import fewest_steps, misfits
from pytest_gsw.documents.importing.join import Section
from pytest_gsw.documents.importing.labels import FIGURES, JUDGED, accelerator
from pytest_gsw.documents.importing.markdown import Document, Table
from pytest_gsw.documents.importing.model_flops import KnownFlops
from pytest_gsw.documents.importing.prose import Prose
from pytest_gsw.documents.importing.refused import refused_values
from pytest_gsw.documents.importing.row import CONVENTION, FACT, NEEDED, UNSAID, RecipeKey, RecipeKeys, Row
from pytest_gsw.documents.importing.rows import DraftTable
from pytest_gsw.documents.importing.sentences import FAMILY
from pytest_gsw.documents.importing.settle import settled
from pytest_gsw.documents.importing.titles import Title, framework_of, read_title, same_model
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.accelerators import gpus_per_node
from pytest_gsw.tables.blanks import IN_CELL
from pytest_gsw.tables.metrics import SAVE_TIME, STEP_TIME
from pytest_gsw.tables.yamlfile import Stated

Values = dict[str, Stated]


@dataclass(frozen=True)
class Context:
    """What is the same for all rows of a document."""

    document: Document
    prose: Prose
    facts: DocumentFacts
    #: The recipe's directory, where the document or its place tells it.
    directory: Stated | None
    #: What all of its rows say of model FLOPs, once they are read.
    flops: KnownFlops = field(default_factory=KnownFlops)


def complete(draft: Draft, table: DraftTable, section: Section, context: Context) -> Row:
    """One row with everything that is known of it.

    Raises:
        ConfigurationError: A fact contradicts what the table states.
    """
    line, gpus = _figure(draft, FIGURES).line, draft.values.get("gpus")
    if any(of_line == line for of_line, _ in context.facts.rows):
        # Its cells may state nodes, or a count that its figures refute: how many they are is known with the rest of it.
        gpus = _complete(draft, table, section, context, Facts()).values.get("gpus")
    return _complete(draft, table, section, context, _row_facts(context.facts, line, gpus))


def _complete(draft: Draft, table: DraftTable, section: Section, context: Context, of_row: Facts) -> Row:
    prose = context.prose
    if section.framework.problem and "framework" not in draft.values:
        draft = draft.blanked("framework", section.framework.problem)
    values = _named(draft, table, section, context)
    cells = _cells(draft, table)
    if section.release is not None:
        values["release"] = section.release
    given = (*_wide_facts(table, context.facts, values), of_row)
    recipe: dict[str, RecipeKey] = {"steps": prose.steps} if prose.steps is not None else {}
    for facts in given:
        values |= _from_facts(facts, draft, table, context.document, is_own=facts is of_row)
        recipe |= {key: Stated(told, FACT, 1) if isinstance(told, str) else told for key, told in facts.recipe.items()}
    values = {**_from_prose(values, draft, prose), **values}
    if "log_format" not in values:
        values |= _log_format(values, table, section)
    values = {**_by_convention(values, recipe, draft), **values}
    values = {**_proxy(values, table, prose), **values}
    if "directory" not in recipe:
        # Its README's directory, the framework's, or one named after the model.
        of_framework = RECIPE_DIRECTORIES.get(_text(values, "framework"))
        usual = Stated(of_framework or _text(values, "model"), CONVENTION, 1)
        recipe["directory"] = section.prose.directory or context.directory or usual
    acknowledged = {name for facts in given for name in facts.acknowledged}
    stated = values
    values, draft, remarks = settled(stated, draft, prose, acknowledged, refused_values(values), context.flops)
    values["line"] = _judged_line(draft, values)
    system = draft.values["accelerator"].text if "accelerator" in draft.values else ""
    rests_on = {"framework": section.framework.what} if "framework" not in draft.values else {}
    row = Row(values, recipe=recipe, rests_on=rests_on, system=system, table_line=table.table.line, remarks=remarks)
    changed = {key: value for key, value in stated.items() if values.get(key) != value}
    return _checked(replace(row, documented=changed), draft, given, of_row, cells)


def _checked(row: Row, draft: Draft, given: Iterable[Facts], of_row: Facts, cells: Mapping[str, Stated]) -> Row:
    """The row with blanks in the place of what is missing and what no table can hold, and with its comments."""
    unfit = misfits(row.values)
    refused = {**refused_values(row.values), **{key: reason for key, reason in unfit.items() if key in row.values}}
    values = {key: stated for key, stated in row.values.items() if key not in refused}
    blanks = _blanks(values, refused, draft)
    # A summary of the run is what it is, whatever the statistic.
    of_summary = fewest_steps(row.values) == 1
    blanks |= {key: reason for key, reason in unfit.items() if key != "statistic" or not of_summary}
    blanks |= {key: f"{blanks[key]}{IN_CELL.format(line=cell.line)}" for key, cell in cells.items() if key in blanks}
    left_out = {key: reason for key, reason in refused.items() if key not in blanks}
    told = (*draft.remarks, *row.remarks)
    comments = [f"{remark.key}: {remark.message} (line {remark.line})" for remark in told]
    comments += [f"{key}: left out: {reason}" for key, reason in left_out.items()]
    attributes = dict(draft.attributes)
    for facts in given:
        attributes |= facts.attributes
    return replace(
        row,
        values={**values, **{key: replace(draft.place, text="") for key in blanks}},
        attributes=attributes,
        acknowledged=of_row.acknowledged,
        comments=(*comments, *of_row.comment.splitlines()),
        blanks=blanks,
        left_out=left_out,
    )


def _blanks(values: Mapping[str, Stated], refused: Mapping[str, str], draft: Draft) -> dict[str, str]:
    """What has to be filled in before the row can run, and why it is not there."""
    blanks = {key: refused.get(key, draft.blanks.get(key, UNSAID)) for key in NEEDED if key not in values}
    if "statistic" in draft.blanks and "statistic" not in values:
        blanks["statistic"] = draft.blanks["statistic"]
    # Not each model has a size in its name; one that is there and cannot be read is not none.
    blanks |= {"size": refused["size"]} if "size" in refused else {}
    gpus, per_node = (int(_text(values, key) or 0) for key in ("gpus", "gpus_per_node"))
    if per_node and gpus > per_node and gpus % per_node:
        blanks["gpus_per_node"] = f"{gpus} GPUs do not fill whole nodes of {per_node}"
    throughputs = sorted(JUDGED & set(values))
    unread = {k: reason for k, reason in {**refused, **draft.blanks}.items() if k in JUDGED and k not in values}
    # A throughput that cannot be read is no loss where the step time is there; the other way round, a reader decides.
    # Where none is there, one of them is enough.
    times = [key for key in FIGURES if key in unread and key in {STEP_TIME.key, SAVE_TIME.key}]
    others = [key for key in FIGURES if key in unread][:1] if not throughputs else []
    blanks |= {key: unread[key] for key in times or others}
    if throughputs and not {STEP_TIME.key, "metric", "global_batch_size"} & set(values):
        unsaid = draft.blanks.get("global_batch_size", UNSAID)
        blanks["global_batch_size"] = f"{unsaid}, and the step time follows from it and {throughputs[0]}"
    return blanks


def _named(draft: Draft, table: DraftTable, section: Section, context: Context) -> Values:
    """The draft's values with model, size, dtype, accelerator and framework as rows name them."""
    title, prose = table.title, context.prose
    here = Stated("", table.table.line, 1)
    model, size = _model_and_size(_of_row(title, draft), prose, context.document)
    if {"model", "size"} & draft.absent:
        model, size = "", ""  # the row's own cell is empty: perhaps merged with the one above, perhaps not
    texts = {"model": model, "size": size, "dtype": title.dtype, "accelerator": title.accelerator}
    found = {key: replace(here, text=text) for key, text in texts.items() if text and key not in draft.blanks}
    framework = _framework(draft, table, section)
    if framework is not None:
        found["framework"] = framework
    variant = draft.values.get("variant") or replace(here, text=title.variant)
    if variant.text:
        found["case"] = variant
    return {**found, **_stated(draft)}


def _stated(draft: Draft) -> Values:
    """What the row's own cells state, by the names that rows have."""
    named = {"nodes", "memory", "variant", "model", "size", "dtype", "framework"}
    values = {key: stated for key, stated in draft.values.items() if key not in named}
    kind = values.get("accelerator")
    if kind is not None:
        # A cell such as "DGX-H100" names one; what names no known one stays.
        values["accelerator"] = replace(kind, text=accelerator(kind.text) or kind.text)
    values |= _named_in_cells(draft)
    memory = draft.values.get("memory")
    if memory is not None and "accelerator" in values:
        values["accelerator"] = replace(memory, text=f"{values['accelerator'].text.split('-')[0]}-{memory.text}GB")
    return values


def _of_row(title: Title, draft: Draft) -> Title:
    """The title as far as it is about the row: where the row's own cell names another model, its size is another."""
    cell = draft.values.get("model")
    named = read_title(cell.text).model if cell is not None else ""
    return title if not named or not title.model or same_model(named, title.model) else Title(model=named)


def _named_in_cells(draft: Draft) -> Values:
    """Model, size and dtype of the row's own cells: ``LLAMA3_70B`` below "Model" says two of them."""
    cells = {key: draft.values[key] for key in ("model", "size", "dtype") if key in draft.values}
    found: Values = {}
    for column, cell in cells.items():
        title = read_title(cell.text)
        for key in (column, *(other for other in ("size", "dtype") if other not in cells)):
            name = {"model": title.model, "size": title.size, "dtype": title.dtype}[key]
            if name:
                found.setdefault(key, replace(cell, text=name))
    return found


def _cells(draft: Draft, table: DraftTable) -> dict[str, Stated]:
    """What the row's own cells state of its settings, and facts cannot change; a cell of a dtype may name none."""
    own = {key: stated for key, stated in draft.values.items() if _is_in(table.table, stated)}
    return {key: stated for key, stated in own.items() if key not in {*FIGURES, "dtype"}}


def _from_facts(facts: Facts, draft: Draft, table: DraftTable, document: Document, *, is_own: bool) -> Values:
    """What facts say of a row: they fill in what is not there.

    Raises:
        ConfigurationError: They contradict what the table's own cells state.
    """
    of_rows = {key: text for key, text in facts.values.items() if key not in {"title", "release"}}
    cell = draft.values.get("model")
    if cell is not None and cell.line < table.table.line:
        cell = None  # the text above the table names it, and no cell does
    named = read_title(cell.text).model if cell is not None else ""
    if not is_own:
        # What is said of more rows than this one is of those whose cells name none.
        others = {
            "model": named,
            "dtype": "dtype" in draft.values and _is_in(table.table, draft.values["dtype"]),
            "framework": framework_of_cells(cell.text if cell is not None else "", draft.attributes),
        }
        of_rows = {key: text for key, text in of_rows.items() if not others.get(key)}
    cells = _cells(draft, table)
    for key, text in of_rows.items():
        stated = cells.get(key)
        if key == "model" and (not named or same_model(named, text)):
            continue  # a cell such as "70b" below "Model" names none
        if stated is not None and stated.text != text:
            raise ConfigurationError(
                f"facts of {document.name}: {key} is {text}, but line {stated.line} of the document states "
                f"{stated.text}; facts fill in what is not there"
            )
    return {key: Stated(text, FACT, 1) for key, text in of_rows.items()}


def _is_in(table: Table, stated: Stated) -> bool:
    """Whether a table says it itself, and not the text around it."""
    last = max((cell.line for cell in table.rows[-1]), default=table.line) if table.rows else table.line
    return table.line <= stated.line <= last


def _from_prose(values: Values, draft: Draft, prose: Prose) -> Values:
    """What the document says of all its rows, for where nothing nearer does."""
    found: Values = {}
    kind = _text(values, "accelerator")
    # What a document says of a DGX H100 does not hold for its GB200.
    if prose.gpus_per_node is not None and not (kind.startswith("GB") and gpus_per_node(kind)):
        found["gpus_per_node"] = prose.gpus_per_node
    nodes, gpus = draft.values.get("nodes"), draft.values.get("gpus")
    if nodes is not None and gpus is not None and int(gpus.text) % int(nodes.text) == 0:
        found["gpus_per_node"] = replace(nodes, text=str(int(gpus.text) // int(nodes.text)))
    if prose.statistic is not None and "statistic" not in draft.blanks:
        found["statistic"] = prose.statistic
    if prose.tolerance is not None:
        found["tolerance"] = replace(prose.tolerance, text=f"{prose.tolerance.text}%")
    return found


def _log_format(values: Values, table: DraftTable, section: Section) -> Values:
    """The log format, where it is not the one that the framework has by itself."""
    framework = _text(values, "framework")
    # DeepSpeed may run within Megatron, whose training loop and log it is then.
    if framework == "deepspeed" and any("megatron" in heading.lower() for heading in table.table.headings):
        return {"log_format": Stated("megatron", table.table.line, 1)}
    found = section.framework
    if not found.log_format or framework != found.framework:
        return {}
    return {"log_format": Stated(found.log_format, found.log_line, 1)}


def _by_convention(values: Values, recipe: RecipeKeys, draft: Draft) -> Values:
    """What recipes leave unsaid because everybody knows it."""
    here = Stated("", CONVENTION, 1)
    found: Values = {}
    per_node = values.get("gpus_per_node")
    usual = gpus_per_node(_text(values, "accelerator"))
    if per_node is None and usual is not None:
        per_node = found["gpus_per_node"] = replace(here, text=str(usual))
    nodes = draft.values.get("nodes")
    if nodes is not None and per_node is not None:
        found["gpus"] = replace(nodes, text=str(int(nodes.text) * int(per_node.text)))
    of_saves = SAVE_TIME.key in values and STEP_TIME.key not in values
    if of_saves:
        found["metric"] = replace(here, text=SAVE_TIME.name)
    if "steps" not in recipe:
        fewest = 1 if of_saves else fewest_steps(values)
        if fewest is not None:
            found["min_steps"] = replace(here, text=str(fewest))
    return found


def _text(values: Mapping[str, Stated], key: str) -> str:
    return values[key].text if key in values else ""


def _proxy(values: Mapping[str, Stated], table: DraftTable, prose: Prose) -> Values:
    """Whether the row is of a smaller stand-in: by the table's title, or below the scale that the document names."""
    below, gpus = prose.proxy_below, values.get("gpus")
    small = below is not None and gpus is not None and int(gpus.text) < int(below.text)
    if not small and not table.title.proxy:
        return {}
    return {"proxy": replace(below or Stated("", table.table.line, 1), text="true")}


def _wide_facts(table: DraftTable, facts: DocumentFacts, values: Values) -> list[Facts]:
    """The facts that hold for more than a row, from the widest to the nearest."""
    path = "/".join(values[key].text if key in values else "unknown" for key in ("framework", "model"))
    files = [given for name, given in facts.files.items() if name.startswith(path)]
    return [facts.whole, *files, facts.tables.get(table.table.line, Facts())]


def _row_facts(facts: DocumentFacts, line: int, gpus: Stated | None) -> Facts:
    """The facts of one row: by its line and GPUs, or by its line alone."""
    by_gpus = facts.rows.get((line, int(gpus.text))) if gpus is not None and gpus.text else None
    return by_gpus or facts.rows.get((line, None), Facts())


def _judged_line(draft: Draft, values: Mapping[str, Stated]) -> Stated:
    """The line of the figure that the verdict rests on."""
    first = SAVE_TIME.key if _text(values, "metric") == SAVE_TIME.name else STEP_TIME.key
    place = _figure(draft, (first, *(key for key in FIGURES if key in JUDGED)))
    return replace(place, text=str(place.line))


def _figure(draft: Draft, keys: Iterable[str]) -> Stated:
    """The first of these figures that the draft has; what stands in its place where it has none."""
    values = draft.values
    found = next((values[key] for key in (*keys, "expected_failure") if key in values), None)
    return found or next(iter(values.values()))


def _framework(draft: Draft, table: DraftTable, section: Section) -> Stated | None:
    """The framework: of the run's own cells, else of the evidence for its table."""
    here = Stated("", table.table.line, 1)
    stated = draft.values.get("framework")
    if stated is not None:
        return replace(here, text=framework_of(stated.text) or stated.text.lower())
    of_cells = framework_of_cells(draft.values["model"].text if "model" in draft.values else "", draft.attributes)
    if of_cells:
        return replace(here, text=of_cells)
    found = section.framework
    # A run of a table about DeepSpeed, with DeepSpeed switched off, is one of the framework below it.
    if found.framework == "deepspeed" and draft.attributes.get("ds", "").upper() in {"N", "NO"}:
        return replace(here, text="megatron")
    return Stated(found.framework, found.line, 1) if found.framework else None


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
    """The known model that the document's first heading names, such as "GPT2 Experiments"; else one with a number."""
    heading = next((line for line in document.lines if re.match(r"#\s+\S", line)), "")
    named = {read_title(match[0]).model for match in FAMILY.finditer(heading)}
    if named:
        return named.pop() if len(named) == 1 else ""
    match = re.match(r"#\s+(?P<name>(?:[A-Za-z]+[- ]?[0-9]+(?:\.[0-9]+)?)) ", heading)
    return read_title(match["name"]).model if match is not None else ""
