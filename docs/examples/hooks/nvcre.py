"""Reports of NVIDIA's Cluster Readiness Engine, each of one category of NCCL's tests. Copy it as conftest.py.

``nvcrectl certification report NAME --results-file NAME.json`` writes them. A table reads their figure:
``read: {pattern: '"busBW": "([0-9.]+) GB/s"'}``.
"""

import json

from pytest_gsw import Evidence, FoundLog, Identity, LogError


def report_of(path):
    """The report in a file; ``None`` if the file is none, or has several categories."""
    report = json.loads(path.read_text()) if path.suffix == ".json" else None
    is_report = isinstance(report, dict) and "totalNodes" in report and len(report.get("categories", ())) == 1
    return report if is_report else None


def pytest_gsw_find_logs(place, rows):
    for path in sorted(place.rglob("*.json")):
        report = report_of(path)
        if report is None:
            continue
        (category,) = report["categories"]
        test = category["variant"].removeprefix("nccl-").replace("-", "_")
        ran = (test, report["gpu"].upper(), category["nodesPerJob"])
        of_log = [row for row in rows if (row.workload.model, row.accelerator, row.nodes) == ran]
        yield FoundLog(path, report["name"], tuple(row.id for row in of_log))


def pytest_gsw_evidence(log):
    report = report_of(log)
    if report is None:
        return []
    (category,) = report["categories"]
    if category["status"] != "Succeeded" or report["failedNodes"]:
        raise LogError(f"the category has ended: {category['status']}", (("report", str(log)),))
    return [Evidence(log, Identity(accelerator=report["gpu"].upper()))]
