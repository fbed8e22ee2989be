"""``pytest-gsw rows`` and ``pytest-gsw metrics``."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Gsw, tiny_table
from tests.integration.test_docs import TICK_TABLE, example
from tests.messages import wording
from tests.unit.validation.ended import step_lines

MEGATRON = "".join(
    f" iteration {n:8d}/      12 | consumed samples: {n * 256:12d} | elapsed time per iteration (ms): {ms:.1f} |"
    f" learning rate: 1.500E-04 | global batch size:   256 | lm loss: 9.0E+00 | number of nan iterations:   0 |\n"
    for n, ms in enumerate([9000.0, 2500.0, 2400.0, 2450.0, 2410.0], start=1)
)


def test_rows_json_has_every_row_with_its_keys(gsw: Gsw) -> None:
    found = json.loads(gsw("rows", "--json").out)
    assert len(found) == len({row["id"] for row in found}) == 141
    (row,) = (row for row in found if row["id"] == "llama3.1_405b_bf16[H100x96]")
    for other in found:
        assert set(other) == set(row)
        assert set(other["documented"]) == set(other["computed"]) == set(row["documented"])
        assert set(other["source"]) == set(row["source"])
    assert (row["workload"], row["nodes"], row["step_time_s"], row["proxy"]) == ("llama3.1_405b", 12, 8.75, True)
    assert row["documented"] == {
        "tokens_per_s": 117965.0,
        "samples_per_s": None,
        "mfu": 0.5617,
        "days_to_train_1t_tokens": None,
        "tflops_per_gpu": None,
        "checkpoint_save_time_s": None,
        "calibrated_step_time_s": None,
    }
    assert row["computed"]["tokens_per_s"] == pytest.approx(117964.8)
    assert row["computed"]["mfu"] == pytest.approx(0.5620, abs=5e-5)
    assert row["computed"]["days_to_train_1t_tokens"] is None
    assert row["source"] == {
        "document": "001_d72875405c2646ca.txt",
        "line": 58,
        "release": None,
        "releases": ["24.11.1", "25.01", "25.01.1"],
        "title": "Llama 3.1 405b 24.09 BF16 (TP=8, PP=9, CP=2, VP=7, MBS=1, GA=63)",
        "section": "Expected Performance",
    }


def test_rows_of_a_path(gsw: Gsw, table: Path) -> None:
    out = gsw("rows", table).out
    head, _, row = map(str.split, out.splitlines()[:3])
    assert head == ["row", "nodes", "GBS", "seconds", "tokens/s", "MFU", "TFLOP/s/GPU", "tolerance", "document"]
    assert row == ["tiny_1b_bf16[H100x8]", "1", "64", "1", "65,536", "derived", "4.85%", "5", "%", "site.md:10"]
    assert out.endswith("3 rows\n")


def metrics(gsw: Gsw, *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gsw("metrics", "--json", *arguments).out)
    return found


def test_metrics_of_a_log(gsw: Gsw, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(MEGATRON)
    found = metrics(gsw, log)
    assert found["format"] == "megatron"
    assert (found["steps"], found["statistic"]) == (5, "last")
    assert found["step_time_s"] == found["last_step_time_s"] == 2.41
    assert found["first_step_time_s"] == 9.0
    assert found["median_step_time_s"] == 2.45
    assert found["global_batch_size"] == 256
    assert metrics(gsw, log, "--statistic=mean[2:3]")["step_time_s"] == 2.45
    said = "pytest-gsw metrics: --statistic: got 'average', wanted last, mean or median"
    assert gsw("metrics", log, "--statistic=average", status=2).err.startswith(said)
    assert gsw("metrics", log, "--row", "llama2_70b_fp8[H100x65]", status=2).err == (
        "pytest-gsw metrics: "
        + wording("no row", name="llama2_70b_fp8[H100x65]", nearest="llama2_70b_fp8[H100x64]")
        + "\nnext: pytest-gsw rows\n"
    )
    log.write_text("")
    assert str(log) in gsw("metrics", log, status=1).err


def test_metrics_as_a_run_of_a_row(gsw: Gsw, tmp_path: Path) -> None:
    row = "baselines/huggingface/gpt2.yaml::gpt2_52b_fp16[V100-32GBx64-hf-mbs8-0525]"
    summary = tmp_path / "hf.log"
    summary.write_text(
        "{'train_runtime': 273.0144, 'train_samples_per_second': 3.663, 'train_steps_per_second': 0.007, 'epoch': 1.0}\n"
    )
    found = metrics(gsw, summary, "--row", row)
    assert found["format"] == "huggingface"
    assert found["step_time_s"] == pytest.approx(512 / 3.663)
    assert found["tflops_per_gpu"] == pytest.approx(24.4, abs=0.05)
    assert found["verdict"] == "passed"


def test_a_log_whose_stderr_tells_of_a_bad_end(gsw: Gsw, tmp_path: Path) -> None:
    log, errors = tmp_path / "run.out", tmp_path / "run.err"
    log.write_text(step_lines(range(50), "4.324"))
    row = "llama2_70b_fp8[H100x64]"
    assert metrics(gsw, log, "--row", row)["step_time_s"] == 4.324
    errors.write_text("NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n")
    assert f"said at    {errors}:1" in gsw("metrics", log, "--row", row, status=1).err


def test_a_log_as_a_run_of_a_row_is_of_no_job(gsw: Gsw, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    row = "gpt2_18b_fp16[V100-32GBx16-pp8-gas64-mbs4]"
    log.write_text(MEGATRON[: MEGATRON.index("\n") + 1].replace("9000.0", "1.0"))
    error = gsw("metrics", log, "--row", row, status=1).err
    assert "\nlog " in error
    assert "REPLAYED" not in error


def test_a_rate_of_next_to_nothing(gsw: Gsw, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("{'train_runtime': 1.0, 'train_samples_per_second': 1e-320, 'epoch': 1.0}\n")
    row = "gpt2_52b_fp16[V100-32GBx64-hf-mbs8-0525]"
    out, error = gsw("metrics", path, "--json", "--row", row, status=1)
    assert (out, error.partition("\n")[0]) == ("", "pytest-gsw metrics: " + wording("infinite time"))


def test_a_statistic_that_overflows(gsw: Gsw, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    step = "[PAX STATUS]: train_step() took 1e308 seconds.\n"
    path.write_text(step * 2)
    assert gsw("metrics", path, "--json", "--statistic=mean", status=1) == (
        "",
        "pytest-gsw metrics: " + wording("too large numbers", path=path) + "\n",
    )
    assert gsw("metrics", path, "--json", status=1) == (
        "",
        f"pytest-gsw metrics: median_step_time_s is inf: the numbers in {path} cannot be measured\n",
    )


def test_help_imports_no_command() -> None:
    asks = "import sys; from pytest_gsw.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", asks, "alarms", "--help"], capture_output=True, text=True, check=True
    )
    assert "mark an alarm as known" in done.stdout
    assert 0 < len(re.findall(r"\| +pytest_gsw\b", done.stderr)) <= 60


def test_output_that_cannot_be_written() -> None:
    command = [sys.executable, "-m", "pytest_gsw.cli", "rows"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        wording("output cannot be written", command="rows", what="output", why="No space left on device") + "\n",
    )


def test_a_reader_that_has_gone_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pytest_gsw.cli", "rows"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_terminal_cannot_show_is_no_traceback(tmp_path: Path) -> None:
    table = tmp_path / "t.yaml"
    table.write_text(tiny_table("gpus: 8, step_time_s: 1.0, line: 10").replace("site.md", "sit\u00e9.md"))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest_gsw.cli", "rows", str(table)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "  sit?.md:10\n" in ended.stdout


def test_rows_of_a_cluster_are_those_of_its_release(gsw: Gsw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / "clusters.yaml").write_text(
        "clusters:\n  eos:\n    scheduler: slurm\n    account: ${NOT_SET}\n    release: '25.02'\n"
        "  dgx:\n    scheduler: slurm\n    release: '1.02'\n"
    )
    listed = json.loads(gsw("rows", "--json", "--cluster=eos").out)
    assert len(listed) == 118
    assert len(json.loads(gsw("rows", "--json", "--cluster=demo").out)) == 141
    assert wording("figures of no release", release="1.02") in gsw("rows", "--cluster=dgx", status=2).err
    # The row of the release that is staged, not the document's of the same name.
    assert (
        wording("no row like it", name="llama2_70b_fp8[H100x128]")
        in gsw("metrics", "nowhere.out", "--cluster=eos", "--row=llama2_70b_fp8[H100x128]", status=2).err
    )


def test_rows_of_a_cluster_are_those_that_it_can_run(gsw: Gsw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chips = {"mi": "MI300X", "h": "H100", "gb": "GB300", "mi250": "MI250X"}
    of_clusters = (f"  {name}: {{scheduler: local, accelerator: {chip}, gpus: 64}}\n" for name, chip in chips.items())
    (tmp_path / "clusters.yaml").write_text(f"clusters:\n{''.join(of_clusters)}")
    monkeypatch.chdir(tmp_path)
    listed = {name: gsw("rows", f"--cluster={name}").out for name in chips}
    assert {name: text.splitlines()[-1] for name, text in listed.items()} == {
        "mi": "2 rows",
        "h": wording("rows that cannot run", rows="129 rows", cluster="h"),
        "gb": wording("rows that cannot run", rows="13 rows", cluster="gb"),
        "mi250": "next: write a table of one row and a guess, site/NAME.yaml, and measure it (docs/recipes.md), "
        "with slow_start: 0 and timeout: 60 in clusters.yaml: pytest --gsw-cluster=mi250 --gsw-baselines=site "
        "--gsw-repeat=5",
    }
    rows = json.loads(gsw("rows", "--cluster=mi", "--json").out)
    assert {row["accelerator"] for row in rows} == {"MI300X"}
    assert gsw("rows", "--cluster=mi250", "--json").out == "[]\n"


def test_rows_of_a_cluster_with_megatron_bridge_are_those_of_its_container(
    gsw: Gsw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clusters.yaml").write_text(
        f"clusters:\n  eos:\n    scheduler: slurm\n    accelerator: GB200\n    gpus_per_node: 4\n    stage: {tmp_path}\n"
        f"    recipes: {tmp_path}/Megatron-Bridge\n    release: '26.06'\n"
    )
    assert wording("of release", release="26.06") in gsw("rows", "--cluster=eos", status=2).err
    script = tmp_path / "Megatron-Bridge" / "scripts" / "performance" / "setup_experiment.py"
    script.parent.mkdir(parents=True)
    script.touch()
    assert len(json.loads(gsw("rows", "--json", "--cluster=eos").out)) == 14


ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b and x128")


def test_without_a_run_it_names_the_next_command(pytester: pytest.Pytester, gsw: Gsw) -> None:
    out = gsw().out
    assert out == "there is no run in .gsw/runs\nnext: pytest --gsw-cluster=NAME, or of a history: pytest-gsw alarms\n"


def test_the_newest_run_is_told_with_what_to_type_next(pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.runpytest(*ROWS).assert_outcomes(passed=2, deselected=139)
    result = pytester.runpytest(*ROWS, "--gsw-demo=*fp8*=slow:12%", "--gsw-demo=*bf16*=oom")
    result.assert_outcomes(failed=1, errors=1, deselected=139)
    lines = gsw().out.splitlines()
    (newest,) = {path.name for path in pytester.path.glob(".gsw/runs/*")} & {lines[0].split()[1]}
    assert re.fullmatch(rf"run +{newest} on demo, \d{{4}}-\d\d-\d\d \d\d:\d\d", lines[0])
    assert re.sub(r" +", " ", lines[1]) == "rows 2 rows: 1 regressed, 1 error"
    assert re.match(
        r"regressed +llama2_70b_fp8\[H100x128\]: throughput .* below the documented .*; since this run", lines[2]
    )
    assert re.match(r"error +llama2_70b_bf16\[H100x128\]: job \S+ failed .*out of memory", lines[3])
    following = [line.split(maxsplit=1)[1] for line in lines if line.startswith("next ")]
    assert ["--gsw-confirm=4" in line for line in following] == [True, False]
    program, *again = shlex.split(following[0])
    assert program == "pytest"
    pytester.runpytest(*again).assert_outcomes(failed=1)


def test_advice_for_the_newest_run_names_its_row(pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.runpytest(*ROWS, "--gsw-demo=*fp8*=nan").assert_outcomes(passed=1, errors=1, deselected=139)
    advice = "a diverged run is no measure of performance: find out why before measuring"
    assert gsw().out.splitlines()[-1] == f"next   for llama2_70b_fp8[H100x128]: {advice}"


def test_where_all_is_well_the_report_is_next(pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.makeini("[pytest]\ngsw_cluster = demo\ngsw_results = out\ngsw_history = none\n")
    pytester.runpytest("-k", "gpt3_175b and x128").assert_outcomes(passed=1, deselected=140)
    lines = gsw().out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "rows", "next"]
    assert lines[-1].split(maxsplit=1)[1] == "pytest-gsw report last"


LOG = "tick 1 took 2.0 s, loss 9.3\ntick 2 took 0.72 s, loss 9.2\ntick 3 took 0.71 s, loss 9.1\n"


@pytest.fixture
def log(pytester: pytest.Pytester) -> Path:
    (pytester.path / "own.yaml").write_text(TICK_TABLE)
    path = pytester.path / "stage" / "results" / "v1" / "bf16" / "1b" / "8" / "log-own_own_1b_8_pod-abc.out"
    path.parent.mkdir(parents=True)
    path.write_text(LOG)
    return path


def test_a_format_of_a_conftest(pytester: pytest.Pytester, log: Path, gsw: Gsw) -> None:
    pytester.makeconftest(f"print('hello')\n{example('pytest_gsw_log_format')}")
    assert (
        json.loads(gsw("metrics", log, "--row=own_1b_bf16[X100x8]", "--baselines=own.yaml", "--json").out)[
            "step_time_s"
        ]
        == 0.71
    )
    added = ["history", "--from-logs=stage", "--cluster=ours", "--baselines=own.yaml", "--history=h.sqlite"]
    assert "1 record of 1 run added" in gsw(*added).out
    (series,) = json.loads(gsw("history", "--history=h.sqlite", "--json").out)
    assert [(point["job_id"], point["judged"]) for point in series["points"]] == [("pod-abc", 0.71)]


def test_a_format_of_a_named_plugin(pytester: pytest.Pytester, log: Path, gsw: Gsw) -> None:
    pytester.makepyfile(tickplugin=example("pytest_gsw_log_format"))
    pytester.syspathinsert()
    gsw("metrics", log, "--format=tick", "-p", "tickplugin")
    unknown, known, following = gsw("metrics", log, "--format=tick", status=2).err.splitlines()
    assert unknown.startswith("pytest-gsw metrics: " + wording("no format", name="tick"))
    assert re.fullmatch(r"known: automodel, composer, deepspeed, .*, and what the plugins of .* add", known)
    assert following == wording("next plugin")


def test_a_plugin_that_cannot_be_loaded_is_told(pytester: pytest.Pytester, log: Path) -> None:
    pytester.makeconftest("import nosuchmodule")
    result = pytester.run(sys.executable, "-m", "pytest_gsw.cli", "metrics", log, "--format=tick")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["*nosuchmodule*", "pytest-gsw: the plugins of * cannot be loaded*"])
    assert "Traceback (most recent call last)" not in result.stderr.str()
