"""``facts.yaml``: labels of families of documents, and declared values that no cell of a document has.

Labels are texts with places for words, and the settings that they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.groups import grouped
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.tables import FIGURES, LONGEST_CELL, SETTINGS, WORDS, Cell, is_key, read_cell
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.metrics import FURTHER, VALUE
from pytest_gsw.tables.schema import FILE_FIELDS, RECIPE_FIELDS, RELEASES, ROW_FIELDS
from pytest_gsw.tables.yaml_values import Value, read_mapping

#: The default family of a document.
USUAL = "recipes"
#: The bundled families; ``facts.yaml`` may have further ones.
BUNDLED = Path(__file__).with_name("families.yaml")

_KEY = re.compile(r"(?P<name>[A-Za-z0-9_.]+)(?: ?(?:\* ?(?P<times>[0-9]{1,6}(?:\.[0-9]{1,6})?)|(?P<percent>%)))?")
_PLACE = re.compile(r"\{([^{}]*)\}")
#: ``TP=8`` of a title, and the brackets around such.
_SETTING = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z][A-Za-z0-9_-]{0,30})[ ]?=[ ]?([A-Za-z0-9/]{1,12})(?![A-Za-z0-9.])")
_BRACKETS = re.compile(r"\([^()]*\)")


class Key(NamedTuple):
    """The key of a number or a word, without a name for none, and the factor from its unit to the key's."""

    name: str
    #: A factor, or ``%`` for percentages without the sign; empty if the unit is the key's.
    factor: str = ""

    def __str__(self) -> str:
        """The form of labels: ``gpus * 4``, ``mfu %``."""
        times = f" * {self.factor}" if self.factor else ""
        return f"{self.name}{' %' if self.factor == '%' else times}"


class Part(NamedTuple):
    """Literal text with words of known form, and the place for any text before it."""

    pattern: re.Pattern[str]
    #: Of the words.
    keys: list[Key]
    #: ``None`` if the part is the first; a key without a name for text that means nothing.
    before: Key | None


class Meaning(NamedTuple):
    """The meaning of a text: the key of the cells that it names, and values."""

    key: Key
    values: Mapping[str, Cell]


@dataclass(frozen=True)
class Label:
    """A text with places such as ``{gpus}x {accelerator} GPUs``, and its meaning."""

    text: str
    key: Key
    settings: Mapping[str, str]
    #: Empty if the text has no places.
    parts: Sequence[Part]

    def words(self, text: str) -> list[tuple[Key, str]] | None:
        """The words in the label's places; ``None`` if the text does not match.

        Each part is looked for once, from the end of the part before it: the cost is linear in the text.
        """
        words: list[tuple[Key, str]] = []
        end = 0
        for pattern, keys, before in self.parts:
            is_named = before is not None and bool(before.name)
            match = pattern.match(text, end) if before is None else pattern.search(text, end + is_named)
            if match is None:
                return None
            if before is not None and is_named:
                words.append((before, text[end : match.start()].strip()))
            words += zip(keys, match.groups(), strict=True)
            end = match.end()
        return words


@dataclass(frozen=True)
class Family:
    """The labels of one family of documents."""

    name: str
    #: By text in small letters, in order.
    labels: Mapping[str, Label] = field(default_factory=dict)

    def meaning(self, text: str, place: Cell) -> Meaning | None:
        """The meaning of a text: of the label that is equal, or else of the first that matches; ``None`` without one.

        ``# TEXT`` is a heading, ``COLUMN | TEXT`` a cell, any other text a name or a title.
        """
        kind, given = _kind(text), text.lower()
        text = (text if kind else without_settings(text))[:LONGEST_CELL]
        equal = self.labels.get(given) or self.labels.get(text.lower())
        for label in self._with_places.get(kind, ()) if equal is None else (equal,):
            words = [] if label is equal else label.words(text)
            if words is not None:
                try:
                    values = {**label.settings, **self._values(words)}
                except ValueError:
                    continue  # a word is no value of its place
                return Meaning(label.key, {key: replace(place, text=value) for key, value in values.items() if value})
        return None

    @cached_property
    def _with_places(self) -> Mapping[str, Sequence[Label]]:
        return grouped([(_kind(label.text), label) for label in self.labels.values() if label.parts])

    def _values(self, words: Sequence[tuple[Key, str]]) -> Mapping[str, str]:
        values: dict[str, str] = {}
        for key, word in words:
            known = self.labels.get(f"{key.name} | {word}".lower())
            if known is not None:
                values |= known.settings
            else:
                values[key.name] = read_cell(key.name, word, key.factor)
        return values

    def line_to_add(self, text: str, settings: str) -> str:
        """The line of facts.yaml that declares a label."""
        return f"labels: {{{self.name}: {{{json.dumps(text, ensure_ascii=False)}: {{{settings}}}}}}}"


