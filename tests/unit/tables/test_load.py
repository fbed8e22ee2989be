"""Tables as they are read: what their rows have, as values and as they are spelt, with YAML and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.tables import load
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, load_tables, read_by_line, table_files
from pytest_gsw.tables.model import (
    Baseline,
    Batch,
    Criterion,
    Documented,
    Figures,
    Location,
    Parallelism,
    Recipe,
    Source,
    Workload,
)
from pytest_gsw.tables.stated_rows import stated_rows
from pytest_gsw.tables.yaml_values import Stated
from tests.budget.tables import HEAD as MANY_ROWS
from tests.messages import wording
from tests.unit.tables.texts import HEAD, TINY, change

Load = Callable[[str | bytes], tuple[Baseline, ...]]


def test_a_row_has_what_its_file_and_table_say(load: Load) -> None:
    row = load(TINY)[1]
    assert (row.id, row.workload.log_format, row.gpus, row.criterion.min_steps) == (
        "tiny_1b_bf16[H100x16]",
        "maxtext",
        16,
        18,
    )
    assert (row.documented, row.parallelism) == (Figures(step_time_s=0.75), Parallelism())
    assert (row.recipe, row.source) == (Recipe("tiny", steps=20), Source("site.md", 11))
    assert row.location == Location(Path("t.yaml"), 13, 9)
    # A calibrated row.
    text = change("step_time_s: 1.5", "step_time_s: 1.5, metric: calibrated_step_time, calibration_flops: 9.5e+10")
    row = load(text)[0]
    assert row.documented == Figures(step_time_s=1.5, calibrated_step_time_s=1.5)
    assert (row.judged, row.calibration_flops) == (1.5, 9.5e10)
    # The nearest level wins.
    rows = load(
        TINY.replace("size: 1b", "size: 1b\ntolerance: 1%")
        .replace("dtype: bf16", "dtype: bf16\n    tolerance: 2%")
        .replace("gpus: 16", "tolerance: 3%, gpus: 16")
    )
    assert [row.criterion.tolerance for row in rows] == [0.02, 0.03]


FULL = """\
model: tiny
framework: deepspeed
log_format: megatron
accelerator: V100-32GB
gpus_per_node: 4
document: site.md
activation_recomputation: true
tolerance: 40%
statistic: mean
recipe:
  directory: a/b
  script: run.sh
  steps: 100
  logged_steps: 20
  environment: {NNODES: "{nodes}", QUIET: true, EMPTY: "", JSON: '{{"tp": {tp}}}'}
tables:
  - title: "Every key"
    dtype: fp16
    line: 1
    recipe: {directory: c, one_job_per_row: true}
    rows:
      - {gpus: 32, size: 7.5b, case: big-batch, sequence_length: 2048, global_batch_size: 64, micro_batch_size: 2,
         gradient_accumulation_steps: 8, layers: 12, tp: 2, pp: 3, cp: 4, ep: 5, dp: 6, vp: 7, fsdp: 8,
         model_flops: 4.6e+13, step_time_s: 3, tokens_per_s: 1.5, mfu: 52.59%, days_to_train_1t_tokens: 2,
         tflops_per_gpu: 23.2, checkpoint_save_time_s: 9, metric: checkpoint_save_time, statistic: "median[-10:]",
         min_steps: 12, tolerance: 2.5 %, proxy: true, notes: "07-10", attributes: {zero_stage: 3}, line: 77}
