"""A document becomes rows, from its cells, declared facts, and conventions; missing values are left blank."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from inspect import signature
from pathlib import Path, PurePosixPath

from pytest_gsw.common.groups import grouped
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.hardware import gpus_per_node
from pytest_gsw.importing.arithmetic import FORMULAS, Finding, findings
from pytest_gsw.importing.facts import DocumentFacts, Facts
from pytest_gsw.importing.rows import CONVENTION, FACT, UNSAID, DocumentRow, Draft, RowFile, read_rows, with_cases
from pytest_gsw.importing.tables import FIGURES, Remark, parse_document
from pytest_gsw.importing.writer import flow_text, yaml_text
from pytest_gsw.tables.metrics import DOCUMENTED, FURTHER, SAVE_TIME, STEP_TIME, THROUGHPUTS, VALUE
from pytest_gsw.tables.releases import NEMO
from pytest_gsw.tables.stated_rows import StatedRow
from pytest_gsw.tables.yaml_values import Stated, read_text

#: Keys without which a row cannot run; if neither document nor facts have one, the YAML has a blank.
_NEEDED = ("model", "framework", "dtype", "accelerator", "gpus", "gpus_per_node", "sequence_length")
_DIRECTORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Imported:
    """The result of importing one document."""

    #: The document's name in the rows' source.
    name: str
    files: tuple[RowFile, ...]
    #: Parts of the document that are not read.
    left_out: tuple[Remark, ...] = ()
    #: Findings for the user.
    remarks: tuple[Remark, ...] = ()
    #: True if facts name the document.
    is_declared: bool = False

    @property
    def rows(self) -> tuple[StatedRow, ...]:
        """The rows with their places in the document."""
        return tuple(row.to_stated(self.name) for file in self.files for row in file.rows)

    @property
    def blanks(self) -> Iterator[tuple[str, str, str, str]]:
        """Missing values with reasons: by YAML file, row id and key."""
        for file in self.files:
            for row in file.rows:
                yield from ((file.path, row.id, key, reason) for key, reason in row.blanks.items())

    @property
    def yaml_text(self) -> Mapping[str, str]:
        """The text of each YAML file, by its relative name."""
        return {file.path: yaml_text(file, self.name) for file in self.files}


def import_document(path: Path, facts: DocumentFacts, *, checked: bool = True) -> Imported:
    """Read one document; contradicting figures are refused unless ``checked`` is false.

    Raises:
        ConfigurationError: It cannot be read; or there are facts of a missing table, row or file; or facts contradict a
            cell.
    """
    code = {line: table.given["code"] for line, table in facts.tables.items() if "code" in table.given}
    document = parse_document(read_text(path), code)
    read = read_rows(document, facts)
    drafts = read.drafts
    for draft in drafts:
        _count_gpus(draft, facts)
    _check_facts(facts, drafts, {one.table.line for one in read.settings})
    completed = [_complete(draft, facts, path) for draft in drafts]
    found = [[one for one in findings([row.to_stated("")]) if checked and one.must_be_settled] for row in completed]
    rows = [_without_refuted(row, wrong) if wrong else row for row, wrong in zip(completed, found, strict=True)]
    named_rows = []
    for draft, whole, wrong, (row, note) in zip(drafts, completed, found, with_cases(rows), strict=True):
        named_rows.append(replace(row, comments=(*row.comments, f"case: {note}")) if note else row)
        if note:
            read.remark(draft.line, f"{row.id}: {note}")
        for one in wrong:
            add = _fact_to_add(draft, one.line_to_add, STEP_TIME.key)
            read.remark(one.line, f"{row.id}: refused: {one.text}", add)
        for key, refusal in draft.refused.items():
            if not whole.states(key):
                where = "" if refusal.line == draft.line else f"; the row's own line is {draft.line}"
                text = refusal.text if refusal.add else f"{row.id}, {key}: refused: {refusal.text}{where}"
                read.remark(refusal.line, text, refusal.add or _fact_to_add(draft, f"{key}: VALUE", key))
    remarks = sorted(read.remarks, key=lambda one: one.line)
    return Imported(
        facts.name, _files(named_rows, facts), tuple(read.left_out), tuple(remarks), "document" in facts.whole.given
    )


def _fact_to_add(draft: Draft, fact: str, key: str) -> str:
    """The line of facts.yaml with a fact of one row, or of all rows of a line if it is no figure."""
    told = "".join(f"{name}: {flow_text(text)}, " for name, text in draft.selecting(key).items() if text)
    return f"tables: [{{line: {draft.table.line}, rows: [{{line: {draft.line}, {told}{fact}}}]}}]"


# ---- One row ---------------------------------------------------------------------------------------


def _complete(draft: Draft, facts: DocumentFacts, path: Path) -> DocumentRow:
    """One row with all its known values."""
    whole, of_table = facts.whole, facts.tables.get(draft.table.line, Facts())
    values = {key: stated for key, stated in draft.values.items() if stated is not None}
    of_row = facts.of_row(draft.line, draft.selecting())
    if draft.own_figures is not None:
        others = FIGURES - draft.own_figures
        of_row = Facts({key: value for key, value in of_row.given.items() if key not in others})
    for key in _replaced_cells(draft, of_row, facts.name):
        del values[key]
    absent = {key for key, stated in draft.values.items() if stated is None}
    file = facts.files.get(
        _path_of(_texts(_with_facts(values, of_row, of_row.over(of_table).over(whole), absent)), facts), Facts()
    )
    merged = of_row.over(of_table).over(file).over(whole)
    values = _with_facts(values, of_row, merged, absent)
    values |= _flops(values, merged.mapping("architecture"), of_row)
    usual = gpus_per_node(_texts(values).get("accelerator", ""))
    if "gpus_per_node" not in values and usual is not None:
        values["gpus_per_node"] = Stated(str(usual), CONVENTION, 1)
    if SAVE_TIME.key in values and "metric" not in values:
        values["metric"] = Stated(SAVE_TIME.name, CONVENTION, 1)
    named = values["metric"].text if "metric" in values else ""
    # A rate for each GPU is one of training unless the metric names it.
    metrics = {key: values.pop(key) for key in FURTHER if key in values and (key == named or key not in DOCUMENTED)}
    judged = named or next(iter(metrics), "")
    if judged in metrics and not values.keys() & {*DOCUMENTED}:
        values |= {"metric": replace(metrics[judged], text=judged), VALUE: metrics.pop(judged)}
    values["line"] = Stated(str(draft.line), draft.line, 1)
    blanks = _blanks(values, draft)
    written = merged.mapping("recipe").items()
    recipe = {k: Stated(v, FACT, 1) if isinstance(v, str) else v for k, v in written}
    recipe.setdefault("directory", Stated(_directory(facts.name, path), CONVENTION, 1))
    names = [key for key in values if key.startswith("attributes.")]
    attributes = {key.partition(".")[2]: values.pop(key).text for key in names}
    return DocumentRow(
        {**values, **{key: Stated("", draft.line, 1) for key in blanks}},
        attributes={**attributes, **merged.mapping("attributes")},
        metrics={key: stated.text for key, stated in metrics.items()},
        recipe=recipe,
        acknowledged=of_row.mapping("acknowledged"),
        known=merged.mapping("acknowledged"),
        comments=tuple(of_row.text("comment").splitlines()),
        blanks=blanks,
        table_line=draft.table.line,
        title=of_table.text("title") or draft.title or facts.name,
        section=" / ".join(one.text for one in draft.table.headings),
    )


def _count_gpus(draft: Draft, facts: DocumentFacts) -> None:
    """Replace a count of nodes by one of GPUs."""
    nodes = draft.values.pop("nodes", None)
    if "nodes" in draft.refused:
        draft.refused.setdefault("gpus", draft.refused.pop("nodes"))
    declared = facts.tables.get(draft.table.line, Facts()).over(facts.whole).values.get("gpus_per_node")
    of_node = draft.text("gpus_per_node") or declared or gpus_per_node(draft.text("accelerator"))
    if nodes is not None and of_node:
        draft.add_missing({"gpus": replace(nodes, text=str(int(nodes.text) * int(of_node)))})


def _texts(values: Mapping[str, Stated]) -> dict[str, str]:
    return {key: stated.text for key, stated in values.items()}


def _with_facts(values: Mapping[str, Stated], of_row: Facts, merged: Facts, absent: set[str]) -> dict[str, Stated]:
    """The values with declared facts for missing cells. A case always comes from facts, a figure from its row's."""
    left_out = (FIGURES - of_row.values.keys()) | (absent - FIGURES - {"gpus", "case"})
    found = {key: Stated(text, FACT, 1) for key, text in merged.values.items() if key not in left_out}
    return {**found, **values, **({"case": found["case"]} if "case" in found else {})}


