"""Changes of a table's text: what was meant, and not a byte more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw.ageing import edit
from pytest_gsw.ageing.edit import EditError, check, expected_after, with_accepted, with_documented
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, table_files
from pytest_gsw.tables.model import Accepted, Baseline
from tests.unit.tables.texts import ENTRY, EOS, TINY

FILES = table_files(bundled_baselines())
OLD = ENTRY.replace("1.612", "1.7").replace("jobs: 7", "jobs: 5")
FLOW = (
    "{"
    + ", ".join(line.strip(" -") for line in OLD.splitlines()).replace("tiny_1b_bf16[H100x8]", "'tiny_1b_bf16[H100x8]'")
    + "}"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "t.yaml"


def accept(path: Path, text: str, *figures: tuple[int, Accepted]) -> str:
    """The text of a table once its rows of these numbers have accepted figures, checked."""
    path.write_bytes(text.encode())
    rows = load_table(path)
    entries = [(rows[number], accepted) for number, accepted in figures]
    new = with_accepted(path, entries)
    wanted: dict[str, Baseline] = {}
    for row, accepted in entries:
        row = wanted.get(row.id, row)
        wanted[row.id] = replace(row, accepted={**row.accepted, accepted.cluster: accepted})
    check(path, new, wanted.values())
    assert path.read_bytes() == text.encode()
    return new


def test_the_first_accepted_figure_is_appended(table: Path) -> None:
    assert accept(table, TINY, (0, EOS)) == f"{TINY}\naccepted:\n{ENTRY}"


def test_no_second_blank_line_is_added(table: Path) -> None:
    assert accept(table, f"{TINY}\n", (0, EOS)) == f"{TINY}\naccepted:\n{ENTRY}"


def test_a_last_line_without_an_end_gets_one(table: Path) -> None:
    assert accept(table, TINY[:-1], (0, EOS)) == f"{TINY}\naccepted:\n{ENTRY}"


def test_a_file_keeps_its_line_ends(table: Path) -> None:
    assert accept(table, TINY.replace("\n", "\r\n"), (0, EOS)) == f"{TINY}\naccepted:\n{ENTRY}".replace("\n", "\r\n")


def test_another_cluster_stands_behind_the_first(table: Path) -> None:
    selene = ENTRY.replace("eos", "selene")
    there = f"{TINY}accepted:\n{selene}"
    assert accept(table, there, (0, EOS)) == f"{there}{ENTRY}"


def test_a_figure_of_the_same_row_and_cluster_is_replaced(table: Path) -> None:
    around = f"{TINY}accepted:\n  # why\n{{}}\n  # the others\n{ENTRY.replace('eos', 'selene')}\n# the end\n"
    assert accept(table, around.replace("{}\n", OLD), (0, EOS)) == around.replace("{}\n", ENTRY)


def test_the_list_need_not_be_the_last_key_nor_indented(table: Path) -> None:
    flush = "\n".join(line[2:] for line in OLD.split("\n"))
    head, tables = TINY.split("tables:\n")
    text = f"{head}accepted:\n{flush}\n# what follows\ntables:\n{tables}"
    new = "\n".join(line[2:] for line in ENTRY.split("\n"))
    assert accept(table, text, (0, EOS)) == f"{head}accepted:\n{new}\n# what follows\ntables:\n{tables}"
    other = new.replace("x8", "x16")
    assert accept(table, text, (1, EOS)) == f"{head}accepted:\n{flush}{other}\n# what follows\ntables:\n{tables}"


def test_an_entry_in_one_line_is_replaced_by_one_of_many(table: Path) -> None:
    assert accept(table, f"{TINY}accepted:\n  - {FLOW}\n", (0, EOS)) == f"{TINY}accepted:\n{ENTRY}"


def test_a_dash_that_stands_alone(table: Path) -> None:
    alone = OLD.replace("  - row", "  -\n    row")
    assert accept(table, f"{TINY}accepted:\n{alone}", (0, EOS)) == f"{TINY}accepted:\n{ENTRY}"


def test_texts_that_yaml_would_misread_are_quoted(table: Path) -> None:
    odd = replace(EOS, cluster="no", image="nvcr.io/nvidia/nemo:24.09", definition="123456789012", job_ids="1e5")
    new = accept(table, TINY, (0, odd))
    assert '    cluster: "no"\n' in new
    assert '    image: "nvcr.io/nvidia/nemo:24.09"\n' in new
    assert '    definition: "123456789012"\n' in new
    assert '    job_ids: "1e5"\n' in new


IN_ONE_LINE = "its 'accepted' is not a list with one entry below the other; write it so first"
MARKED = "its 'accepted' has an anchor or a tag in front of the list; take that out first"


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("[]", "its 'accepted' is an empty list; take the key out first"),
        ("&a []", "its 'accepted' is an empty list; take the key out first"),
        (f"[{FLOW}]", IN_ONE_LINE),
        (f"\n  [{FLOW}]", IN_ONE_LINE),
        (f"&a\n{OLD}", MARKED),
        (f"!!seq\n{OLD}", MARKED),
    ],
)
def test_a_list_in_another_style_is_left_to_people(table: Path, there: str, message: str) -> None:
    table.write_text(f"{TINY}accepted: {there}\n")
    with pytest.raises(EditError) as error:
        with_accepted(table, [(load_table(table)[0], EOS)])
    assert str(error.value) == message


def test_a_file_in_flow_style_is_left_to_people(table: Path) -> None:
    text = "{" + TINY.replace("\n", ",\n").replace("tables:,", "tables: [{").replace("  - dtype: bf16", "dtype: bf16")
    text = text.replace("rows:,", "rows: [").replace("      - {", "{").rstrip(",\n") + "]}]}\n"
    table.write_text(text)
    row = load_table(table)[0]
    with pytest.raises(EditError, match=r"^the changed text would be wrong: "):
        check(table, with_accepted(table, [(row, EOS)]), [replace(row, accepted={"eos": EOS})])


def test_a_text_that_says_something_else_is_noticed(table: Path) -> None:
    table.write_text(TINY)
    one, _ = load_table(table)
    good = with_accepted(table, [(one, EOS)])
    message = "the changed text would not say what was meant of tiny_1b_bf16[H100x"
    with pytest.raises(EditError, match=f"^{message.replace('[', '.')}8"):
        check(table, TINY, [replace(one, accepted={"eos": EOS})])
    with pytest.raises(EditError, match=f"^{message.replace('[', '.')}16"):
        check(table, good.replace("0.75", "0.76"), [replace(one, accepted={"eos": EOS})])
    with pytest.raises(EditError, match=f"^{message.replace('[', '.')}8"):
        check(table, good.replace("steps: 20", "steps: 30"), [replace(one, accepted={"eos": EOS})])


def accepted_figures(rows: list[Baseline]) -> st.SearchStrategy[list[tuple[Baseline, Accepted]]]:
    judged = [row for row in rows if row.judged_s is not None]
    texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_characters="\x7f\xad"), min_size=1)
    one_line = texts.filter(lambda text: text.strip() and not any(0x7F <= ord(letter) < 0xA0 for letter in text))
    figure = st.builds(
        Accepted,
        cluster=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
        judged_s=st.floats(1e-4, 1e6).map(lambda number: float(f"{number:.6g}")),
        jobs=st.integers(1, 10**6),
        spread=st.integers(0, 9999).map(lambda number: number / 10_000),
        job_ids=one_line,
        date=st.dates().map(lambda date: date.isoformat()),
        definition=st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
        image=st.none() | one_line,
    )
    pairs = st.tuples(st.sampled_from(judged), figure)
    return st.lists(pairs, min_size=1, max_size=6, unique_by=lambda pair: (pair[0].id, pair[1].cluster))


def with_all(rows: list[Baseline], entries: list[tuple[Baseline, Accepted]]) -> list[Baseline]:
    by_id = {row.id: row for row in rows}
    for row, accepted in entries:
        now = by_id[row.id]
        by_id[row.id] = replace(now, accepted={**now.accepted, accepted.cluster: accepted})
    return list(by_id.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_bundled_table_takes_any_figures_and_keeps_every_other_byte(
    path: Path, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("edit")
    rows = list(load_table(path))
    old = path.read_text()
    first = data.draw(accepted_figures(rows), label="first")
    one = with_accepted(path, first)
    check(path, one, with_all(rows, first))
    assert one.startswith(old)
    # And once more over the result, where some figures are new and some replace others.
    table = directory / path.name
    table.write_text(one)
    rows = list(load_table(table))
    second = [
        *data.draw(accepted_figures(rows), label="second"),
        (first[0][0], replace(first[0][1], judged_s=3.25)),
    ]
    entries = list({(row.id, accepted.cluster): (row, accepted) for row, accepted in second}.values())
    two = with_accepted(table, entries)
    check(table, two, with_all(rows, entries))
    assert two.startswith(old)
    assert one.count("  - row: ") <= two.count("  - row: ")


ROWS = """\
model: tiny
size: 1b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: site.md
recipe: {directory: tiny, steps: 20}
sequence_length: 1024
global_batch_size: 64
model_flops: 6.0e+12
tables:
  - dtype: bf16
    rows:
      # the first one
      - {gpus:  8, step_time_s:  1.5, tokens_per_s: 43690, mfu: 3.24%, line: 10}  # as printed
      - gpus: 16
        step_time_s: "0.75"
        line: 11
      - {gpus: 24, tokens_per_s_per_gpu: 5461.33, line: 12}