"""


def test_every_key_of_a_table(load: Load) -> None:
    assert load(FULL) == (
        Baseline(
            id="tiny_7.5b_fp16[V100-32GBx32-big-batch]",
            workload=Workload(
                model="tiny",
                size="7.5b",
                framework="deepspeed",
                log_format="megatron",
                dtype="fp16",
                sequence_length=2048,
                layers=12,
                model_flops_per_sample=4.6e13,
                activation_recomputation=True,
                proxy=True,
            ),
            accelerator="V100-32GB",
            gpus=32,
            gpus_per_node=4,
            batch=Batch(global_batch_size=64, micro_batch_size=2, gradient_accumulation_steps=8),
            parallelism=Parallelism(tp=2, pp=3, cp=4, ep=5, dp=6, vp=7, fsdp=8),
            documented=Figures(
                step_time_s=3.0,
                tokens_per_s=1.5,
                mfu=0.5259,
                days_to_train_1t_tokens=2.0,
                tflops_per_gpu=23.2,
                checkpoint_save_time_s=9.0,
            ),
            criterion=Criterion(
                metric="checkpoint_save_time",
                statistic="median[-10:]",
                min_steps=12,
                tolerance=0.025,
                stated_tolerance=0.025,
            ),
            notes="07-10",
            attributes={"zero_stage": "3"},
            recipe=Recipe(
                "c",
                script="run.sh",
                steps=100,
                logged_steps=20,
                environment={"NNODES": "{nodes}", "QUIET": "true", "EMPTY": "", "JSON": '{{"tp": {tp}}}'},
                one_job_per_row=True,
            ),
            source=Source("site.md", 77, title="Every key"),
            location=Location(Path("t.yaml"), 22, 9),
        ),
    )


def test_properties_of_a_row(load: Load) -> None:
    (row,) = load(FULL)
    assert (row.workload.name, row.name, row.workload.parameters_in_billions) == ("tiny_7.5b", "tiny_7.5b_fp16", "7.5")
    assert (row.nodes, row.judged, str(row.location)) == (8, 9.0, "t.yaml:22")
    (row, _) = load(change("size: 1b", "size: large"))
    assert row.workload.parameters_in_billions is None


@pytest.mark.parametrize(
    ("recipe", "min_steps"),
    [
        ("steps: 50", 45),
        ("steps: 51", 46),
        ("steps: 1", 1),
        ("steps: 100, logged_steps: 20", 18),
        ("logged_steps: 10", 9),
    ],
)
def test_nine_tenths_of_the_steps_must_be_found(load: Load, recipe: str, min_steps: int) -> None:
    rows = load(change("steps: 20", recipe))
    assert [row.criterion.min_steps for row in rows] == [min_steps, min_steps]


@pytest.mark.parametrize(("log_format", "min_steps"), [("maxtext", 10), ("paxml", 10), ("huggingface", 1)])
def test_a_table_without_line_steps_and_length(load: Load, log_format: str, min_steps: int) -> None:
    text = change("steps: 20", f"script: x.sh}}\nlog_format: {log_format}").replace(
        "log_format: " + log_format + "}", "log_format: " + log_format
    )
    row, other = load(
        text.replace("sequence_length: 1024\n", "").replace("step_time_s: 1.5, line: 10", "step_time_s: 1.5")
    )
    assert (row.criterion.min_steps, row.workload.sequence_length, row.judged) == (min_steps, None, 1.5)
    assert (row.source, other.source) == (Source("site.md", None), Source("site.md", 11))


@pytest.mark.parametrize(
    ("stated", "needed"),
    [
        ("tokens_per_s: 100", "'global_batch_size' and 'sequence_length', which would give it from tokens_per_s"),
        ("tokens_per_s: 100, global_batch_size: 8", "'sequence_length', which would give it from tokens_per_s"),
        ("samples_per_s: 100", "'global_batch_size', which would give it from samples_per_s"),
    ],
)
def test_a_throughput_needs_what_gives_a_step_time_from_it(load: Load, stated: str, needed: str) -> None:
    with pytest.raises(FileError) as refused:
        load(change("step_time_s: 1.5", stated).replace("sequence_length: 1024\n", ""))
    assert wording("no step time") + f" (or {needed})" in str(refused.value)


@pytest.mark.parametrize(
    ("log_format", "recipe", "min_steps", "logged_steps"),
    [
        ("paxml", "steps: 100", 18, 20),
        ("paxml", "steps: 20", 18, None),
        ("paxml", "steps: 10", 9, None),
        ("paxml", "steps: 100, logged_steps: 10", 9, 10),
        ("huggingface", "steps: 100", 1, None),
        ("huggingface", "script: x.sh", 1, None),
    ],
)
def test_formats_that_do_not_log_every_step(
    load: Load, log_format: str, recipe: str, min_steps: int, logged_steps: int | None
) -> None:
    (row, _) = load(change("steps: 20", recipe).replace("size: 1b", f"size: 1b\nlog_format: {log_format}"))
    assert (row.criterion.min_steps, row.recipe.logged_steps) == (min_steps, logged_steps)


def test_what_a_format_and_a_metric_change(load: Load) -> None:
    # A framework that writes another one's log.
    (row, _) = load(TINY.replace("framework: maxtext", "framework: megatron-bridge"))
    assert (row.workload.framework, row.workload.log_format) == ("megatron-bridge", "megatron")
    # Steps say nothing of how many checkpoints are saved.
    checkpoint = change("step_time_s: 1.5", "metric: checkpoint_save_time, checkpoint_save_time_s: 17.9")
    assert [row.criterion.min_steps for row in load(checkpoint)] == [1, 18]
    (row, _) = load(checkpoint.replace("17.9", "17.9, min_steps: 3"))
    assert row.criterion.min_steps == 3


def test_values_as_they_are_written(load: Load) -> None:
    # A percentage is the decimal number that is written.
    (row, _) = load(change("gpus: 8,", "gpus: 8, tolerance: 0.1%, mfu: 100 %,"))
    assert row.criterion.tolerance == 0.001
    assert row.documented.mfu == 1.0
    # Numbers may be quoted and texts may look like numbers.
    (row, _) = load(change("gpus: 8,", 'gpus: "8", notes: 05, attributes: {id: 1.10},'))
    assert row.gpus == 8
    assert row.notes == "05"
    assert row.attributes == {"id": "1.10"}
    # A case may have 60 characters.
    (row, _) = load(change("gpus: 8,", f"gpus: 8, case: {'x' * 60},"))
    assert row.id == f"tiny_1b_bf16[H100x8-{'x' * 60}]"
    # An anchor stands for what it names.
    shared = change("recipe: {directory: tiny, steps: 20}", "recipe: &r {directory: tiny, steps: 20}")
    rows = load(shared.replace("    rows:", "    recipe: *r\n    rows:"))
    assert rows[0].recipe == Recipe("tiny", steps=20)


def test_a_row_of_other_figures(load: Load) -> None:
    # A row that runs out of memory needs no figure.
    (row, _) = load(change("gpus: 8, step_time_s: 1.5", "gpus: 8, expected_failure: out_of_memory"))
    assert row.criterion.expected_failure == "out_of_memory"
    assert row.judged is None
    # A row documents further metrics.
    stated = "metrics: {peak_memory_gib: {value: 61.2, tolerance: 5 %}, output_tokens_per_s: {value: 1840}}"
    (row, other) = load(change("gpus: 8, step_time_s: 1.5", f"gpus: 8, step_time_s: 1.5, {stated}"))
    assert row.metrics == {
        "peak_memory_gib": Documented(61.2, 0.05),
        "output_tokens_per_s": Documented(1840.0, None),
    }
    assert other.metrics == {}


def test_a_byte_order_mark_and_windows_line_ends(load: Load) -> None:
    assert len(load(b"\xef\xbb\xbf" + TINY.replace("\n", "\r\n").encode())) == 2


def test_files_below_a_directory_are_in_order(tmp_path: Path) -> None:
    for name in ("b/two.yaml", "a/one.yml", "a/notes.txt", "c.yaml/three.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TINY)
    assert table_files(tmp_path) == (
        tmp_path / "a/one.yml",
        tmp_path / "b/two.yaml",
        tmp_path / "c.yaml/three.yaml",
    )
    assert table_files(tmp_path / "a/one.yml") == (tmp_path / "a/one.yml",)
    assert len(load_tables([tmp_path])) == 6


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        load_tables([tmp_path / "nowhere"])
    fact = f"no baselines at {tmp_path}/nowhere: there is no such file or directory"
    assert str(error.value) == f"{fact}\nnext: pytest-gsw rows"
    # A directory without tables.
    with pytest.raises(ConfigurationError) as error:
        load_tables([tmp_path])
    assert str(error.value) == wording("no baselines", path=tmp_path)
    # A file that cannot be opened.
    with pytest.raises(FileError) as error:
        load_table(tmp_path)
    assert str(error.value) == wording("one problem", path=tmp_path) + "\n" + wording(
        "cannot be read", what=f"  {tmp_path}:1:1    ", why="Is a directory"
    )


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ("global_batch_size: 64, samples_per_s: 128", 0.5),
        ("global_batch_size: 64, tokens_per_s: 131072", 0.5),
        ("global_batch_size: 64, tokens_per_s_per_gpu: 8192", 0.5),
        ("global_batch_size: 64, samples_per_s: 100, tokens_per_s: 131072", 0.5),
        ("global_batch_size: 64, samples_per_s: 128, step_time_s: 0.75", 0.75),
    ],
)
def test_a_throughput_stands_for_the_step_time(load: Load, stated: str, seconds: float) -> None:
    (row, *_) = load(TINY.replace("gpus: 16, step_time_s: 0.75", f"gpus: 16, {stated}"))[1:]
    assert row.documented.step_time_s == seconds


# ---- Tables whose rows stand on one line each: what is read without YAML is what YAML reads, or nothing is

_TABLE = """\
{head}\
{file}
tables:
  - dtype: fp8
{table}
    rows:
      - {{gpus: 1, case: r0, step_time_s: 4.3, line: 1}}
{rows}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def _write(rows: str = "", file: str = "", table: str = "") -> Path:
        path = tmp_path / "rows.yaml"
        path.write_text(_TABLE.format(head=MANY_ROWS, file=file, table=table, rows=rows))
        return path

    return _write


