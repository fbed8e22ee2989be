"""Exclude a node, and set a variable of all jobs. Copy it as conftest.py."""

import dataclasses

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_gsw_make_job_spec(cluster):
    spec = yield
    exclude = ("--exclude=pool0-0017",) if cluster.scheduler == "slurm" else ()
    return dataclasses.replace(
        spec,
        options=(*spec.options, *exclude),
        environment={**spec.environment, "NCCL_DEBUG": "WARN"},
    )
