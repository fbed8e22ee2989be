"""The tables of all verdicts: what stands in which line, and that no column is out of sight."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from pytest_gsw.reports.html.pages import verdict_tables
from pytest_gsw.reports.run_report import Row
from tests.unit.reports.nights import PASSED, SLOW, row
from tests.unit.results.records import varied


def shown(table: ET.Element) -> tuple[str, list[list[str]]]:
    """The caption, and the texts of all lines."""
    texts = [["".join(cell.itertext()) for cell in line] for line in table.iter("tr")]
    return "".join(next(table.iter("caption")).itertext()), texts


def of_gpus(model: str, *gpus: int) -> list[Row]:
    return [Row(varied(row(f"{model}_fp8[H100x{number}]"), workload=model), f"{model}{number}") for number in gpus]


def test_a_line_for_each_dtype_and_a_column_for_each_number_of_gpus() -> None:
    (table,) = verdict_tables([Row(SLOW, "slow"), Row(PASSED, "passed")])
    caption, lines = shown(table)
    assert caption == "llama2_70b on H100, change of throughput on 64 to 128 GPUs"
    assert lines == [
        ["workload", "dtype", "64 GPUs", "128 GPUs"],
        ["llama2_70b", "fp8", "", "▼ regressed \N{MINUS SIGN}10.0\xa0%"],
        ["llama2_70b", "bf16", "✔ passed +0.0\xa0%", ""],
    ]


def test_rows_of_a_machine_without_gpus_are_of_cpus() -> None:
    rows = [Row(varied(one.record, accelerator="CPU"), one.name) for one in of_gpus("gpt", 1, 2)]
    (table,) = verdict_tables(rows)
    caption, (heads, _) = shown(table)
    assert caption == "gpt on CPU, change of throughput on 1 to 2 CPUs"
    assert heads == ["workload", "dtype", "1 CPU", "2 CPUs"]
    again = Row(varied(rows[0].record, node_id="t::again"), "again")
    (table,) = verdict_tables([rows[0], again])
    assert shown(table)[1][0] == ["differs in", "verdict", "CPUs", "name"]


def test_workloads_on_other_numbers_of_gpus_have_a_table_of_their_own() -> None:
    powers = [8 << number for number in range(9)]
    rows = [*of_gpus("grok1", *powers), *of_gpus("llama3", 32, 96, 192, 576, 1152, 2304), *of_gpus("gpt3", 128, 256)]
    captions = [shown(table)[0] for table in verdict_tables(rows)]
    assert captions == [
        "grok1, gpt3 on H100, change of throughput on 8 to 2,048 GPUs",
        "llama3 on H100, change of throughput on 32 to 2,304 GPUs",
    ]


def test_of_several_rows_on_as_many_gpus_each_has_a_line_and_what_it_differs_in() -> None:
    one = varied(PASSED, batch=1024, settings={"tp": "4", "pp": "8", "dp": "2", "noted": "05-25"})
    other = varied(
        PASSED, row="llama2_70b_bf16[H100x64-pp16]", node_id="t::b", batch=1024, settings={"tp": "4", "pp": "16"}
    )
    (table,) = verdict_tables([Row(one, "a"), Row(other, "b")])
    caption, lines = shown(table)
    assert caption == "llama2_70b bf16 on H100: 2 rows, change of throughput"
    assert lines == [
        ["differs in", "verdict", "GPUs", "name"],
        ["pp 8, noted 05-25", "✔ passed +0.0\xa0%", "64", "H100x64"],
        ["pp 16", "✔ passed +0.0\xa0%", "64", "H100x64-pp16"],
    ]


def test_rows_that_differ_in_nothing_known_have_their_names() -> None:
    again = varied(PASSED, row="llama2_70b_bf16[H100x64-again]", node_id="t::b")
    (table,) = verdict_tables([Row(PASSED, "a"), Row(again, "b")])
    assert [line[0] for line in shown(table)[1][1:]] == ["llama2_70b_bf16[H100x64]", "llama2_70b_bf16[H100x64-again]"]
