"""Rows become the text of a YAML table: each key at the outermost level where it is equal for all, figures in columns.

The text is written here, and not by a YAML library, for the comments and the columns: reviewers compare the tables with
the document.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pytest_gsw.importing.facts import Facts
from pytest_gsw.importing.rows import CONVENTION, FACT, UNSAID, DocumentRow, RecipeKey, RowFile
from pytest_gsw.tables import bundled, load, metrics
from pytest_gsw.tables.yaml_values import Stated

#: Keys of rows in the order in which they are written; figures last.
_ORDER = (
    *("gpus", "size", "case", "dtype", "accelerator", "gpus_per_node", "sequence_length", "layers"),
    *("tp", "pp", "vp", "cp", "ep", "dp", "fsdp"),
    *("gradient_accumulation_steps", "micro_batch_size", "global_batch_size", "proxy", "model_flops"),
    *("metric", "at", "statistic", "min_steps", "tolerance", "loss", "max_gain"),
    *(*metrics.DOCUMENTED, metrics.VALUE),
    *("expected_failure", "notes"),
)
_HEAD = ("model", "size", "framework", "log_format", "dtype", "accelerator", "gpus_per_node")
_TABLE_KEYS = tuple(dict.fromkeys(("release", "dtype", *_HEAD, *_ORDER, "line")))
_LAST_KEYS = ("model", "framework", "log_format", "line")
#: Keys that are always written at the row, where readers look for them.
_ROW_KEYS = frozenset({"gpus", *metrics.DOCUMENTED, metrics.VALUE, "case", "notes", "proxy", "expected_failure"})
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%:+\[\]-]*")
_AMBIGUOUS = frozenset({"null", "~", "none"})
_WIDTH = 160
#: The schema is in the directory of the tables, each of which is in the directory of its framework.
SCHEMA_LINE = f"# yaml-language-server: $schema=../{bundled.SCHEMA_FILE}"


def yaml_text(file: RowFile, document: str) -> str:
    """The YAML of one file."""
    rows, facts = file.rows, file.facts
    tables = [list(table) for _, table in groupby(rows, key=lambda row: row.table_line)]
    shared = _common_values(rows, (*_HEAD, *_ORDER, "release"))
    recipe = _common_recipe(rows)
    lines = [SCHEMA_LINE, *_head_comment(document, tables, facts.text("comment")), ""]
    lines += [_line(key, shared[key], rows) for key in _HEAD if key in shared]
    lines.append(f"document: {_scalar(document)}")
    if "release" in shared:
        lines.append(_line("release", shared["release"], rows))
    elif facts.text("release"):
        lines.append(f"release: {_scalar(facts.text('release'))}")
    if "releases" in facts.given:
        lines.append(f"releases: [{', '.join(map(_quote, facts.given['releases']))}]")
    lines += _recipe(recipe, "")
    lines += _acknowledgements(facts.mapping("acknowledged"), "")
    of_file = [key for key in _ORDER if key in shared and key not in {*_HEAD, "model_flops"}]
    if "architecture" in facts.given:
        lines += ["", "architecture:", *(f"  {key}: {text}" for key, text in facts.given["architecture"].items())]
    if "model_flops" in shared:
        lines.append(_line("model_flops", shared["model_flops"], rows))
    if any(row.text("activation_recomputation") == "true" for row in rows):
        lines.append("activation_recomputation: true")
    if of_file:
        lines += ["", *(_line(key, shared[key], rows) for key in of_file)]
    lines += ["", "tables:"]
    for number, table in enumerate(tables):
        lines += [""] if number else []
        lines += _table(table, file.tables.get(table[0].table_line, Facts()), set(shared), recipe)
    return "\n".join(lines) + "\n"


def _head_comment(document: str, tables: Sequence[Sequence[DocumentRow]], comment: str) -> Iterator[str]:
    places = [str(table[0].table_line) for table in tables]
    where = f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else places[0]
    noun = "tables at lines" if len(places) > 1 else "table at line"
    text = (
        f"{document}, {noun} {where}, as imported. Figures are the document's, digit for digit; 'line' is "
        "that of the judged figure. Behind a key from elsewhere is its line; what has none is declared."
    )
    yield from (f"# {line}" for line in textwrap.wrap(text, 118, break_long_words=False))
    if any(row.blanks for table in tables for row in table):
        yield "#"
        yield "# BLANK marks what the document does not say: until it is filled in, the row is an error."
    if comment:
        yield "#"
        yield from _comment(comment, "")


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"{indent}# {line}".rstrip()


def _common_values(rows: Sequence[DocumentRow], keys: Iterable[str]) -> dict[str, Stated]:
    """The keys with one value for all rows."""
    found = {}
    for key in keys:
        texts = {row.values[key].text if key in row.values else None for row in rows}
        reasons = {row.blanks.get(key) for row in rows}
        # Facts replace a cell at its row alone.
        stays_at_row = key in _ROW_KEYS or not reasons <= {None, UNSAID} or len(reasons) > 1
        if key == "gpus" and None not in texts:
            # A count from outside the table is written above the rows, with its line.
            stays_at_row = any(not row.values[key].text or row.values[key].line in _own_lines(rows) for row in rows)
        if len(texts) == 1 and None not in texts and not stays_at_row:
            found[key] = rows[0].values[key]
    if len(rows) == 1:
        found.pop("line", None)
    return found


def _common_recipe(rows: Sequence[DocumentRow]) -> dict[str, RecipeKey]:
    first = rows[0].recipe
    return {key: value for key, value in first.items() if all(row.recipe.get(key) == value for row in rows)}


def _line(key: str, stated: Stated, rows: Sequence[DocumentRow]) -> str:
    """One key of a file or a table."""
    if not stated.text:
        reason = next(row.blanks[key] for row in rows if key in row.blanks)
        return f"{key}:{load.BLANK_BEHIND}{_printable(reason)}"
    source = "" if key == "line" else _source(key, stated, rows)
    return f"{key}: {_value(key, stated.text)}{source}"


def _source(key: str, stated: Stated, rows: Sequence[DocumentRow] = ()) -> str:
    """The source of a value, as a comment; values of the table itself need none."""
    if stated.line == CONVENTION:
        return "  # the document does not say: by convention"
    own = _own_lines(rows)
    if stated.line == FACT or stated.line in own:
        return ""
    lines = sorted({row.values[key].line for row in rows if key in row.values} - {FACT, CONVENTION})
    if len(lines) > 1:
        # Each row has its own, such as that of its line of a table of settings.
        places = [line for line in lines if line not in own]
        return f"  # lines {places[0]} {'and' if len(places) == 2 else 'to'} {places[-1]}" if len(places) > 1 else ""
    return f"  # line {stated.line}"


def _own_lines(rows: Iterable[DocumentRow]) -> set[int]:
    """The lines of the rows' table that are read for them: its header, and those of their judged figures."""
    return {line for row in rows for line in (row.table_line, int(row.values["line"].text))}


