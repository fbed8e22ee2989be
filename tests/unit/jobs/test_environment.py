from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm import client as slurm
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.spec import (
    job_environment,
    job_image,
    job_variable,
    kept_variables,
    masked_command,
    masked_environment,
    query_environment,
    session_environment,
)


def spec(environment: dict[str, str] | None = None, unset: tuple[str, ...] = ()) -> JobSpec:
    place = Path("/recipe")
    return JobSpec("row", "row", place / "launch.sh", place, place, 1, 8, environment or {}, unset)


def test_the_session_less_what_misleads_plus_the_row() -> None:
    kept = {"HOME": "/me", "SBATCH_ACCOUNT": "eng", "SLURM_PARTITION": "batch", "SLURM_GPUS_PER_NODE": "8"}
    misleading = {
        "SBATCH_GPUS": "h100:512",
        "SBATCH_EXPORT": "NONE",
        "SBATCH_WAIT": "1",
        "SLURM_CLUSTERS": "other",
        "SRUN_OUTPUT": "/tmp/one-log-for-all",
        "OPTIMIZATION_NAME": "left over",
        "DTYPE": "bf16",
    }
    own = spec({"DTYPE": "fp8"}, unset=("OPTIMIZATION_NAME",))
    assert job_environment(kept | misleading, own) == kept | {"DTYPE": "fp8"}


def test_inside_a_job_nothing_of_that_job_is_handed_on() -> None:
    kept = {"SLURM_CONF": "/c", "SLURM_ACCOUNT": "eng", "SLURM_MPI_TYPE": "pmi2", "SBATCH_PARTITION": "batch"}
    of_the_job = {
        "SLURM_STDOUTMODE": "/tmp/one-log-for-all",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_GPUS_PER_NODE": "1",
        "SLURMD_NODENAME": "n001",
        "PMIX_RANK": "0",
    }
    assert job_environment(kept | of_the_job, spec()) == kept


def test_what_the_row_sets_counts_even_if_the_session_must_not() -> None:
    assert job_environment({"SBATCH_GPUS": "8"}, spec({"SBATCH_GPUS": "64"})) == {"SBATCH_GPUS": "64"}


def test_queries_are_asked_plainly() -> None:
    session = {"SQUEUE_FORMAT": "%i", "SACCT_FORMAT": "JobID", "SLURM_TIME_FORMAT": "relative", "SLURM_CONF": "/c"}
    plain = {"SLURM_CONF": "/c", "SLURM_TIME_FORMAT": "%s", "TZ": "UTC0"}
    assert query_environment(session | {"SLURM_CLUSTERS": "other"}) == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter2@host/x", "https://***@host/x"),
        ("http://ghp_hunter2@host", "http://***@host"),
        ("a,redis://:hunter2@h:1,b", "a,redis://***@h:1,b"),
        ("https://me:hunter@2@host", "https://***@host"),
        ("https://host/a@b?c=d@e", "https://host/a@b?c=d@e"),
        ("me@host", "me@host"),
    ],
)
def test_the_user_of_an_url_is_masked(text: str, shown: str) -> None:
    given = {"PROXY": text, "HF_TOKEN": "hunter2", "API_KEY": "", "DTYPE": "fp8"}
    assert masked_environment(given) == given | {"PROXY": shown, "HF_TOKEN": "***"}
    assert masked_command(("sbatch", f"--comment=see {text}")) == ("sbatch", f"--comment=see {shown}")


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("--api-key=hunter2", "--api-key=***"),
        ("--comment=HF_TOKEN=hunter2==", "--comment=HF_TOKEN=***"),
        ("--x=ALL,HF_TOKEN=hunter2,A=b", "--x=ALL,HF_TOKEN=***,A=b"),
        ("--comment=token=hunter2 of me", "--comment=token=*** of me"),
        ("--account=eng", "--account=eng"),
        ("--gres=gpu:8", "--gres=gpu:8"),
        ("/r/launch.sh", "/r/launch.sh"),
        ("", ""),
    ],
)
def test_secrets_of_a_command_are_masked(argument: str, shown: str) -> None:
    assert masked_command((argument,)) == (shown,)


def test_nothing_of_pytests_own_or_of_the_history_reaches_a_job() -> None:
    session = {
        "PYTEST_CURRENT_TEST": "test_a.py::test_b (call)",
        "PYTEST_ADDOPTS": "-q",
        "PYTEST_XDIST_WORKER": "gw0",
        "MY_PYTEST": "1",
        "GSW_HISTORY": "postgresql://gsw:hunter2hunter2@db/gsw",
    }
    assert job_environment(session, spec()) == {"MY_PYTEST": "1"}
    assert job_environment(session, spec({"PYTEST_ADDOPTS": "-x"})) == {"MY_PYTEST": "1", "PYTEST_ADDOPTS": "-x"}