def _replaced_cells(draft: Draft, of_row: Facts, name: str) -> set[str]:
    """The cells that facts of the row replace: those that its other figures contradict.

    Raises:
        ConfigurationError: A fact differs from a cell without a contradiction.
    """
    stated = {key: stated for key, stated in draft.values.items() if stated is not None}
    differing = {
        k: s for k, s in stated.items() if of_row.values.get(k, s.text) != s.text and k not in {"gpus", "case"}
    }
    row = StatedRow("", name, stated)
    wrong = {one.key for one in findings([row]) if one.is_contradiction} if differing else set()
    wrong |= {STEP_TIME.key} if wrong & {*THROUGHPUTS} else set()
    for key, cell in differing.items():
        if key not in wrong:
            raise ConfigurationError(
                f"facts of {name}: {key} is {of_row.values[key]}, but line {cell.line} of the document states "
                f"{cell.text}; facts fill in missing cells, or replace those that the row's other figures contradict"
            )
    return set(differing)


def _flops(values: Mapping[str, Stated], architecture: Mapping[str, str], of_row: Facts) -> dict[str, Stated]:
    """Model FLOPs of a sample by the declared formula, if none are declared, or only those of another depth."""
    texts, numbers = _texts(values), {key: str(value) for key, value in architecture.items()}
    depth, full = texts.get("layers", ""), numbers.get("layers", "")
    is_smaller = bool(depth and full) and int(depth) < int(full)
    found = {"proxy": Stated("true", FACT, 1)} if is_smaller else {}
    name, size = numbers.get("formula", ""), re.fullmatch(r"([0-9.]+)b", texts.get("size", ""))
    is_known = "model_flops" in of_row.values or ("model_flops" in texts and not is_smaller)
    if is_known or not name or SAVE_TIME.key in texts:
        return found
    numbers |= {"layers": depth or full, "sequence_length": texts.get("sequence_length", "")}
    numbers |= {"parameters": f"{Decimal(size[1]) * 10**9:.0f}"} if size else {}
    formula = FORMULAS[name]
    inputs = {key: int(numbers[key]) for key in signature(formula).parameters if numbers.get(key)}
    if inputs.keys() == signature(formula).parameters.keys():
        flops = formula(**inputs)
        text = f"{Decimal(flops).normalize():e}" if name == "gpt2" else str(int(flops))
        found["model_flops"] = Stated(text, FACT, 1)
    return found


