"""Files of the first release, whose records had seconds, or the inverse of a rate, in place of figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_gsw.results.record import read_record
from pytest_gsw.results.row_line import line_of
from pytest_gsw.results.sweep import read_sweep
from pytest_gsw.stats.decision import Outcome
from tests.messages import wording
from tests.unit.first_release import BANDWIDTH, STEPS


def write(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "records" / "row.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_a_bandwidth_is_one_again(tmp_path: Path) -> None:
    record = read_record(write(tmp_path, BANDWIDTH))
    assert record.verdict is not None
    assert (record.verdict.measured, record.verdict.documented, record.verdict.accepted) == (78.64, 85.5, 80.1)
    assert record.verdict.jobs == (77.9, 78.64, 79.02)
    assert record.verdict.steady_s is None
    assert record.verdict.cluster_effect is not None
    assert record.verdict.cluster_effect.usual == 80.3
    assert [job.judged for job in record.measured_jobs] == [77.9, 79.02, 78.64]
    assert record.verdict.change == pytest.approx(78.64 / 80.1 - 1)
    assert record.verdict.documented_outcome is Outcome.REGRESSED
    assert wording("changes of two", metric="bus", change="bandwidth -1.8 %", documented="-8.0 %") in line_of(
        record
    ).text(120)
    assert "78.64 GB/s at 16 GiB" in line_of(record).text(120)


def test_a_step_time_is_what_it_was(tmp_path: Path) -> None:
    record = read_record(write(tmp_path, STEPS))
    assert record.verdict is not None
    assert (record.verdict.measured, record.verdict.documented, record.verdict.jobs) == (5.11, 4.556, (5.11,))
    assert record.verdict.steady_s == 5.1
    assert record.verdict.change == pytest.approx(4.556 / 5.11 - 1)


@pytest.mark.parametrize("wrong", ["0.01", {}, True])
def test_a_damaged_job_is_no_record(tmp_path: Path, wrong: object) -> None:
    path = write(tmp_path, {**BANDWIDTH, "job": {**BANDWIDTH["job"], "judged_s": wrong}})
    with pytest.raises(ValueError, match="is no record"):
        read_record(path)


def test_the_jobs_of_a_search_have_their_figures(tmp_path: Path) -> None:
    write(tmp_path, BANDWIDTH)
    job = {"round": 1, "nodes": "n1", "job_id": "7", "seconds": 1 / 78.64, "problem": "", "gpu_hours": 1.0}
    sweep = {
        "kind": "node",
        "partition": "batch",
        "nodes": 2,
        "rows": [{"row": "all_reduce_fp32[H100x8]", "jobs": [job]}, {"row": "other[H100x8]", "jobs": [job]}],
    }
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    found = read_sweep(tmp_path)
    assert found is not None
    assert [one.jobs[0].judged for one in found.rows] == [78.64, 1 / 78.64]