def _kind(text: str) -> str:
    return "#" if text.startswith("# ") else "|" if " | " in text else ""


def settings_of(cell: Cell) -> list[tuple[str, Cell]]:
    """The settings in a title or a column's name, such as ``TP=8``: names and values."""
    return [(name, replace(cell, text=text)) for name, text in _SETTING.findall(cell.text[:LONGEST_CELL])]


def without_settings(text: str) -> str:
    """A title, or a column's name, without the brackets that contain settings."""
    return " ".join(_BRACKETS.sub(lambda match: "" if "=" in match[0] else match[0], text).split())


# ---- Keys of the YAML file -------------------------------------------------------------------------


def as_written(known: f.Kind) -> f.Kind:
    """The same key, whose value is checked and stays a text."""
    if not isinstance(known, f.Field):
        return known

    def read(raw: str) -> str:
        known.read(raw)
        return raw

    return replace(known, read=read, required=False, may_be_blank=False)


def _key(raw: str) -> Key | None:
    match = _KEY.fullmatch(raw)
    is_known = match is not None and is_key(match["name"])
    return Key(match["name"], match["times"] or match["percent"] or "") if match is not None and is_known else None


def _read_key(raw: str) -> str:
    if _key(raw) is None:
        near = f.nearest(raw.partition(" ")[0], sorted({*ROW_FIELDS, *FILE_FIELDS, *FURTHER, "nodes"}))
        raise ValueError(f"got '{raw}', wanted a key of a row, a metric, or one with a factor such as gpus * 4{near}")
    return raw


_LABEL: f.Fields = {
    "key": f.Field(_read_key, "a key of a row or a metric", "Key of the cells that have this name.", {}),
    **{key: as_written(ROW_FIELDS.get(key) or FILE_FIELDS[key]) for key in sorted(SETTINGS)},
}
#: ``labels`` of facts.yaml: families by their names.
LABELS = f.Nested(
    None,
    "Labels of families of documents.",
    names=r"[a-z0-9][a-z0-9._-]{0,40}",
    each=f.Nested(
        None,
        "Meaning of each text.",
        names=r"(?!(?:names|runs|titles|headings|cells)$)[^\n]{1,200}",
        wanted='a text and its meaning, as in {"GPUs": {key: gpus}, "# {release} results": {}, "GPU | h100_80gb": '
        "{accelerator: H100}}: names, runs, titles, headings and cells are one table",
        each=_LABEL,
    ),
)


def bundled_families() -> dict[str, Family]:
    """The families of pytest-gsw itself."""
    return families_of(read_mapping(BUNDLED, {"labels": LABELS})["labels"], BUNDLED)


def families_of(labels: Value, path: Path, known: Mapping[str, Family] | None = None) -> dict[str, Family]:
    """Families from facts.yaml; for a known one, these labels precede its own.

    Raises:
        ConfigurationError: A label has a place for what is no key.
    """
    families = dict(known or {})
    for name, given in labels.value.items():
        texts = {" ".join(text.split()): values for text, values in given.value.items()}
        own = {text.lower(): _label(text, values, f"{path}:{given.line}") for text, values in texts.items()}
        before = families.get(name, Family(name)).labels
        families[name] = Family(name, {**own, **{text: label for text, label in before.items() if text not in own}})
    return families