#: Keys of a recipe in the order in which they are written.
_RECIPE_KEYS = (
    *("directory", "script", "launcher", "steps", "logged_steps", "steps_before", "one_job_per_row", "image"),
    *("arguments", "environment"),
)


def _recipe(recipe: Mapping[str, RecipeKey], indent: str) -> Iterator[str]:
    if not recipe:
        return
    yield f"{indent}recipe:"
    for key in _RECIPE_KEYS:
        value = recipe.get(key)
        if isinstance(value, Stated):
            blank = f"{load.BLANK_BEHIND}{UNSAID}"
            yield f"{indent}  {key}: {_scalar(value.text)}".rstrip() + (_source(key, value) if value.text else blank)
        elif isinstance(value, tuple):
            yield f"{indent}  {key}: [{', '.join(map(_quote, value))}]"
        elif value:
            yield f"{indent}  environment:"
            yield from (f"{indent}    {name}: {_quote(text)}" for name, text in value.items())


def _acknowledgements(acknowledged: Mapping[str, str], indent: str) -> Iterator[str]:
    if acknowledged:
        yield f"{indent}acknowledged:"
        yield from (f"{indent}  {name}: {_quote(reason)}" for name, reason in acknowledged.items())


def _table(
    rows: Sequence[DocumentRow], facts: Facts, of_file: set[str], recipe: Mapping[str, RecipeKey]
) -> Iterator[str]:
    shared = {key: stated for key, stated in _common_values(rows, _TABLE_KEYS).items() if key not in of_file}
    first = rows[0]
    yield from _comment(facts.text("comment"), "  ")
    yield f"  - title: {_quote(first.title)}{load.TABLE_AT_LINE}{first.table_line}"
    yield from [f"    section: {_quote(first.section)}"] if first.section else []
    yield from (f"    {_line(key, stated, rows)}" for key, stated in shared.items())
    yield from _recipe({key: value for key, value in _common_recipe(rows).items() if key not in recipe}, "    ")
    yield from _acknowledgements(facts.mapping("acknowledged"), "    ")
    yield "    rows:"
    yield from _rows(rows, of_file | shared.keys())