@pytest.fixture
def _restless_environment() -> Iterator[None]:
    """Another thread sets and deletes variables all the time, as pytest and fixtures do."""
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            for number in range(50):
                os.environ[f"GSW_TEST_TOKEN_{number}"] = "restless-value"
            for number in range(50):
                del os.environ[f"GSW_TEST_TOKEN_{number}"]

    thread = threading.Thread(target=change)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.mark.usefixtures("_restless_environment")
def test_an_environment_that_changes_meanwhile_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_run", lambda *_, **__: Output(0, "7\n", ""))
    for _ in range(30):
        launcher = SlurmLauncher()
        for _ in range(5):
            assert launcher.submit(spec()).id == "7"
        assert redact("nothing", os.environ) == "nothing"


def test_the_sessions_environment_stays_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSW_TEST", "then")
    session = session_environment()
    monkeypatch.setenv("GSW_TEST", "now")
    assert session["GSW_TEST"] == "then"
    assert session_environment({"A": "b"}) == {"A": "b"}


@pytest.mark.parametrize("inside_a_job", [False, True])
@pytest.mark.parametrize("name", ["ONE", "TWO", "THREE", "SLURM_NTASKS", "SBATCH_WAIT", "PYTEST_ADDOPTS", "NONE"])
def test_one_variable_is_that_of_the_whole(name: str, inside_a_job: bool) -> None:
    session = {"ONE": "1", "TWO": "2", "THREE": "3", "SLURM_NTASKS": "8", "SBATCH_WAIT": "1", "PYTEST_ADDOPTS": "-x"}
    if inside_a_job:
        session["SLURM_JOB_ID"] = "7"
    own = spec({"ONE": "of the row"}, unset=("TWO", "ONE"))
    assert job_variable(session, own, name) == job_environment(session, own).get(name, "")


def test_a_job_runs_the_image_that_its_environment_chooses() -> None:
    session = {"RUN_CONF_IMAGE": "registry#image"}
    assert job_image(session, spec()) == "registry#image"
    assert job_image(session, spec({"RUN_CONF_IMAGE": "own#image"})) == "own#image"
    assert job_image(session, spec(unset=("RUN_CONF_IMAGE",))) is None


def test_what_a_record_keeps_of_a_jobs_variables() -> None:
    session = {
        "HOME": "/home/me",
        "NCCL_DEBUG": "WARN",
        "NCCL_ALGO": "Ring",
        "XLA_FLAGS": "--of-the-shell",
        "CUDA_EMPTY": "",
        "STEP_MS": "850",
        "OTHER": "1",
    }
    own = {
        "XLA_FLAGS": "--of-the-cluster",
        "NCCL_IB_DISABLE": "1",
        "EMPTY": "",
        # What another row, or another run, need not share.
        "STAGE_PATH": "/stage",
        "DTYPE": "fp8",
        "GSW_ROW": "row",
        "GSW_ATTEMPT": "2",
        "SLURM_STDOUTMODE": "/stage/results/x.out",
        "LLMB_EXPERIMENT_DIR": "/stage/x",
        "RUN_CONF_IMAGE": "nemo.sqsh",
    }
    assert kept_variables(session, spec(own, unset=("NCCL_ALGO",)), ["STEP_MS"]) == {
        "EMPTY": "",
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_DISABLE": "1",
        "STEP_MS": "850",
        "XLA_FLAGS": "--of-the-cluster",
    }


def test_of_a_secret_only_whether_it_is_set_is_kept() -> None:
    token = "hf_" + "Ab3" * 8
    own = {"HF_TOKEN": "hunter2", "DB_PASS": "", "PROXY": "http://me:pw@proxy", "EXTRA": f"--token={token} --fast"}
    own["OF_SESSION"] = "x --pass correct-horse"
    assert kept_variables({"MY_SECRET": "correct-horse"}, spec(own)) == {
        "DB_PASS": "",
        "EXTRA": "--token=*** --fast",
        "HF_TOKEN": "***",
        "OF_SESSION": "x --pass ***",
        "PROXY": "http://***@proxy",
    }


def test_what_is_kept_of_variables_is_bounded_and_one_line() -> None:
    flags = "--xla_flag=true " * 100
    kept = [kept_variables({}, spec({"XLA_FLAGS": f"{flags}{last}"})) or {} for last in ("1", "2")]
    assert [len(one["XLA_FLAGS"]) for one in kept] == [212, 212]
    assert kept[0] != kept[1]
    assert kept_variables({}, spec({"A": "one\n\ttwo \x1b[31m"})) == {"A": "one two"}
    assert len(kept_variables({}, spec({f"V{number}": "" for number in range(200)})) or {}) == 200
    assert kept_variables({}, spec({f"V{number}": "" for number in range(201)})) is None
