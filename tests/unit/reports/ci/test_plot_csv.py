"""CSV as Jenkins' plot plugin reads it."""

from __future__ import annotations

import csv
import io

from hypothesis import given

from pytest_gsw.reports.ci.plot_csv import by_workload, mfu, step_time, throughput
from tests.unit.reports.ci.nights import ERROR, NIGHT, PASSED, REGRESSED, hostile_night, night_of, texts
from tests.unit.results.records import varied


def test_a_line_of_labels_and_a_line_of_numbers() -> None:
    night = night_of((REGRESSED, PASSED, ERROR))
    assert step_time(night) == "llama2_70b_fp8[H100x64],llama2_70b_fp8[H100x128]\n4.6,5.11"
    assert mfu(night) == "llama2_70b_fp8[H100x64],llama2_70b_fp8[H100x128]\n0.36025,0.36025"
    assert throughput(night_of((PASSED,))) == "llama2_70b_fp8[H100x64]\n205200.78"


def test_a_night_without_figures_has_no_point() -> None:
    assert step_time(night_of((ERROR,))) == ""


def test_rows_keep_their_order_whatever_that_of_the_records() -> None:
    turned = night_of(tuple(reversed(NIGHT.records)))
    assert step_time(turned) == step_time(NIGHT)


def test_a_plot_of_each_workload_and_dtype() -> None:
    other = varied(PASSED, row="llama3.1_405b_bf16[H100x32]", workload="llama3.1_405b", dtype="bf16")
    odd = varied(PASSED, row="odd", workload="../odd\n", dtype="fp8")
    plots = by_workload(night_of((REGRESSED, PASSED, ERROR, other, odd)))
    assert {name: len(text.splitlines()[0].split(",")) for name, text in plots.items()} == {
        "step-time-llama2_70b_fp8.csv": 2,
        "step-time-llama3.1_405b_bf16.csv": 1,
        "step-time-.._odd__fp8.csv": 1,
        "mfu-llama2_70b_fp8.csv": 2,
        "mfu-llama3.1_405b_bf16.csv": 1,
        "mfu-.._odd__fp8.csv": 1,
    }
    assert plots["step-time-llama2_70b_fp8.csv"] == step_time(night_of((REGRESSED, PASSED)))
    assert by_workload(night_of((ERROR,))) == {}


@given(texts)
def test_labels_are_one_cell_each(text: str) -> None:
    night = night_of(
        tuple(varied(one, row=f"{text}{number}") for number, one in enumerate(hostile_night(text).records))
    )
    header, numbers = csv.reader(io.StringIO(step_time(night)))
    assert len(header) == len(numbers) == 6
    assert all(float(number) > 0 for number in numbers)
    # The plugin reads a backslash as the beginning of an escape.
    assert "\\" not in "".join(header)
    assert "\n" not in "".join(header)
