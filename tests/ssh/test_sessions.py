"""Whole sessions by way of a login node: as those on it, with one connection, and nothing written but the run's folder."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .link import Link
from .namespaces import hidden
from .projects import Project, Session, ended, rows_of, until
from .toy_slurm import ToySlurm

#: A job that passes, one that is too slow, one that fails, and one without a log.
_BODY = """\
case $SLURM_JOB_NAME in
*x8-c0*) perfect ;;
*x8-c1*) { identity; steps 0 19 1.25; } >>"$log" ;;
*x8-c2*) { identity; steps 0 3; echo "NCCL WARN: unhandled cuda error"; } >>"$log"; echo "error: n001" >&2; exit 3 ;;
esac
"""


@pytest.fixture
def local(project: Project, toy_slurm: ToySlurm, tmp_path: Path) -> Iterator[Project]:
    """The same project on the login node itself."""
    local = Project(tmp_path / "local", tmp_path / "another-cluster", None, toy_slurm.path)
    with ended([local]):
        yield local


#: Texts that differ between two sessions: times, and ids of jobs.
_NEW = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?": "TIME",
    r"\b(?P<what>log-maxtext_tiny_1b_8_|slurm-|job +|slurm |of job )\d+": r"\g<what>ID",
    r"\d+s\b|[\d.]+ s\b": "SECONDS",
    # A login node is asked by hand, and the other files of a directory are not copied.
    r"ssh -F \S+ eos-login bash -l <<< '(?P<command>.*)'": r"\g<command>",
    r"there is .*\n": "",
}
#: Facts that do.
_NEW_FACTS = re.compile(r"_id$|^id$|^job$|_s$|^(gsw_)?alarms?$|^gsw_(job_id|run|log)$|^environment$|name$")


def plain(project: Project, text: str) -> str:
    """A text without times, ids, and the places of copies."""
    copies = f"{project.directory}/.gsw/runs/{project.run_id}/there"
    for known, name in {
        f"eos-login:{project.there}": "CLUSTER",
        f"{copies}{project.there}": "CLUSTER",
        str(project.there): "CLUSTER",
        str(project.directory): "PROJECT",
        project.run_id: "RUN",
    }.items():
        text = text.replace(known, name)
    for pattern, name in _NEW.items():
        text = re.sub(pattern, name, text)
    return text


def reported(project: Project) -> dict[str, list[tuple[str, str, str]]]:
    """The elements of each row in JUnit."""
    root = ET.parse(project.directory / "junit.xml").getroot()  # noqa: S314 - our own file
    return {
        case.attrib["name"]: [
            (element.tag, element.get("name", ""), plain(project, element.get("value") or element.text or ""))
            for element in case.iter()
            if element is not case and not _NEW_FACTS.search(element.get("name", ""))
        ]
        for case in root.iter("testcase")
    }


def recorded(project: Project) -> dict[str, Any]:
    """The records by their files."""

    def known(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: known(one) for name, one in value.items() if not _NEW_FACTS.search(name)}
        if isinstance(value, list):
            return [known(one) for one in value]
        return plain(project, value) if isinstance(value, str) else value

    files = (project.directory / ".gsw" / "runs" / project.run_id / "records").glob("*.json")
    return {path.name: known(json.loads(path.read_text())) for path in files}


def test_a_session_as_on_the_login_node(project: Project, local: Project, toy_slurm: ToySlurm) -> None:
    for place in (project, local):
        place.write(rows_of(4), _BODY)
        session = place.run()
        assert session.process.returncode == pytest.ExitCode.TESTS_FAILED, session.output
    assert project.outcomes().keys() == local.outcomes().keys()
    assert [row for row, outcome in local.outcomes().items() if outcome == "passed"] == ["tiny_1b_bf16[H100x8-c0]"]
    for here, there in ((reported(project), reported(local)), (recorded(project), recorded(local))):
        assert len(here) == 4
        assert here.keys() == there.keys()
        for name, of_row in here.items():
            assert of_row == there[name]


def test_a_plan(project: Project, local: Project, toy_slurm: ToySlurm, link: Link) -> None:
    for place in (project, local):
        place.write(rows_of(2))
        session = place.run("--gsw-plan")
        assert session.process.returncode == 0, session.output
        assert not (place.directory / ".gsw" / "runs").is_dir() or place is project
    lines = [_plan(place) for place in (project, local)]
    assert lines[0] == lines[1]
    assert any("sbatch" in line for line in lines[0])
    assert toy_slurm.submissions == []
    assert not (project.there / "stage").exists()  # a plan writes nothing there
    assert link.traffic.made == 1


def _plan(project: Project) -> list[str]:
    """The lines of a plan."""
    text = (
        project.sessions[0]
        .output.replace(f"eos-login:{project.there}", "CLUSTER")
        .replace(str(project.there), "CLUSTER")
    )
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", text.replace(str(project.directory), "PROJECT"))
    return [line for line in text.splitlines() if not re.search(r" in [\d.]+s|generated xml|results", line)]


def test_what_shells_print_and_what_is_written(project: Project, toy_slurm: ToySlurm) -> None:
    """The project's shells print something; nothing but the run's folder is written, and its log by the job."""
    project.write(rows_of(1))
    session = project.run()
    assert session.process.returncode == 0, session.output
    jobs = {"recipes", "recipes/tiny", "recipes/tiny/launch.sh", "recipes/tiny/slurm-1.out", "stage"}
    there = {str(path.relative_to(project.there)) for path in project.there.rglob("*")}
    others = {path for path in there - jobs if not path.startswith("stage/results")}
    assert {path for path in others if not f"{path}/".startswith("stage/.gsw/")} == set()
    folder = project.there / "stage" / ".gsw" / project.run_id
    assert {path.name for path in folder.iterdir()} == {"keys", "owner.json", "session"}
    assert {path.name for path in (folder / "session").iterdir()} >= {"journal.jsonl", "records"}
    assert folder.stat().st_mode & 0o077 == 0
    home = project.there.parent / "home"
    assert {path.name for path in home.iterdir()} == {".bashrc", ".bash_profile"}


@pytest.mark.usefixtures("_can_hide")
def test_the_cluster_is_hidden_from_this_machine(project: Project, toy_slurm: ToySlurm) -> None:
    project.write(rows_of(3), _BODY)
    session = project.start(within=lambda command: hidden(project.there, command))
    assert session.end() == pytest.ExitCode.TESTS_FAILED, session.output
    outcomes = project.outcomes()
    assert outcomes.pop("tiny_1b_bf16[H100x8-c0]") == "passed", session.output
    assert len(outcomes) == 2
    assert toy_slurm.twice == []


def test_a_recipe_next_to_its_table(project: Project, toy_slurm: ToySlurm) -> None:
    project.write(rows_of(1))
    table = project.directory / "site" / "tiny.yaml"
    table.write_text(table.read_text().replace("directory: tiny", "directory: ./own"))
    own = project.directory / "site" / "own"
    own.mkdir()
    script = (project.there / "recipes/tiny/launch.sh").read_text().replace("perfect\n", ". ./steps.sh\n")
    (own / "launch.sh").write_text(f"{script}perfect\n")
    (own / "steps.sh").write_text("# nothing more\n")
    (project.there / "recipes/tiny/launch.sh").unlink()
    session = project.run()
    assert session.process.returncode == 0, session.output
    job = json.loads((toy_slurm.directory / "jobs" / "1").read_text())
    folder = project.there / "stage" / ".gsw" / project.run_id / "recipes"
    assert Path(job["script"]).is_relative_to(folder)
    assert job["directory"] == str(Path(job["script"]).parent)


def test_one_connection(project: Project, toy_slurm: ToySlurm, link: Link) -> None:
    project.write(rows_of(20))
    session = project.run()
    assert session.process.returncode == 0, session.output
    assert (link.traffic.made, link.traffic.most) == (1, 1)


# -- Ctrl-C -------------------------------------------------------------------------------------------


def wait_for_jobs(project: Project, session: Session, count: int) -> None:
    """Wait until the session knows the ids of so many jobs."""

    def are_known() -> bool:
        journals = list(project.directory.glob(".gsw/runs/*/journal.jsonl"))
        return bool(journals) and journals[0].read_text().count('"submitted"') == count

    until(are_known, session.output)


def test_ctrl_c_cancels_the_jobs(project: Project, toy_slurm: ToySlurm) -> None:
    project.write(rows_of(3), "stay")
    session = project.start()
    wait_for_jobs(project, session, 3)
    session.interrupt()
    assert session.end() == pytest.ExitCode.INTERRUPTED, session.output
    assert {toy_slurm.state(job.id) for job in toy_slurm.submissions} == {"CANCELLED"}
    resumed = project.run(f"--gsw-resume={project.run_id}", "--collect-only")
    assert "INTERNALERROR" not in resumed.output


def test_ctrl_c_without_a_connection_names_the_jobs(project: Project, toy_slurm: ToySlurm, link: Link) -> None:
    project.write(rows_of(2), "stay")
    session = project.start()
    wait_for_jobs(project, session, 2)
    link.down()
    link.cut()
    until(lambda: "lost" in session.output, session.output)
    session.interrupt()
    assert session.end() == pytest.ExitCode.INTERRUPTED, session.output
    assert "CANCELLED" not in {toy_slurm.state(job.id) for job in toy_slurm.submissions}
    assert " was cancelled" not in session.output
    end = re.search(r"ssh .*eos-login .*scancel .*", session.output)
    assert end is not None, session.output
    assert all(re.search(rf"\b{job.id}\b", end[0]) for job in toy_slurm.submissions)
