"""Logs of Kubernetes' pods, ``NAMESPACE_POD_UID/CONTAINER/0.log``: of each job's first. Copy it as conftest.py.

A job is named like its row: ``llama3-8b-bf16-h100x16`` for ``llama3_8b_bf16[H100x16]``.
"""

import re

from pytest_gsw import FoundLog

#: The first pod of a job of Kubeflow: of PyTorchJob, MPIJob and TrainJob.
FIRST = re.compile(r"(.+)-(?:master-0|launcher(?:-[a-z0-9]+)?|node-0-0(?:-[a-z0-9]+)?)")


def letters(text):
    return re.sub("[^a-z0-9]", "", text.lower())


def pytest_gsw_find_logs(place, rows):
    for directory in sorted(place.glob("*_*_*/*")):
        job = FIRST.fullmatch(directory.parent.name.split("_")[1])
        starts = [log for log in directory.glob("*.log") if log.stem.isdecimal()]
        if job and starts:
            ids = tuple(row.id for row in rows if letters(row.id) == letters(job[1]))
            yield FoundLog(max(starts, key=lambda log: int(log.stem)), job[1], ids)
