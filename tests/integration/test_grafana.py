"""The dashboards for Grafana: that it knows every key, and that Prometheus has every metric and label they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import promql_parser as promql
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_gsw.history.comparison import ClusterText
from pytest_gsw.history.node_search import FailingNode, SlowNode
from pytest_gsw.reports.ci import openmetrics
from pytest_gsw.results.record import of_content
from tests import grafana
from tests.integration.conftest import Gsw
from tests.unit.first_release import BANDWIDTH
from tests.unit.reports.ci.nights import run_of
from tests.unit.results.sweeps import slow_finding, sweep_of, tiles
from tests.unit.results.test_incident import run_records

# ---- Prometheus -------------------------------------------------------------------------------------


@pytest.fixture
def labels(pytester: pytest.Pytester, gsw: Gsw) -> Mapping[str, frozenset[str]]:
    """By metric, the labels of what ``export`` writes of a run, and of runs with what a single run does not have."""
    rows = ("-k", "llama2_70b_fp8 and x128", "--gsw-demo=*=slow:12%", "--gsw-history=history.sqlite")
    for _ in range(2):
        pytester.runpytest("--gsw-cluster=demo", *rows)
    run = max(pytester.path.glob(".gsw/runs/*"))
    out = gsw("report", run, "--format=openmetrics", "--history=history.sqlite").out
    suspect = SlowNode(("n1",), -0.1, (), (), recovered=False)
    odd = replace(
        run_of(run_records([0.06] * 9 + [-0.01])),
        slow_nodes={"eos": (suspect,)},
        nodes_failing_jobs={"eos": (FailingNode(("n1",), 6, 8, 0.02, named=True),)},
        cluster_texts={"eos": ClusterText(drift="drifts")},
    )
    swept = run_of(tiles(4))
    swept = replace(swept, run=replace(swept.run, sweep=sweep_of(swept.records, slow_finding("n003"))))
    found: dict[str, frozenset[str]] = {}
    of_figures = openmetrics(run_of([of_content(BANDWIDTH)]))
    for text in (out, f"{openmetrics(odd)}\n", f"{of_figures}\n", f"{openmetrics(swept)}\n"):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, frozenset()) | frozenset(sample.labels)
    assert "gsw_alarm_pages" in found
    return found


def selectors(expression: Any) -> Iterator[Any]:
    """The selectors of a query that is parsed."""
    if isinstance(expression, promql.VectorSelector):
        yield expression
    for name in ("expr", "lhs", "rhs"):
        part = getattr(expression, name, None)
        if part is not None:
            yield from selectors(part)


def test_every_metric_and_label_of_a_panel_and_of_a_variable_is_exported(labels: Mapping[str, frozenset[str]]) -> None:
    asked = list(grafana.targets("prometheus", "expr"))
    assert len(asked) >= 15
    for title, expression, target in asked:
        found = list(selectors(promql.parse(expression.replace("$", ""))))
        assert found, title
        shown = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
        for one in found:
            assert one.name in labels, (title, one.name)
            matched = {matcher.name for matcher in one.matchers.matchers}
            assert matched | shown <= labels[one.name], (title, one.name)
        grouped = set(re.findall(r"by \(([\w, ]+)\)", expression))
        assert all(set(names.split(", ")) <= labels[one.name] for names in grouped for one in found), title
    for query in grafana.variables("prometheus").values():
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", query["query"])
        assert asked is not None
        (selector,) = selectors(promql.parse(asked[1].replace("$", "")))
        assert {asked[2], *(matcher.name for matcher in selector.matchers.matchers)} <= labels[selector.name]