def _label(text: str, values: Mapping[str, Value], where: str) -> Label:
    settings = {key: value.value for key, value in values.items()}
    key = _key(settings.pop("key", "")) or Key("")
    first, *others = _PLACE.split(text)
    drafts: list[tuple[str, list[Key], Key | None]] = [(re.escape(first), [], None)]
    for place, literal in zip(others[::2], map(re.escape, others[1::2]), strict=True):
        known = _key(place) if place else Key("")
        if known is None:
            raise ConfigurationError(f"{where}: '{text}' has {{{place}}}, but that is no key; {{}} is any text")
        if known.name in WORDS:
            pattern, keys, before = drafts.pop()
            drafts.append((f"{pattern}({WORDS[known.name]}){literal}", [*keys, known], before))
        else:
            drafts.append((literal, [], known))
    pattern, keys, before = drafts.pop()
    drafts.append((rf"{pattern}\Z", keys, before))
    parts = [Part(re.compile(pattern, re.IGNORECASE), keys, before) for pattern, keys, before in drafts]
    return Label(text, key, settings, parts if others else ())


# ---- Declared values -----------------------------------------------------------------------------------


_SHARED: f.Fields = {
    **{key: as_written(FILE_FIELDS[key]) for key in ("model", "framework", "log_format")},
    **{key: as_written(known) for key, known in ROW_FIELDS.items() if key not in {*FIGURES, VALUE, "metrics", "line"}},
    "recipe": f.Nested(
        {key: as_written(known) for key, known in RECIPE_FIELDS.items() if key not in {"arguments", "may_fail"}},
        "How the rows are launched.",
    ),
    "comment": f.text("A comment for the YAML.", lines=True),
}
_ROW: f.Fields = {
    **_SHARED,
    **{key: as_written(ROW_FIELDS.get(key, ROW_FIELDS[VALUE])) for key in FIGURES},
    "line": f.whole("Line of the row's figure in the document.", required=True),
}
_TABLE: f.Fields = {
    **_SHARED,
    "line": f.whole("Line of the table's header in the document.", required=True),
    "title": f.text("The table's title in the YAML."),
    "code": f.Sequence_(f.whole("A line."), "Lines of the table's rows, if it is in a block of code."),
    "rows": f.Sequence_(_ROW, "Facts of single rows."),
}
_FILE_FACTS: f.Fields = {
    **_SHARED,
    "architecture": FILE_FIELDS["architecture"],
    "activation_recomputation": as_written(FILE_FIELDS["activation_recomputation"]),
}
_FILE: f.Fields = {**_FILE_FACTS, "path": f.text("The YAML file, such as maxtext/llama2_70b.yaml.", required=True)}
_DOCUMENT: f.Fields = {
    **_FILE_FACTS,
    "document": f.text("Name of the document, or the end of its path, such as grok1/README.md.", required=True),
    "labels": f.text("The family of documents whose labels it has."),
    "skip": f.Sequence_(f.text("A heading."), "Headings below which no tables are read."),
    "release": f.text("Release that the document is of, such as a tag of its repository."),
    "releases": RELEASES,
    "by_release": f.choice(
        ("recipes", "nemo"),
        "The document has sections of several releases, of the recipes or of the NeMo container: the tables of each "
        "go to a directory of its own.",
    ),
    "path": f.pattern(
        r"(?:[\w{}-][\w{}.-]*/)*[\w{}-][\w{}.-]*\.yaml",
        "a path such as {model}_site.yaml",
        "Path of the document's YAML files; {framework}/{model}.yaml by default.",
    ),
    "files": f.Sequence_(_FILE, "Facts of all rows that go to one YAML file."),
    "tables": f.Sequence_(_TABLE, "Facts of single tables."),
}
#: Every key of ``facts.yaml``.
FACTS_FIELDS: f.Fields = {"labels": LABELS, "documents": f.Sequence_(_DOCUMENT, "Facts of each document.")}


