from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
import yaml

from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import table_files
from tests.json_schema import baseline_schema, clusters_schema, schema_files
from tests.unit.tables.texts import TINY

BASELINES = jsonschema.Draft202012Validator(baseline_schema())
CLUSTERS = jsonschema.Draft202012Validator(clusters_schema())
SAFE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@pytest.mark.parametrize("path", schema_files(), ids=lambda path: path.name)
def test_the_files_in_the_package_are_up_to_date(path: Any) -> None:
    assert path.read_text() == schema_files()[path], "run: python -m tests.json_schema"


def test_the_schemas_are_schemas() -> None:
    BASELINES.check_schema(BASELINES.schema)
    CLUSTERS.check_schema(CLUSTERS.schema)


@pytest.mark.parametrize("path", table_files(bundled_baselines()), ids=lambda path: "/".join(path.parts[-2:]))
def test_every_bundled_table_is_valid(path: Any) -> None:
    assert [error.message for error in BASELINES.iter_errors(SAFE(path.read_text()).get_single_data())] == []


def test_every_key_has_a_description() -> None:
    row = baseline_schema()["properties"]["tables"]["items"]["properties"]["rows"]["items"]
    for key, schema in row["properties"].items():
        assert schema["description"].endswith("."), key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step_times_s", 1.5),
        ("step_time_s", 0),
        ("step_time_s", "fast"),
        ("gpus", 8.5),
        ("gpus", 0),
        ("tolerance", 5),
        ("tolerance", "5"),
        ("tolerance", "100%"),
        ("tolerance", "100.0 %"),
        ("proxy", "yes"),
        ("metric", "Speed"),
        ("statistic", "mode"),
        ("size", "70B"),
        ("attributes", {"a b": 1}),
        ("attributes", {"a": [1]}),
        ("gpus", None),
    ],
)
def test_a_row_that_the_loader_refuses_is_not_valid(key: str, value: object) -> None:
    table = yaml.safe_load(TINY)
    assert BASELINES.is_valid(table)
    table["tables"][0]["rows"][0][key] = value
    assert not BASELINES.is_valid(table)


@pytest.mark.parametrize("missing", ["model", "framework", "tables"])
def test_a_table_without_what_it_needs_is_not_valid(missing: str) -> None:
    table = yaml.safe_load(TINY)
    del table[missing]
    assert not BASELINES.is_valid(table)


def test_a_table_without_rows_is_not_valid() -> None:
    table = yaml.safe_load(TINY)
    table["tables"][0]["rows"] = []
    assert not BASELINES.is_valid(table)
    table["tables"] = []
    assert not BASELINES.is_valid(table)


CLUSTER = {
    "clusters": {
        "eos": {
            "scheduler": "slurm",
            "account": "${ACCOUNT}",
            "gpus_per_node": 8,
            "sbatch": ["--qos=high"],
            "environment": {"NCCL_DEBUG": "WARN", "RETRIES": 3, "QUIET": True},
            "tolerance": "3%",
        }
    }
}


def test_a_cluster_is_valid() -> None:
    assert CLUSTERS.is_valid(CLUSTER)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acount", "eng"),
        ("gpus_per_node", "eight"),
        ("sbatch", "--qos=high"),
        ("scheduler", "Slurm"),
        ("tolerance", "100%"),
    ],
)
def test_a_cluster_that_the_loader_refuses_is_not_valid(key: str, value: object) -> None:
    clusters: Any = copy.deepcopy(CLUSTER)
    clusters["clusters"]["eos"][key] = value
    assert not CLUSTERS.is_valid(clusters)