"""
MEASURED = "# measured on eos, 2026-11-20: median of 7 jobs, spread 0.83 % (481220, 481221), image nvidia+jax+maxtext-2024.12.09.sqsh"


def document(path: Path, text: str, *figures: tuple[int, dict[str, float]]) -> str:
    path.write_text(text)
    rows = load_table(path)
    changes = [(rows[number], values, EOS) for number, values in figures]
    new = with_documented(path, changes)
    check(path, new, [expected_after(row, values) for row, values, _ in changes])
    return new


def test_documented_figures_are_replaced_where_they_stand(table: Path) -> None:
    first = {"step_time_s": 1.61234, "tokens_per_s": 40645.8, "mfu": 0.03013, "days_to_train_1t_tokens": 284.7}
    new = document(table, ROWS, (0, first), (1, {"step_time_s": 10.0 / 3}))
    assert new == ROWS.replace(
        "      - {gpus:  8, step_time_s:  1.5, tokens_per_s: 43690, mfu: 3.24%,",
        f"      {MEASURED}\n      - {{gpus:  8, step_time_s: 1.612, tokens_per_s: 40646, mfu: 3.013%,",
    ).replace(
        '      - gpus: 16\n        step_time_s: "0.75"',
        f'      {MEASURED}\n      - gpus: 16\n        step_time_s: "3.333"',
    )
    # Measured again, the comment is not there twice.
    again = document(table, new, (0, {**first, "step_time_s": 1.7}))
    assert again == new.replace("1.612", "1.700")


def test_a_row_that_states_a_throughput_alone(table: Path) -> None:
    values = {"step_time_s": 0.6, "tokens_per_s": 109226.7, "tokens_per_s_per_gpu": 4551.11}
    assert document(table, ROWS, (2, values)) == ROWS.replace(
        "      - {gpus: 24, tokens_per_s_per_gpu: 5461.33,",
        f"      {MEASURED}\n      - {{gpus: 24, tokens_per_s_per_gpu: 4551.11,",
    )


def test_a_figure_that_nothing_gives(table: Path) -> None:
    with pytest.raises(EditError) as error:
        document(table, ROWS, (0, {"step_time_s": 1.6, "tokens_per_s": 40960.0}))
    assert str(error.value) == "nothing says what mfu of tiny_1b_bf16[H100x8] would be"


def test_a_figure_that_stands_at_the_table(table: Path) -> None:
    shared = ROWS.replace("  - dtype: bf16", "  - dtype: bf16\n    step_time_s: 3.0").replace(
        '        step_time_s: "0.75"\n', ""
    )
    with pytest.raises(EditError) as error:
        document(table, shared, (1, {"step_time_s": 1.6}))
    assert str(error.value) == "step_time_s of tiny_1b_bf16[H100x16] is not written at the row itself"


def test_a_figure_behind_an_anchor(table: Path) -> None:
    anchored = ROWS.replace("step_time_s:  1.5", "step_time_s: &t 1.5")
    with pytest.raises(EditError) as error:
        document(table, anchored, (0, {"step_time_s": 1.6, "tokens_per_s": 40960.0, "mfu": 0.03}))
    assert str(error.value) == "step_time_s is not written as a plain number"


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_figures_of_any_bundled_row_can_be_replaced(path: Path, data: st.DataObject) -> None:
    rows = [row for row in load_table(path) if row.judged_s is not None]
    chosen = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3, unique_by=lambda row: row.id))
    keys = [*edit._STEP_FIGURES, "checkpoint_save_time_s", "calibrated_step_time_s"]
    changes = [(row, {key: data.draw(st.floats(0.05, 0.9)) for key in keys}, EOS) for row in chosen]
    for row, values, _ in changes:  # the two throughputs follow from each other, and from the step time
        if row.documented.tokens_per_s is not None:
            values["tokens_per_s_per_gpu"] = values["tokens_per_s"] / row.gpus
        if row.metric == "calibrated_step_time":
            values["calibrated_step_time_s"] = values["step_time_s"]
    text = with_documented(path, changes)
    check(path, text, [expected_after(row, values) for row, values, _ in changes])
    old, new = ([line for line in of.splitlines() if not edit._MEASURED.match(line)] for of in (path.read_text(), text))
    assert len(old) == len(new)
    assert sum(one != other for one, other in zip(old, new, strict=True)) <= 8 * len(chosen)