@dataclass(frozen=True)
class Facts:
    """Facts at one level, as the YAML writes them."""

    given: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, str]:
        """The values of rows."""
        return {key: value for key, value in self.given.items() if is_key(key)}

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A mapping, such as the recipe; empty if there is none."""
        return {**self.given.get(key, {})}

    def text(self, key: str) -> str:
        """A text that is no value of a row; empty if there is none."""
        return str(self.given.get(key, "")).strip("\n")

    def over(self, other: Facts) -> Facts:
        """These facts, and those of the other that are missing here."""
        far = other.given
        near = {k: {**far.get(k, {}), **v} if isinstance(v, dict) else v for k, v in self.given.items()}
        return Facts({**far, **near})

    def differs(self, values: Mapping[str, str]) -> bool:
        """True if a value is another one here."""
        return any(self.values.get(key, text) != text for key, text in values.items())


@dataclass(frozen=True)
class DocumentFacts:
    """Facts of one document."""

    #: Its name in the rows' source: its file's, or with more of its path if facts have more of it.
    name: str
    family: Family
    whole: Facts = field(default_factory=Facts)
    #: By the YAML file's path.
    files: Mapping[str, Facts] = field(default_factory=dict)
    #: By the line of the table's header.
    tables: Mapping[int, Facts] = field(default_factory=dict)
    #: With the line of the row's figure.
    rows: Sequence[tuple[int, Facts]] = ()

    def of_row(self, line: int, apart: Mapping[str, str]) -> Facts:
        """Facts of one row, by its line, and by values that select it among rows of that line, if they have them."""
        fits = [facts for at, facts in self.rows if at == line and not facts.differs(apart)]
        fits.sort(key=lambda facts: len(apart.keys() & facts.values.keys()))
        return reduce(lambda wider, facts: facts.over(wider), fits, Facts())


@dataclass(frozen=True)
class AllFacts:
    """The facts of several documents, and the known families."""

    families: Mapping[str, Family]
    documents: Mapping[str, DocumentFacts] = field(default_factory=dict)

    def of(self, name: str, family: str = USUAL, release: str = "") -> DocumentFacts:
        """The facts of a document; by default, only its name and its labels.

        Raises:
            ConfigurationError: There is no such family.
        """
        found = self.documents.get(name) or DocumentFacts(name, _find_family(self.families, family, "--labels"))
        return replace(found, whole=Facts({"release": release}).over(found.whole)) if release else found


def read_facts(path: Path | None) -> AllFacts:
    """The facts of a file, those of each document by its name; without a file, the bundled families alone.

    Raises:
        FileError: The file is wrong; it lists every fault with line and column.
        ConfigurationError: A document is there twice, or its labels are of no known family.
    """
    families = bundled_families()
    if path is None:
        return AllFacts(families)
    content = read_mapping(path, FACTS_FIELDS)
    if "labels" in content:
        families = families_of(content["labels"], path, families)
    found: dict[str, DocumentFacts] = {}
    for entry in content["documents"].value if "documents" in content else ():
        level = entry.value
        name = level["document"].value
        if name in found:
            raise ConfigurationError(f"{path}:{entry.line}: the facts of {name} are there already")
        tables: dict[int, Facts] = {}
        for table in _below(level, "tables"):
            line = table["line"].value
            tables[line] = tables.get(line, Facts()).over(_facts(table))
        rows = (row for table in _below(level, "tables") for row in _below(table, "rows"))
        of_code = ((line, Facts()) for table in tables.values() for line in table.given.get("code", ()))
        family = level["labels"].value if "labels" in level else USUAL
        found[name] = DocumentFacts(
            name=name,
            family=_find_family(families, family, f"{path}:{entry.line}"),
            whole=_facts(level),
            files={file["path"].value: _facts(file) for file in _below(level, "files")},
            tables=tables,
            rows=[*of_code, *((row["line"].value, _facts(row)) for row in rows)],
        )
    return AllFacts(families, found)


def _find_family(families: Mapping[str, Family], name: str, where: str) -> Family:
    if name not in families:
        raise ConfigurationError(f"{where}: there are no labels of '{name}'{f.nearest(name, families)}")
    return families[name]


def _below(values: Mapping[str, Value], key: str) -> Iterator[Mapping[str, Value]]:
    return (entry.value for entry in values[key].value) if key in values else iter(())


def _facts(values: Mapping[str, Value]) -> Facts:
    given = {key: value.value for key, value in values.items()}
    for key in {"recipe", "architecture"} & given.keys():
        given[key] = {name: value.value for name, value in given[key].items()}
    return Facts(given)