def _rows(rows: Sequence[DocumentRow], outside: set[str]) -> Iterator[str]:
    """Rows in columns: on one line each; if that is too long, the settings on one and the figures on the next."""
    keys = [key for key in (*_ORDER, *_LAST_KEYS) if key not in outside]
    figures = {*metrics.DOCUMENTED, metrics.VALUE, "expected_failure", "notes", "line"}
    first = _columns(rows, [key for key in keys if key not in figures])
    second = _columns(rows, [key for key in keys if key in figures])
    extra = [
        _join(_inline("metrics", row.metrics, "{{value: {}}}".format), _inline("attributes", row.attributes, _quote))
        for row in rows
    ]
    longest = max(len(a) + len(b) + len(c) for a, b, c in zip(first, second, extra, strict=True))
    previous: tuple[str, ...] = ()
    for row, left, right, more in zip(rows, first, second, extra, strict=True):
        blank = tuple(f"{load.BLANK_ABOVE}{key}: {reason}" for key, reason in row.blanks.items() if key not in outside)
        for comment in (*row.comments, *(blank if blank != previous else ())):
            yield from _comment(_printable(comment), "      ")
        previous = blank
        right = _join(right, more)
        lines = [_join(left, right)] if longest <= _WIDTH else [left, right]
        parts = filter(None, (*lines, _inline("acknowledged", row.acknowledged, _quote)))
        yield "      - {" + ",\n         ".join(part.rstrip() for part in parts) + "}"


def _join(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _columns(rows: Sequence[DocumentRow], keys: Sequence[str]) -> list[str]:
    """``key: value`` pairs, those of one key below each other; spaces where a row lacks one."""
    lines = ["" for _ in rows]
    for key in keys:
        values = [_pair(row, key) for row in rows]
        width = max((len(value) for value in values if value is not None), default=0)
        numeric = all(re.fullmatch(r"[\d.]+(?:e[+-]\d+)?%?", value) for value in values if value)
        for number, value in enumerate(values):
            if value is not None:
                lines[number] += f"{key}: {f'{value.rjust(width)},' if numeric else f'{value},'.ljust(width + 1)} "
            elif width:
                lines[number] += " " * (len(key) + 4 + width)
    return [line.rstrip().rstrip(",") for line in lines]


def _pair(row: DocumentRow, key: str) -> str | None:
    stated = row.values.get(key)
    if stated is None:
        return None
    if not stated.text:
        return "~"  # a blank: "key:," is no YAML
    return flow_text(stated.text) if "[" in stated.text else _value(key, stated.text)


def _inline(key: str, texts: Mapping[str, str], form: Callable[[str], str]) -> str:
    """A mapping on one line; empty for an empty one."""
    return f"{key}: {{{', '.join(f'{name}: {form(text)}' for name, text in texts.items())}}}" if texts else ""


def _value(key: str, text: str) -> str:
    """A key's text; another reader of YAML would make the number 26.1 of the name 26.10."""
    is_name = key in {"case", "release"} and re.fullmatch(r"[\d.]+", text)
    return _quote(text) if key == "notes" or is_name else _scalar(text)


def _scalar(text: str) -> str:
    is_plain = not text or (_PLAIN.fullmatch(text) and text.lower() not in _AMBIGUOUS)
    return text if is_plain else _quote(text)


def flow_text(text: str) -> str:
    """A text between braces, where a bracket begins a list: that of mean[5:20]."""
    return text if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", text) else _quote(text)


def _quote(text: str) -> str:
    return json.dumps(_printable(text), ensure_ascii=False)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