def _blanks(values: Mapping[str, Stated], draft: Draft) -> dict[str, str]:
    """The missing keys that the row needs to run, with reasons."""
    refused = {key: refusal.text for key, refusal in draft.refused.items() if key not in values}
    unneeded = {"sequence_length"} if VALUE in values else set()
    blanks = {key: refused.get(key, UNSAID) for key in _NEEDED if key not in {*values, *unneeded}}
    gpus, per_node = (int(values[key].text) if key in values else 0 for key in ("gpus", "gpus_per_node"))
    if per_node and gpus > per_node and gpus % per_node:
        blanks["gpus_per_node"] = f"{gpus} GPUs do not fill whole nodes of {per_node}"
    # Not each model has a size in its name; an unreadable one is a fault.
    blanks |= {key: refused[key] for key in ("size", STEP_TIME.key, SAVE_TIME.key) if key in refused}
    if {STEP_TIME.key, SAVE_TIME.key, VALUE, "expected_failure"} & {*values, *blanks}:
        return blanks
    stated = next((key for key in THROUGHPUTS if key in values), None)
    if stated is None:
        unread = next((key for key in THROUGHPUTS if key in refused), STEP_TIME.key)
        blanks[unread] = refused.get(unread, UNSAID)
    elif "global_batch_size" not in values:
        blanks["global_batch_size"] = f"{UNSAID}, and the step time follows from it and {stated}"
    return blanks


def _directory(name: str, path: Path) -> str:
    """The recipe's directory: that of its README, if facts name it."""
    parent = str(PurePosixPath(name).parent)
    if parent == "." and path.name.lower().startswith("readme"):
        parent = Path(os.path.realpath(path)).parent.name
    return parent if _DIRECTORY.fullmatch(parent) else ""


