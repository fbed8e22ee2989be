"""A launch script that submits two jobs for a row: the import of a checkpoint, and the training that waits for it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from pytest_gsw.logs.signatures import SIGNATURES, cause_line
from tests.integration.conftest import properties, tiny_table
from tests.messages import wording

from .cluster import SlurmCluster
from .recipes import FINETUNE_CLUSTERS, TABLE, finetune
from .sessions import PASSED, Misfortune, Session, Site, error

SFT = TABLE.replace("steps: 50", "steps: 50, environment: {FT_TYPE: sft}")
#: An import that goes on until the test lets it.
HELD = 'echo "$SLURM_JOB_ID" >"$NEMORUN_HOME/held"; until [ -e "$NEMORUN_HOME/go" ]; do sleep 0.05; done'


@pytest.fixture
def site(tmp_path: Path, slurm8: SlurmCluster) -> Site:
    return Site(tmp_path)


def run(site: Site, cluster: SlurmCluster, root: Path, script: str, *options: str, table: str = SFT) -> Session:
    files = {"clusters.yaml": FINETUNE_CLUSTERS, "recipes/tiny/launch.sh": script}
    return site.run(cluster, Misfortune("", options=options, table=table, files=files), root / "project")


def states(cluster: SlurmCluster, *ids: str) -> list[str]:
    told = cluster.run("sacct", "-X", "-n", "-P", "-o", "State", "-j", ",".join(ids))
    return [line.split()[0] for line in told.splitlines()]


@pytest.fixture(autouse=True)
def _end(slurm8: SlurmCluster, site: Site) -> object:
    yield
    site.close()
    slurm8.cancel_all()


def test_the_training_is_the_rows_job(site: Site, slurm8: SlurmCluster, tmp_path: Path) -> None:
    table = tiny_table("gpus: 16, step_time_s: 1.000, line: 10, statistic: 'mean[35:44]'", framework="nemo")
    table = table.replace("steps: 20", "steps: 50, environment: {FT_TYPE: sft}")
    session = run(site, slurm8, tmp_path, finetune(), table=table)
    assert session.rows() == {"tiny_1b_bf16[H100x16]": "passed"}, session.output
    job = properties(session.case())["gsw_job_id"]
    nodes = slurm8.run("sacct", "-X", "-n", "-P", "-o", "NNodes,State", "-j", f"{int(job) - 1},{job}")
    assert nodes.splitlines() == ["1|COMPLETED", "2|COMPLETED"]


def test_a_row_whose_kind_the_script_does_not_read_is_refused(site: Site, slurm8: SlurmCluster, tmp_path: Path) -> None:
    before = {*slurm8.run("squeue", "-h", "-t", "all", "-o", "%i").split()}
    session = run(site, slurm8, tmp_path, finetune(scheme="SFT_SCHEME"))
    seen = session.end().seen
    assert (seen.outcome, seen.message) == (
        "error",
        wording("unread", name="FT_TYPE"),
    ), session.output
    assert {*slurm8.run("squeue", "-h", "-t", "all", "-o", "%i").split()} <= before


def test_a_row_without_its_kind_trains_the_scripts_own(site: Site, slurm8: SlurmCluster, tmp_path: Path) -> None:
    """As the row would that is refused above: LoRA takes other step times."""
    session = run(site, slurm8, tmp_path, finetune(), table=TABLE)
    assert session.end().seen != PASSED, session.output


def test_an_import_that_fails_ends_the_row_at_once(site: Site, slurm8: SlurmCluster, tmp_path: Path) -> None:
    session = run(site, slurm8, tmp_path, finetune(imports="echo 'gated repo' >&2; exit 3"))
    seen = session.end().seen
    assert (seen.outcome, seen.exit_status) == ("error", 1), session.output
    found = re.fullmatch(
        r"job (\d+) can never start: DependencyNeverSatisfied: job (\d+) FAILED 3:0: look at (\S+)", seen.message
    )
    assert found is not None, seen.message
    assert int(found[2]) == int(found[1]) - 1
    assert Path(found[3]).read_text() == "gated repo\n"
    assert states(slurm8, found[2], found[1]) == ["FAILED", "CANCELLED"]


PYXIS = "pyxis: importing docker image: nvcr.io/nvidia/nemo:25.04\nslurmstepd: error: pyxis: child 7 failed with error code: 1"
FULL = "OSError: [Errno 28] No space left on device: '/checkpoints/llama3'"
GATED = "huggingface_hub.errors.GatedRepoError: 401 Client Error."


@pytest.mark.parametrize("words", [PYXIS, FULL, GATED], ids=["container", "full disk", "gated model"])
@pytest.mark.parametrize("place", ["log", "batch output"])
def test_the_cause_of_a_failed_import_is_told_as_that_of_any_job(
    site: Site, slurm8: SlurmCluster, tmp_path: Path, words: str, place: str
) -> None:
    to = "" if place == "log" else ">${LOG/log-own.import/sbatch_own.import}_$SLURM_JOB_ID.out"
    session = run(site, slurm8, tmp_path, finetune(imports=f"cat {to} <<'END'\n{words}\nEND\nexit 1"))
    told = session.end()
    name = find_cause_in(words)
    assert told.seen == error(
        wording("never starts", job=told.job, why="")
        + wording("dependency", job=int(told.job) - 1, code=f"1:0: {name}")
    ), session.output
    assert words.split("\n")[-1] in session.output
    assert f"_{int(told.job) - 1}" in session.output.partition("said at")[2].partition("\n")[0]


def find_cause_in(words: str) -> str:
    """What the failure is called in a log of a row."""
    return next(
        cause.signature.name for line in words.split("\n") if (cause := cause_line(0, line.encode(), SIGNATURES))
    )


@pytest.mark.parametrize(
    ("imports", "dependency", "state"),
    [("sleep 300", "", "CANCELLED"), ("exit 3", '--dependency="afterany:$first"', "FAILED")],
    ids=["runs on", "failed"],
)
def test_a_training_that_does_not_wait_for_a_good_import(
    site: Site, slurm8: SlurmCluster, tmp_path: Path, imports: str, dependency: str, state: str
) -> None:
    script = finetune(imports=imports).replace('--dependency="afterok:$first"', dependency)
    session = run(site, slurm8, tmp_path, script)
    told = session.end()
    first = str(int(told.job) - 1)
    assert told.seen == error(wording("job of no submission", count="1 job", jobs=first)), session.output
    assert states(slurm8, first, told.job) == [state, "COMPLETED"]


def held(session: Session, cluster: SlurmCluster) -> str:
    """The id of the import, which waits."""
    home = session.directory / "install" / "logs"
    cluster.wait_until(lambda: (home / "held").exists() and (home / "held").read_text() != "", "the import", 60)
    journal = next(session.directory.glob(".gsw/runs/*/journal.jsonl"))
    cluster.wait_until(lambda: '"submitted"' in journal.read_text(), "the answer of the launch script", 60)
    return (home / "held").read_text().strip()


def test_ctrl_c_ends_both(site: Site, slurm8: SlurmCluster, tmp_path: Path) -> None:
    session = run(site, slurm8, tmp_path, finetune(imports=HELD))
    first = held(session, slurm8)
    session.process.send_signal(signal.SIGINT)
    told = session.end()
    assert f"interrupted: job {told.job} was cancelled" in told.seen.message, session.output
    slurm8.wait_until(lambda: not slurm8.run("squeue", "-h").strip(), "an empty queue", 60)
    assert states(slurm8, first, told.job) == ["CANCELLED", "CANCELLED"]


def test_a_session_that_is_killed_while_the_checkpoint_is_imported(
    site: Site, slurm8: SlurmCluster, tmp_path: Path
) -> None:
    script = finetune(imports=HELD)
    session = run(site, slurm8, tmp_path, script)
    first = held(session, slurm8)
    session.process.kill()
    session.process.wait()
    resumed = run(site, slurm8, tmp_path, script, "--gsw-resume=last")
    slurm8.wait_until(lambda: "collected 1 item" in resumed.output, "a session", 60)
    (session.directory / "install" / "logs" / "go").touch()
    told = resumed.end()
    assert told.seen == PASSED, resumed.output
    assert states(slurm8, first, told.job) == ["COMPLETED", "COMPLETED"]
    assert int(told.job) == int(first) + 1
