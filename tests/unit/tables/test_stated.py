"""Rows as they are spelt: digits, places, what file, table and row say, what is acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, stated_rows, table_files
from pytest_gsw.tables.yaml_values import Stated
from tests.unit.tables.texts import HEAD

TABLE = f"""\
activation_recomputation: true
{HEAD}\
architecture: {{formula: gpt3, layers: 96}}
attributes: {{a: "1", b: "2"}}
acknowledged: {{mfu: of the file, gpus: of the file}}
tables:
  - dtype: bf16
    title: First
    mfu: 52.50%
    acknowledged: {{mfu: of the table}}
    rows:
      - {{gpus: 8, step_time_s: 1.50, line: 10, attributes: {{c: "3"}}, acknowledged: {{line_26: of the row}}}}
  - dtype: fp8
    rows:
      - {{gpus: 16, step_time_s: 2.0, line: 11}}
"""


def test_each_key_is_the_nearest_ones_as_written(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TABLE)
    first, second = stated_rows(path)
    assert (first.id, second.id) == ("tiny_1b_bf16[H100x8]", "tiny_1b_fp8[H100x16]")
    assert first.file == str(path)
    assert first.values["step_time_s"] == Stated("1.50", 19, 32)
    assert first.values["mfu"] == Stated("52.50%", 16, 10)
    assert first.values["sequence_length"] == Stated("1024", 9, 18)
    assert first.values["architecture.layers"] == Stated("96", 10, 39)
    assert first.values["activation_recomputation"].text == "true"
    assert "title" not in first.values
    assert "recipe.steps" not in first.values
    # A nearer mapping takes the place of the whole other one; what is acknowledged adds up.
    of_rows = [{key for key in row.values if key.startswith("attributes.")} for row in (first, second)]
    assert of_rows == [{"attributes.c"}, {"attributes.a", "attributes.b"}]
    assert first.acknowledged == {"mfu": "of the table", "gpus": "of the file", "line_26": "of the row"}
    assert second.acknowledged == {"mfu": "of the file", "gpus": "of the file"}


def test_every_bundled_row_is_stated() -> None:
    for path in table_files(bundled_baselines()):
        rows = load_table(path)
        stated = stated_rows(path)
        assert [row.id for row in rows] == [row.id for row in stated]
        for row, spelt in zip(rows, stated, strict=True):
            assert int(spelt.values["gpus"].text) == row.gpus
            assert spelt.values["document"].text == row.source.document
            if row.documented.mfu is not None:
                assert float(spelt.values["mfu"].text.rstrip("%")) == pytest.approx(100 * row.documented.mfu)
