"""A log has one verdict, whichever command judges it: a replay, ``pytest-gsw metrics --row``, ``history --from-logs``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.results import outcomes
from tests.integration.conftest import Gsw, records, tiny_table
from tests.integration.runs import accept
from tests.integration.test_docs import example

ROW = "tiny_1b_bf16[H100x8]"
LINE = "completed step: {step}, seconds: {seconds}, loss: {loss}\n"
EVIDENCE = "from pytest_gsw import Evidence, Identity\ndef pytest_gsw_evidence(log):\n    return {}\n"
RULE = (
    "from dataclasses import replace\nimport pytest\nfrom pytest_gsw.stats.verdict import Outcome\n"
    "@pytest.hookimpl(wrapper=True)\ndef pytest_gsw_judge():\n"
    "    verdict = yield\n    return replace(verdict, outcome=Outcome.REGRESSED)\n"
)
READ = (
    "from pytest_gsw import Metric, Direction\ndef pytest_gsw_metrics():\n"
    "    return [Metric('mem_gib', 'GiB', Direction.LOWER_IS_BETTER, label='memory', read=lambda log: [{}])]\n"
)
#: By name, a site's plugin, and the outcome of a good log with it.
SITES = {
    "none": ("", "passed"),
    "agrees": (EVIDENCE.format("[Evidence(log, Identity(gpus=8))]"), "passed"),
    "differs": (EVIDENCE.format("[Evidence(log, Identity(gpus=16))]"), "error"),
    "not comparable": (EVIDENCE.format("[Evidence(log, Identity(), not_comparable='traced')]"), "profiled"),
    "raises": (EVIDENCE.format("{}['gone']"), "error"),
    "skips": (f"import pytest\n{EVIDENCE.format('pytest.skip()')}", "error"),
    "exits": (EVIDENCE.format("exit(0)"), "error"),
    "no list": (EVIDENCE.format("5"), "error"),
    "no evidence": (EVIDENCE.format("[None]"), "error"),
    "rule": (RULE, "regressed"),
    "rubbish": ("def pytest_gsw_judge():\n    return 'passed'\n", "error"),
    "peak": ("def pytest_gsw_peak_flops():\n    return 1.0\n", "error"),
    "tolerance": ("", "regressed"),
}
#: By name: the seconds of a step, the last loss, the metrics of the row and the plugin that reads them, and the outcome.
LOGS: dict[str, tuple[float, float, str, str, str]] = {
    "slow": (1.2, 7, "", "", "regressed"),
    "fast": (0.9, 7, "", "", "improved"),
    "impossible": (0.1, 7, "", "", "inconclusive"),
    "loss": (1.0, 9.9, "metrics: {final_loss: {value: 7.0, within: 1 %}}, ", "", "regressed"),
    "good loss": (1.0, 7.0, "metrics: {final_loss: {value: 7.0, within: 1 %}}, ", "", "passed"),
    "memory": (1.0, 7.0, "metrics: {mem_gib: {value: 60}}, ", READ.format(70), "regressed"),
    "good memory": (1.0, 7.0, "metrics: {mem_gib: {value: 60}}, ", READ.format(60), "passed"),
    "no memory": (1.0, 7.0, "metrics: {mem_gib: {value: 60}}, ", READ.format(""), "error"),
    "canary": (1.2, 7, "canary: true, ", "", "inconclusive"),
}


def write(pytester: pytest.Pytester, seconds: float = 1.0, loss: float = 7.0, more: str = "") -> Path:
    (pytester.path / "tiny.yaml").write_text(tiny_table(f"gpus: 8, step_time_s: 1.000, {more}line: 10"))
    log = pytester.mkdir("logs") / "log-maxtext_tiny_1b_8_77.out"
    losses = [9.0] * 19 + [loss]
    log.write_text("".join(LINE.format(step=step, seconds=seconds, loss=loss) for step, loss in enumerate(losses)))
    return log


def verdicts(pytester: pytest.Pytester, gsw: Gsw, log: Path, *plugins: str, cluster: bool = False) -> set[str]:
    """The outcomes by all three, whose exit statuses agree; an error for a log that is left out."""
    session = pytester.runpytest(
        f"--gsw-replay={log}", "tiny.yaml", *(["--gsw-cluster=ours"] if cluster else []), *plugins
    )
    (record,) = records(pytester.path)
    outcome = record["outcome"]
    status = 6 if outcome == "profiled" else int(session.ret)  # no row of such a session was judged, which is 5
    place = ["--cluster=ours"] if cluster else []
    told = gsw("metrics", log, "--row", ROW, "--baselines=tiny.yaml", "--json", *place, *plugins, status=status).out
    found = {outcome, json.loads(told)["verdict"] if told else "error"}
    kept = outcome in outcomes.JUDGED
    arguments = ("--from-logs=logs", "--cluster=ours", "--baselines=tiny.yaml", "--history=h.db", *plugins)
    gsw("history", *arguments, status=0 if kept else 1)
    with open_history(pytester.path / "h.db") as history:
        return found | {record.outcome for run in history.runs() for record in history.records(run)}


@pytest.mark.parametrize("place", ["conftest", "module"])
@pytest.mark.parametrize("site", SITES)
def test_a_plugin_of_a_site_counts_in_all_commands(pytester: pytest.Pytester, gsw: Gsw, site: str, place: str) -> None:
    text, outcome = SITES[site]
    plugins = () if place == "conftest" else ("-p", "siteplugin")
    if place == "conftest":
        pytester.makeconftest(text)
    else:
        pytester.makepyfile(siteplugin=text)
        pytester.syspathinsert()
    if site == "tolerance":
        pytester.makeini("[pytest]\ngsw_tolerance = 0.1%\n")
    log = write(pytester, 1.01)
    assert verdicts(pytester, gsw, log, *plugins) == {outcome}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_has_one_verdict(pytester: pytest.Pytester, gsw: Gsw, name: str) -> None:
    seconds, loss, more, plugin, outcome = LOGS[name]
    pytester.makeconftest(plugin)
    log = write(pytester, seconds, loss, more)
    assert verdicts(pytester, gsw, log) == {outcome}


@pytest.mark.parametrize(("limit", "seconds", "outcome"), [("0.1%", 1.01, "regressed"), ("30%", 1.2, "passed")])
def test_the_tolerance_of_a_cluster_counts_in_all_commands(
    pytester: pytest.Pytester, gsw: Gsw, limit: str, seconds: float, outcome: str
) -> None:
    settings = f"{{scheduler: slurm, accelerator: H100, gpus_per_node: 8, stage: logs, tolerance: {limit}}}"
    (pytester.path / "clusters.yaml").write_text(f"clusters: {{ours: {settings}}}\n")
    assert verdicts(pytester, gsw, write(pytester, seconds), cluster=True) == {outcome}


def test_the_accepted_figure_of_a_cluster_counts_in_all_commands(pytester: pytest.Pytester, gsw: Gsw) -> None:
    settings = "{scheduler: slurm, accelerator: H100, gpus_per_node: 8, stage: logs}"
    (pytester.path / "clusters.yaml").write_text(f"clusters: {{ours: {settings}}}\n")
    log = write(pytester, 1.2)
    accept(pytester.path / "tiny.yaml", 1.2, None, "ours")
    assert verdicts(pytester, gsw, log, cluster=True) == {"passed"}


def test_the_reason_is_that_of_the_figure_that_decides(pytester: pytest.Pytester, gsw: Gsw) -> None:
    log = write(pytester, loss=9.9, more="metrics: {final_loss: {value: 7.0, within: 1 %}}, ")
    found = json.loads(gsw("metrics", log, "--row", ROW, "--baselines=tiny.yaml", "--json", status=1).out)
    assert (found["verdict"], found["reason"]) == ("regressed", "+41.4 % final loss, allowed +1 %")


@pytest.mark.parametrize(("text", "outcome"), [("profile_enabled: true", "profiled"), ("", "error")])
def test_a_file_of_the_logs_own_job_counts_in_all_commands(
    pytester: pytest.Pytester, gsw: Gsw, text: str, outcome: str
) -> None:
    log = write(pytester)
    log.with_name("llmb-config_77.yaml").write_text(text and f"job_info:\n  job_id: '77'\n  {text}\n")
    assert verdicts(pytester, gsw, log) == {outcome}


def test_evidence_of_the_page_counts_in_all_commands(pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.makeconftest(example("pytest_gsw_evidence"))
    log = write(pytester)
    log.with_name("started.json").write_text('{"batch": 256, "traced": false}')
    assert verdicts(pytester, gsw, log) == {"error"}


def test_a_metric_that_no_plugin_reads_is_an_error(pytester: pytest.Pytester, gsw: Gsw) -> None:
    assert verdicts(pytester, gsw, write(pytester, more="metrics: {mem_gib: {value: 60}}, ")) == {"error"}


@pytest.mark.parametrize("text", ["import nosuchmodule", "raise SystemExit(0)", "def pytest_gsw_evidence(lgo): ...\n"])
def test_plugins_that_cannot_be_loaded_leave_it_open(pytester: pytest.Pytester, gsw: Gsw, text: str) -> None:
    log = write(pytester)
    pytester.makeconftest(text)
    told = gsw("metrics", log, "--row", ROW, "--baselines=tiny.yaml", status=6)
    assert (told.out, str(pytester.path) in told.err) == ("", True)
    history = ("history", "--from-logs=logs", "--cluster=ours", "--baselines=tiny.yaml", "--history=h.db")
    assert gsw(*history, status=6).out == ""