def _without_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(load, "read_by_line", lambda _path: None)
        return load_table(path)


@pytest.mark.parametrize("path", table_files(bundled_baselines()), ids=lambda path: path.name)
def test_a_bundled_table_is_the_same_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_table(path) == _without_lines(path, monkeypatch)


@pytest.mark.parametrize(
    "row",
    [
        "      - {gpus: 2, step_time_s: 4.3, tokens_per_s: 1905.12, tolerance: 5%, line: 2}",
        "      - {gpus: 2, step_time_s: 4.30e+0, notes: two words, line: 2}",
        "      - {gpus: 2, step_time_s: '4.3', line: 2}  # a comment",
        "      - gpus: 2\n        step_time_s: 4.3\n        line: 2",
        "      - {gpus: 2, step_time_s: 4.3, attributes: {id: 7}, line: 2}",
        "      - {gpus: 2, step_time_s: 4.3, line: 2}\n      - {gpus: ~, step_time_s: 4.3, line: 2}",
    ],
)
def test_rows_are_read_without_yaml(row: str, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(row)
    assert read_by_line(path) is not None
    rows = load_table(path)
    assert [row.gpus for row in rows] == [1, 2]
    assert rows == _without_lines(path, monkeypatch)


@pytest.mark.parametrize(
    "places",
    [
        {"rows": "      - {gpus: 2, gpus: 2, step_time_s: 4.3, line: 2}"},
        {"rows": "      - {gpus: 0, step_time_s: 4.3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time: 4.3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4,3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, attributes: 4, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, line: 2}\n\n    - {gpus: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, line: 2}\n      - {gpus: 2, step_time_s: 4.3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, line: 2}\n      - {gpus: 3, step_time_s: 0, line: 3}"},
        {"rows": "      - {gpus: 2, line: 2}"},
        {"rows": "      - {}"},
        {"file": "release:\n  - {gpus: 2}"},
        {"file": "release: a\n  - {gpus: 2}"},
    ],
)
def test_what_is_wrong_is_told_as_it_is_without_lines(
    places: dict[str, str], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(**places)
    with pytest.raises(Exception) as told:
        load_table(path)
    with pytest.raises(type(told.value)) as wanted:
        _without_lines(path, monkeypatch)
    assert str(told.value) == str(wanted.value)


@pytest.mark.parametrize(
    "places",
    [
        {"table": "    notes: |\n      - {gpus: 2}"},
        {"table": "    notes: |\n      - {gpus: 2}\n      - {gpus: 3}"},
        {"table": "    notes: 'one\n      - {gpus: 2}\n      '"},
        {"table": '    notes: "one\n      - {gpus: 2}\n      "'},
        {"table": "    notes: in München"},
        {"table": "    notes: one\u2028two"},
        {"table": "    notes: &note one\n    title: *note"},
        {"table": "    title: &rows\n      - {gpus: 2}"},
    ],
)
def test_what_only_looks_like_a_row_is_left_to_yaml(places: dict[str, str], write: Callable[..., Path]) -> None:
    assert read_by_line(write(**places)) is None


def test_a_text_keeps_what_looks_like_a_row(write: Callable[..., Path]) -> None:
    (row,) = load_table(write(table="    notes: |\n      - {gpus: 2}"))
    assert row.notes == "- {gpus: 2}\n"


def test_the_yaml_parser_gets_the_first_of_consecutive_rows(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"      - {{gpus: {gpus}, step_time_s: 4.3, line: {gpus}}}" for gpus in range(2, 7)]
    path = write(
        "\n".join([*rows[:2], "", "      # a comment", *rows[2:4], "      - gpus: 7\n        line: 7", rows[4]])
    )
    path.write_text(path.read_text().replace("dtype: fp8", "dtype: fp8\n    step_time_s: 2.0"))
    texts: list[str] = []
    read_mapping = load.read_mapping

    def read(path: Path, fields: Any, content: str) -> Any:
        texts.append(content)
        return read_mapping(path, fields, content)

    monkeypatch.setattr(load, "read_mapping", read)
    found = load_table(path)
    assert texts[0].count("{}") == 3
    assert [row.gpus for row in found] == [1, 2, 3, 4, 5, 7, 6]
    assert found == _without_lines(path, monkeypatch)


# ---- Rows as they are spelt: digits, places, what file, table and row say, what is acknowledged --

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