# ---- Files -----------------------------------------------------------------------------------------


def _path_of(texts: Mapping[str, str], facts: DocumentFacts) -> str:
    """The YAML file of a row if all rows of its framework and model have its size, or facts name that file."""
    framework, model = (texts.get(key) or "unknown" for key in ("framework", "model"))
    sized = _path(framework, f"{model}_{texts.get('size', '')}", facts)
    return sized if sized in facts.files else _path(framework, model, facts)


def _path(framework: str, name: str, facts: DocumentFacts) -> str:
    form = facts.whole.text("path") or "{framework}/{model}.yaml"
    return form.replace("{framework}", framework).replace("{model}", name)


def _files(rows: Sequence[DocumentRow], facts: DocumentFacts) -> tuple[RowFile, ...]:
    """Rows by file: one for each framework and model, named after the workload if it has one size.

    Raises:
        ConfigurationError: There are facts of a file that is none of these.
    """

    def key(row: DocumentRow) -> tuple[str, str, str, str]:
        release = row.text("release") if "by_release" in facts.whole.given else ""
        return release, row.text("framework") or "unknown", row.text("model") or "unknown", row.text("log_format")

    groups = grouped([(key(row), row) for row in rows])
    often = Counter(group[:3] for group in groups)
    files = []
    for (release, framework, model, log_format), members in groups.items():
        sizes = {row.text("size") for row in members}
        name = f"{model}_{sizes.pop()}" if len(sizes) == 1 and "" not in sizes else model
        # A file has one log format.
        name += f"-{log_format}" if log_format and often[release, framework, model] > 1 else ""
        path = _path(framework, name, facts)
        of_file = facts.files.get(path, Facts())
        comments = filter(None, (facts.whole.text("comment"), of_file.text("comment")))
        merged = Facts({"comment": "\n\n".join(comments)}).over(of_file).over(facts.whole)
        if release:
            prefix = NEMO if facts.whole.given["by_release"] == "nemo" else ""
            path, merged = f"{release}/{path}", Facts({"releases": (f"{prefix}{release}",)}).over(merged)
        files.append(RowFile(path, tuple(members), merged, facts.tables))
    for path in facts.files:
        if path not in {file.path for file in files}:
            there = ", ".join(sorted(file.path for file in files)) or "none"
            raise ConfigurationError(f"facts of a file {path}, which {facts.name} does not give; it gives: {there}")
    return tuple(sorted(files, key=lambda file: file.path))


def _check_facts(facts: DocumentFacts, drafts: Sequence[Draft], settings: set[int]) -> None:
    """Refuse facts of missing tables and rows: they are of another release.

    Raises:
        ConfigurationError: There is no such table or row in the document.
    """
    tables = {draft.table.line for draft in drafts} | settings
    for line in facts.tables:
        if line not in tables:
            found = ", ".join(map(str, sorted(tables))) or "none"
            raise ConfigurationError(
                f"facts of a table at line {line} of {facts.name}, where there is none; tables of rows are at: {found}"
            )
    for line, of_row in facts.rows:
        if not any(line == draft.line and not of_row.differs(draft.selecting()) for draft in drafts):
            of_gpus = f" of {of_row.values['gpus']} GPUs" if "gpus" in of_row.values else ""
            raise ConfigurationError(f"facts of a row{of_gpus} at line {line} of {facts.name}, where there is none")


# ---- Contradictions --------------------------------------------------------------------------------


def _without_refuted(row: DocumentRow, found: Sequence[Finding]) -> DocumentRow:
    """The row without a figure that others contradict; a step time and a throughput refute each other."""
    values, blanks, comments = dict(row.values), dict(row.blanks), list(row.comments)
    for finding in found:
        at = int(row.text("line"))
        comments.append(f"{finding.key}: refused: {finding.text} (line {at})")
        values.pop(finding.key, None)
        if finding.key in THROUGHPUTS and STEP_TIME.key in values:
            blanks[STEP_TIME.key] = f"{finding.text} (line {at} of the document)"
        elif finding.key not in FIGURES:
            blanks[finding.key] = f"{finding.text} (line {at} of the document)"
    values |= {key: Stated("", int(row.text("line")), 1) for key in blanks}
    return replace(row, values=values, blanks=blanks, comments=tuple(comments))
