"""Documented figures that are replaced where they stand: what was meant, and not a byte more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw import baseline_updates as patch
from pytest_gsw.baseline_updates import EditError, check, with_documented
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, table_files
from pytest_gsw.tables.model import Baseline
from tests.unit.tables.texts import EOS, HEAD, TINY

FILES = table_files(bundled_baselines())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "t.yaml"


def after(row: Baseline, figures: dict[str, float]) -> Baseline:
    stated = {key: figures.get(key, old) for key, old in vars(row.documented).items() if old is not None}
    return replace(row, documented=replace(row.documented, **stated))


def test_a_text_that_says_something_else_is_noticed(table: Path) -> None:
    table.write_text(TINY)
    one, _ = load_table(table)
    wanted = {one.id: after(one, {"step_time_s": 1.6})}
    good = TINY.replace("1.5", "1.6")
    check(table, good, "", wanted)
    message = "the changed text would not say what was meant of tiny_1b_bf16[H100x"
    with pytest.raises(EditError, match=f"^{message.replace('[', '.')}8"):
        check(table, TINY, "", wanted)
    with pytest.raises(EditError, match=f"^{message.replace('[', '.')}16"):
        check(table, good.replace("0.75", "0.76"), "", wanted)
    with pytest.raises(EditError, match=f"^{message.replace('[', '.')}8"):
        check(table, good.replace("steps: 20", "steps: 30"), "", wanted)
    with pytest.raises(EditError, match=r"^the changed text would be wrong: "):
        check(table, good.replace("step_time_s: 1.6", "step_time_s: x"), "", wanted)


ROWS = f"""\
{HEAD}\
global_batch_size: 64
model_flops: 6.0e+12
tables:
  - dtype: bf16
    rows:
      # the first one
      - {{gpus:  8, step_time_s:  1.5, tokens_per_s: 43690, mfu: 3.24%, line: 10}}  # as printed
      - gpus: 16
        step_time_s: "0.75"
        line: 11
      - {{gpus: 24, tokens_per_s_per_gpu: 5461.33, line: 12}}
"""
MEASURED = "# measured on eos, 2026-11-20: median of 7 jobs, spread 0.83 % (481220, 481221), image nvidia+jax+maxtext-2024.12.09.sqsh"


def document(path: Path, text: str, *figures: tuple[int, dict[str, float]]) -> str:
    path.write_text(text)
    rows = load_table(path)
    changes = [(rows[number], values, EOS) for number, values in figures]
    new = with_documented(path, path.read_text(), changes)
    check(path, new, "", {row.id: after(row, values) for row, values, _ in changes})
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


def test_a_figure_with_no_blank_or_many_before_it(table: Path) -> None:
    row = "- {gpus: 24, tokens_per_s_per_gpu: 5461.33, line: 12}"
    close, wide = '- {gpus: 24, "tokens_per_s_per_gpu":5461.33, line: 12}', row.replace("gpu: 5", "gpu:     5")
    values = {"step_time_s": 0.06, "tokens_per_s": 1092267.0, "tokens_per_s_per_gpu": 45511.11}
    for old, new in ((close, close.replace("5461.33", "45511.11")), (wide, wide.replace(" 5461.33", "45511.11"))):
        text = ROWS.replace(row, old)
        assert document(table, text, (2, values)) == text.replace(old, f"{MEASURED}\n      {new}")


def test_a_figure_that_cannot_be_replaced(table: Path) -> None:
    with pytest.raises(EditError) as error:
        document(table, ROWS, (0, {"step_time_s": 1.6, "tokens_per_s": 40960.0}))
    assert str(error.value) == "there is no new value for mfu of tiny_1b_bf16[H100x8]"
    shared = ROWS.replace("  - dtype: bf16", "  - dtype: bf16\n    step_time_s: 3.0").replace(
        '        step_time_s: "0.75"\n', ""
    )
    with pytest.raises(EditError) as error:
        document(table, shared, (1, {"step_time_s": 1.6}))
    assert str(error.value) == "step_time_s of tiny_1b_bf16[H100x16] is not written at the row itself"
    anchored = ROWS.replace("step_time_s:  1.5", "step_time_s: &t 1.5")
    with pytest.raises(EditError) as error:
        document(table, anchored, (0, {"step_time_s": 1.6, "tokens_per_s": 40960.0, "mfu": 0.03}))
    assert str(error.value) == "step_time_s is not written as a plain number"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
@settings(max_examples=10)
@given(data=st.data())
def test_figures_of_any_bundled_row_can_be_replaced(path: Path, data: st.DataObject) -> None:
    rows = [row for row in load_table(path) if row.judged is not None]
    chosen = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3, unique_by=lambda row: row.id))
    keys = [*patch._STEP_FIGURES, "checkpoint_save_time_s", "calibrated_step_time_s"]
    changes = [(row, {key: data.draw(st.floats(0.05, 0.9)) for key in keys}, EOS) for row in chosen]
    for row, values, _ in changes:  # the two throughputs follow from each other, and from the step time
        if row.documented.tokens_per_s is not None:
            values["tokens_per_s_per_gpu"] = values["tokens_per_s"] / row.gpus
        if row.criterion.metric == "calibrated_step_time":
            values["calibrated_step_time_s"] = values["step_time_s"]
    text = with_documented(path, path.read_text(), changes)
    check(path, text, "", {row.id: after(row, values) for row, values, _ in changes})
    old, new = (
        [line for line in of.splitlines() if not patch._MEASURED.match(line)] for of in (path.read_text(), text)
    )
    assert len(old) == len(new)
    assert sum(one != other for one, other in zip(old, new, strict=True)) <= 8 * len(chosen)
