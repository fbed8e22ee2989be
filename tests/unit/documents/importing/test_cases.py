"""Names of rows: release, task and what differs tell rows apart, and no line's number does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw.documents.importing import DocumentFacts, Imported, import_document
from pytest_gsw.documents.importing.cases import with_cases
from pytest_gsw.documents.importing.facts import Facts
from pytest_gsw.documents.importing.markdown import parse_document
from pytest_gsw.documents.importing.rows import extract
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.keys import ROW_FIELDS
from pytest_gsw.tables.load import load_table
from tests.unit.documents.importing.conftest import Read

HEAD = "# Summary\n\nMaxText. Judged by the last training step. A total of 50 steps.\n"
COLUMNS = "| System | #-GPUs | Precision | GBS | MBS | Sequence Length | TP | Step time (s) |\n|---|---|---|---|---|---|---|---|\n"


def table(*rows: str) -> str:
    """A table of runs; of a row only what differs from the usual is given: ``GBS=256 TP=2``."""
    return COLUMNS + "".join(f"{_row(row, number)}\n" for number, row in enumerate(rows, 1))


def _row(text: str, number: int) -> str:
    given = dict(pair.split("=") for pair in text.split())
    usual = {
        "System": "DGX-H100",
        "GPUs": "64",
        "Precision": "BF16",
        "GBS": "128",
        "MBS": "1",
        "SEQ": "4096",
        "TP": "1",
    }
    cells = {**usual, "time": f"{number}.5", **given}
    return f"| {' | '.join(cells.values())} |"


def ids(found: Imported) -> list[str]:
    return [row.id for row in found.rows]


def cases(found: Imported) -> list[str]:
    prefix = "tiny_7b_bf16[H100x64"
    assert all(row.startswith(prefix) for row in ids(found)), ids(found)
    return [row.removeprefix(prefix).strip("-]") for row in ids(found)]


def said(found: Imported) -> list[str]:
    return [f"{remark.line} {row} {remark.key}: {remark.message}" for row, remark in found.remarks]


@pytest.mark.parametrize(
    ("headings", "case"),
    [
        ("## Tiny 7B", ""),
        ("## 25.11 NeMo Container\n\n### Tiny 7B", "25.11"),
        ("## 26.04.01 NeMo Container\n\n### Tiny 7B", "26.04.01"),
        ("## 25.11\n\n### Tiny 7B, 26.02", "26.02"),
        ("## Release 0.4.2\n\n### Tiny 7B", "0.4.2"),
        ("## v0.4.2\n\n### Tiny 7B", "v0.4.2"),
        ("### Tiny 7B\n\n**26.02**", "26.02"),
        ("## Llama 3.1 and others\n\n### Tiny 7B", ""),
        ("## Of 16.50 s and 25.13\n\n### Tiny 7B", ""),
        ("## Of 125.11, 25.111 and 25.11.3.4\n\n### Tiny 7B", ""),
        ("## Pre-Training\n\n### Tiny 7B", ""),
        ("## SFT Performance\n\n### Tiny 7B", "sft"),
        ("## LoRA fine-tuning\n\n### Tiny 7B", "lora"),
        ("## Supervised Fine-Tuning (SFT)\n\n### Tiny 7B", "sft"),
        ("## Finetuning\n\n### Tiny 7B", "finetuning"),
        ("## SFT and LoRA\n\n### Tiny 7B", "finetuning"),
        ("## Pretraining and finetuning\n\n### Tiny 7B", ""),
        ("## Finetuning\n\n### Pretraining, Tiny 7B", ""),
        ("## 26.06 NeMo Container\n\n### LoRA Performance\n\n#### Tiny 7B", "26.06-lora"),
    ],
)
def test_release_and_task_of_the_section_are_always_part_of_the_case(read: Read, headings: str, case: str) -> None:
    assert cases(read(f"{HEAD}\n{headings}\n\n{table('GBS=128')}")) == [case]


def test_each_table_has_its_own_release(read: Read, tmp_path: Path) -> None:
    text = HEAD + "".join(f"\n## {name} Container\n\n### Tiny 7B\n\n{table('GBS=128')}" for name in ("26.02", "25.11"))
    found = read(text)
    (yaml,) = found.yaml_text.values()
    assert yaml.count('    release: "26.02"  # line 5\n') == yaml.count('    release: "25.11"  # line 13\n') == 1
    assert yaml.count('case: "26.02"') == yaml.count('case: "25.11"') == 1
    (tmp_path / "tiny.yaml").write_text(yaml)
    releases = {row.id: row.source.release for row in load_table(tmp_path / "tiny.yaml")}
    assert releases == {"tiny_7b_bf16[H100x64-26.02]": "26.02", "tiny_7b_bf16[H100x64-25.11]": "25.11"}


def test_a_release_that_all_rows_have_stands_at_the_file(read: Read) -> None:
    text = f"{HEAD}\n## 26.02 Container\n\n### Tiny 7B\n\n{table('GBS=128')}"
    (yaml,) = read(text).yaml_text.values()
    assert '\ndocument: tiny.md\nrelease: "26.02"  # line 5\n' in yaml
    told = DocumentFacts(whole=Facts({"release": "v1"}))
    (yaml,) = read(text, facts=told).yaml_text.values()
    assert '\nrelease: "26.02"  # line 5\n' in yaml
    (yaml,) = read(text + f"\n## Others\n\n### Tiny 7B\n\n{table('GBS=256')}", facts=told).yaml_text.values()
    assert "\nrelease: v1\n" in yaml
    assert '    release: "26.02"  # line 5\n' in yaml
    assert "tiny_7b_bf16[H100x64]" in ids(read(text.replace("26.02 ", ""), facts=told))


@pytest.mark.parametrize(
    ("of_settings", "of_rows", "joined"),
    [
        ("26.02", "26.02", True),
        ("25.11", "26.02", False),
        ("All releases", "26.02", True),
        ("25.11", "Others", False),
        ("LoRA", "LoRA", True),
        ("LoRA", "Pre-Training", False),
        ("LoRA", "Others", False),
        ("Pre-Training", "Others", True),
        ("Settings", "LoRA", True),
        ("26.02, LoRA", "26.02, SFT", False),
    ],
)
def test_settings_are_joined_to_rows_of_their_own_release_and_task(
    read: Read, of_settings: str, of_rows: str, joined: bool
) -> None:
    rows = "| Maxtext Tiny 7b BF16 | 64x H100 GPUs (GBS=128) |\n|---|---|\n| Training step time (s) | 2.5 |\n"
    text = f"{HEAD}\n## {of_rows}\n\n{rows}\n## {of_settings}\n\n| GPUs | TP | PP |\n|---|---|---|\n| 64 | 4 | 2 |\n"
    (row,) = read(text).rows
    assert ("tp" in row.values) == joined


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["GBS=128", "GBS=256"], ["gbs128", "gbs256"]),
        (["GBS=128 TP=2", "GBS=256 TP=4"], ["gbs128", "gbs256"]),
        (["TP=1", "TP=n/a"], ["tp1", ""]),
        (["SEQ=4096", "SEQ=8192 GBS=64", "SEQ=8192 GBS=32"], ["seq4096", "seq8192-gbs64", "seq8192-gbs32"]),
        (["Precision=BF16", "Precision=BF16-MX"], ["", "mx"]),
        (["System=DGX-H100", "System=HGX-H100"], ["dgx", "hgx"]),
        (["GBS=128", "GBS=128"], ["", "run2"]),
        (["GBS=128", "GBS=256", "GBS=256", "GBS=256"], ["gbs128", "gbs256", "gbs256-run2", "gbs256-run3"]),
    ],
)
def test_what_differs_tells_rows_apart(read: Read, rows: Sequence[str], told: Sequence[str]) -> None:
    assert cases(read(f"{HEAD}\n## Tiny 7B\n\n{table(*rows)}")) == told


def test_a_row_that_is_added_renames_those_alone_that_it_is_like(read: Read) -> None:
    rows = ["SEQ=4096 GBS=128", "SEQ=8192 GBS=64", "SEQ=2048 GBS=256"]
    before = cases(read(f"{HEAD}\n## Tiny 7B\n\n{table(*rows)}"))
    after = cases(read(f"{HEAD}\n## Tiny 7B\n\n{table(*rows, 'SEQ=8192 GBS=32')}"))
    assert before == ["seq4096", "seq8192", "seq2048"]
    assert after == ["seq4096", "seq8192-gbs64", "seq2048", "seq8192-gbs32"]


def test_rows_that_nothing_tells_apart_are_said(read: Read) -> None:
    found = read(f"{HEAD}\n## Tiny 7B\n\n{table('GBS=128', 'GBS=128', 'GBS=128')}")
    assert said(found) == [
        "10 tiny_7b_bf16[H100x64-run2] case: nothing tells it from the row of line 9; it is the 2nd of such rows",
        "11 tiny_7b_bf16[H100x64-run3] case: nothing tells it from the row of line 9; it is the 3rd of such rows",
    ]
    (yaml,) = found.yaml_text.values()
    assert "      # case: nothing tells it from the row of line 9; it is the 3rd of such rows\n" in yaml


def test_columns_without_a_key_tell_rows_apart_where_they_hold_no_figure(read: Read) -> None:
    text = (
        HEAD
        + "\n## Tiny 7B BF16 on H100\n\n| #GPUs | GBS | SEQ | Step time (s) | Peak memory | Loss | Recompute | Optimizer |\n"
        + "|---|---|---|---|---|---|---|---|\n"
        + "| 64 | 128 | 4096 | 1.5 | 71.2 GB | 2.4 | yes | Adam W |\n"
        + "| 64 | 128 | 4096 | 1.6 | 72.2 GB | 2.5 | no | Adam W |\n"
        + "| 64 | 128 | 4096 | 1.7 | 73.2 GB | 2.6 | no | SGD |\n"
    )
    assert cases(read(text)) == ["recompute-yes", "recompute-no-adam-w", "recompute-no-sgd"]


@pytest.mark.parametrize(
    "cell", ["3*", "3 \u00b2", "\u0663", "_a_", "--", "Z\u00e9ro/\u00d8", ".", "a\u200bb", "x" * 300]
)
def test_a_case_is_in_letters_that_it_may_have_whatever_cells_hold(read: Read, cell: str) -> None:
    columns = "| #GPUs | GBS | SEQ | Step time (s) | ZeRO |\n|---|---|---|---|---|\n"
    rows = f"| 64 | 128 | 4096 | 1.5 | {cell} |\n| 64 | 128 | 4096 | 1.6 | 0 |\n| 64 | 128 | 4096 | 1.7 | 0 |\n"
    field = ROW_FIELDS["case"]
    assert isinstance(field, Field)
    told = cases(read(f"{HEAD}\n## Tiny 7B BF16 on H100\n\n{columns}{rows}"))
    assert [field.read(case) for case in told if case] == [case for case in told if case]
    assert len(set(told)) == 3


def test_a_number_that_a_name_has_already_is_no_second_rows(read: Read) -> None:
    columns = "| #GPUs | GBS | SEQ | Step time (s) | Night |\n|---|---|---|---|---|\n"
    rows = "".join(
        f"| 64 | 128 | 4096 | 1.{n} | {night} |\n" for n, night in enumerate(("run 2", "-", "", "on", "off"), 1)
    )
    told = cases(read(f"{HEAD}\n## Tiny 7B BF16 on H100\n\n{columns}{rows}"))
    assert told == ["run-2", "", "run2", "night-on", "night-off"]
    again = cases(read(f"{HEAD}\n## Tiny 7B BF16 on H100\n\n{columns}{rows.replace('run 2', 'run2')}"))
    assert again == ["run2", "", "run3", "night-on", "night-off"]


def test_headings_tell_rows_apart_at_last(read: Read) -> None:
    sections = ("H100 with 1600 Gbps links", "H100 with 800 Gbps links")
    text = HEAD + "".join(f"\n## Tiny 7B on {name}\n\n{table('GBS=128')}" for name in sections)
    assert cases(read(text)) == ["1600-gbps-links", "800-gbps-links"]


def test_a_release_in_the_title_cell_tells_rows_apart_first(read: Read) -> None:
    def one(version: str, layers: int) -> str:
        title = f"Maxtext Tiny 7b {version} BF16 (TP={layers})"
        return f"\n| {title} | 64x H100 GPUs (GBS=128) |\n|---|---|\n| Training step time (s) | 2.{layers} |\n"

    assert cases(read(HEAD + one("24.09", 1))) == [""]
    assert cases(read(HEAD + one("25.01", 2) + one("24.09", 1))) == ["25.01", "24.09"]


def test_rows_of_two_frameworks_have_ids_of_their_own(read: Read) -> None:
    text = "# Summary\n" + "".join(
        f"\n## {name} Tiny 7B\n\nJudged by the last training step.\n\n{table('GBS=128')}"
        for name in ("MaxText", "NeMo")
    )
    found = read(text)
    assert sorted(file.path for file in found.files) == ["maxtext/tiny_7b.yaml", "nemo/tiny_7b.yaml"]
    assert cases(found) == ["maxtext", "nemo"]


def test_a_case_of_the_facts_stays(read: Read) -> None:
    facts = DocumentFacts(rows={(11, None): Facts({"case": "ours"})})
    assert cases(read(f"{HEAD}\n## SFT\n\n### Tiny 7B\n\n{table('GBS=128', 'GBS=256')}", facts=facts)) == [
        "ours",
        "sft",
    ]


def test_a_case_is_never_too_long(read: Read, tmp_path: Path) -> None:
    words = "with many interesting words about networks and switches of several vendors in a row"
    title = f"Tiny 7B BF16 {words}"
    text = (
        f"{HEAD}\n## 26.02.01 Container\n\n### SFT\n\n| {title} | 64x H100 GPUs (GBS=128) | 64x H100 GPUs (GBS=256) |\n"
    )
    found = read(text + "|---|---|---|\n| Training step time (s) | 2.5 | 2.6 |\n| Sequence length | 4096 | 4096 |\n")
    one, other = cases(found)
    assert one.startswith("26.02.01-sft-many-interesting-words")
    assert (one[-7:], other[-7:]) == ("-gbs128", "-gbs256")
    assert len(one) <= 60
    (yaml,) = found.yaml_text.values()
    (tmp_path / "tiny.yaml").write_text(yaml)
    assert [row.id for row in load_table(tmp_path / "tiny.yaml")] == ids(found)


# -- properties: a row keeps its id whatever stands elsewhere ------------------------------------

_CELLS = st.tuples(
    st.sampled_from(["DGX-H100", "DGX-GB200", "H100"]),
    st.sampled_from(["64", "128"]),
    st.sampled_from(["BF16", "FP8-CS", "FP8-MX", "FP8"]),
    st.sampled_from(["128", "256"]),
    st.sampled_from(["1", "2", "n/a"]),
    st.sampled_from(["4096", "8192"]),
    st.sampled_from(["1", "4", "n/a"]),
)
_SECTION = st.tuples(
    st.sampled_from(["Pre-Training Performance", "SFT Performance", "LoRA Performance"]),
    st.sampled_from(["Tiny 7B", "Tiny 70B", "Model: Mini_8B"]),
    st.lists(_CELLS, min_size=1, max_size=4),
)
_RELEASES = st.dictionaries(
    st.sampled_from(["25.09", "25.11", "26.02", "26.02.01", "26.04"]),
    st.lists(_SECTION, min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)
_Section = tuple[str, str, Sequence[Sequence[str]]]
_Releases = Mapping[str, Sequence[_Section]]


def written(releases: _Releases, order: Sequence[str], between: str = "", turned: int = 0) -> str:
    """A page of releases; the step time of each row is its own, by which it is found again."""
    text = HEAD
    for release in order:
        text += f"{between}\n## {release} NeMo Container\n"
        sections = list(enumerate(releases[release]))
        for part, (task, model, rows) in sections[turned:] + sections[:turned]:
            text += f"{between}\n### {task}\n\n#### {model}\n\n{COLUMNS}"
            for number, row in enumerate(rows):
                time = f"{int(release.replace('.', '')) % 3000}.{part}{number}1"
                text += f"| {' | '.join([*row, time])} |\n"
    return text


def named(text: str, folder: Path) -> dict[str, str]:
    """Ids by step time."""
    path = folder / "page.md"
    path.write_text(text)
    found = import_document(path)
    by_time = {row.values["step_time_s"].text: row.id for row in found.rows}
    assert len(set(by_time.values())) == len(found.rows) == len(by_time)
    return by_time


def numbered(row: str, among: Mapping[str, str]) -> bool:
    """Whether a row is one of several that nothing but their order tells apart."""
    return "-run" in row or f"{row.removesuffix(']')}-run2]" in among.values()


@given(_RELEASES, st.data(), st.text("ab \n", max_size=40))
@settings(max_examples=25)
def test_neither_lines_nor_sections_elsewhere_rename_a_row(
    tmp_path_factory: pytest.TempPathFactory, releases: _Releases, data: st.DataObject, between: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    order = sorted(releases, reverse=True)
    whole = named(written(releases, order), folder)
    assert named(written(releases, order, f"\n\n{between}\n\n"), folder) == whole
    assert named(written(releases, data.draw(st.permutations(order))), folder) == whole
    turned = named(written(releases, order, turned=1), folder)
    assert {time: row for time, row in turned.items() if not numbered(row, whole)} == {
        time: row for time, row in whole.items() if not numbered(row, whole)
    }
    for release in order:  # each is added on top, below, or in between
        others = [other for other in order if other != release]
        if others:
            assert named(written(releases, others), folder).items() <= whole.items()


@given(_RELEASES)
@settings(max_examples=20)
def test_cases_are_such_as_tables_take(tmp_path_factory: pytest.TempPathFactory, releases: _Releases) -> None:
    field = ROW_FIELDS["case"]
    assert isinstance(field, Field)
    for row in named(written(releases, list(releases)), tmp_path_factory.getbasetemp()).values():
        case = re.fullmatch(r"[^\[]+\[[A-Z0-9]+x\d+-(.+)\]", row)
        assert case is not None, row
        assert field.read(case[1]) == case[1]
        assert "line" not in row


def test_no_rows_have_no_names() -> None:
    assert with_cases([]) == ([], [])
    assert extract(parse_document("none.md", "")).tables == ()


def test_settings_are_joined_to_rows_whose_own_title_names_the_task(read: Read) -> None:
    title = "| Maxtext Tiny 7b {} BF16 | 64x H100 GPUs (GBS=128) |\n|---|---|\n| Training step time (s) | {} |\n\n"
    rows = title.format("SFT", "2.5") + title.format("LoRA", "1.5")
    way = "### {}\n\n| GPUs | TP | PP |\n|---|---|---|\n| 64 | {} | 1 |\n\n"
    settings = way.format("SFT", 4) + way.format("LoRA", 2)
    found = read(f"{HEAD}\n## Settings\n\n{settings}## Expected figures\n\n{rows}").rows
    assert {row.values["step_time_s"].text: row.values["tp"].text for row in found} == {"2.5": "4", "1.5": "2"}
