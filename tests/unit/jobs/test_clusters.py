"""Lists of clusters and federations: a job is its cluster's and its id's, and a question goes to that cluster alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import JobError, SubmissionError
from pytest_gsw.jobs.claims import Claims
from pytest_gsw.jobs.journal import Journal, Submission, read_journal
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, Named, is_same_job
from pytest_gsw.jobs.resume import take_up
from pytest_gsw.jobs.slurm import client as slurm
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.slurm.poll import RECORD_WAIT_S
from pytest_gsw.results import json_shape
from pytest_gsw.results.facts import JobFacts
from tests.unit.jobs.clusters import Clusters, Entry

LIST = JobSpec(
    *("a", "gsw-a", Path("/r/launch.sh"), Path("/r"), Path("/s"), 1, 8, {}),
    options=("--clusters=eos,dgx",),
    unique_name=True,
)
HERE = replace(LIST, options=())
#: The id of the first cluster's first job in a federation: the cluster's number is in its upper bits.
FEDERATED = str((1 << 26) + 1)

Use = Callable[[Clusters], Clusters]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    def answer(clusters: Clusters) -> Clusters:
        monkeypatch.setattr(slurm, "_run", clusters.run)
        return clusters

    return answer


def row(name: str, spec: JobSpec = LIST) -> JobSpec:
    return replace(spec, row_id=name, name=f"gsw-{name}")


def two_with_one_id(**states: str) -> Clusters:
    return Clusters(
        {
            "eos": [Entry("7", "gsw-a", states.get("a", "RUNNING"))],
            "dgx": [Entry("7", "gsw-b", states.get("b", "RUNNING"))],
        },
        ["7;eos\n", "7;dgx\n"],
    )


# -- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["eos,dgx", "all"])
def test_two_jobs_with_one_id_on_two_clusters_are_two_jobs(use: Use, option: str) -> None:
    spec = replace(LIST, options=("-M", option))
    clusters, launcher, claims = use(two_with_one_id(b="PENDING")), SlurmLauncher({}), Claims()
    jobs = [launcher.submit(row(name, spec)) for name in "ab"]
    assert [(job.cluster, job.id) for job in jobs] == [("eos", "7"), ("dgx", "7")]
    assert [claims.job(job) for job in jobs] == [None, None]
    for asked in (jobs, jobs[::-1]):
        told = launcher.poll(asked)
        assert {name: (status.state, status.nodes) for name, status in told.items()} == {
            "a": (JobState.RUNNING, "eos-n1"),
            "b": (JobState.PENDING, "dgx-n1"),
        }
        assert [told[name].cluster for name in "ab"] == ["eos", "dgx"]
    assert {command[1] for command in clusters.named("squeue")} == {"--clusters=eos", "--clusters=dgx"}


def test_each_ends_by_the_word_of_its_own_cluster(use: Use) -> None:
    clusters, launcher = use(two_with_one_id(a="COMPLETED", b="FAILED")), SlurmLauncher({})
    clusters.entries["dgx"][0].code = "3:0"
    told = launcher.poll([launcher.submit(row(name)) for name in "ab"])
    assert {name: (one.state, one.exit_code) for name, one in told.items()} == {
        "a": (JobState.COMPLETED, 0),
        "b": (JobState.FAILED, 3),
    }
    assert {command[1] for command in clusters.named("sacct")} == {"--clusters=eos", "--clusters=dgx"}


def test_only_the_own_clusters_job_is_cancelled(use: Use) -> None:
    clusters, launcher = use(two_with_one_id()), SlurmLauncher({})
    jobs = [launcher.submit(row(name)) for name in "ab"]
    launcher.cancel(jobs[1:])
    assert clusters.commands[-1] == ("scancel", "--clusters=dgx", "-Q", "--", "7")
    assert [one.state for one in (*clusters.entries["eos"], *clusters.entries["dgx"])] == ["RUNNING", "CANCELLED"]


def test_what_cannot_be_cancelled_is_named_with_its_cluster(use: Use) -> None:
    clusters, launcher = use(two_with_one_id()), SlurmLauncher({})
    job = launcher.submit(row("a"))
    clusters.away = frozenset({"eos"})
    with pytest.raises(JobError) as failed:
        launcher.cancel([job])
    assert failed.value.advice == "scancel --clusters=eos --me --name=gsw-a"


def test_the_batch_output_of_two_jobs_with_one_id_is_asked_of_each_cluster(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(two_with_one_id())
    launcher = SlurmLauncher({})
    jobs = [launcher.submit(row(name)) for name in "ab"]
    monkeypatch.setattr(Path, "is_file", lambda path: str(path).startswith("/out/"))
    assert [launcher.batch_output(job) for job in (*jobs, *jobs)] == [Path("/out/eos-7"), Path("/out/dgx-7")] * 2


def test_the_end_of_a_job_is_awaited_on_its_own_cluster(use: Use) -> None:
    """Accounting is late, and slurmctld is asked: each job's own."""
    clusters, launcher = use(two_with_one_id(a="COMPLETED")), SlurmLauncher({})
    now_s = 0.0
    launcher._poller._clock = lambda: now_s
    jobs = [launcher.submit(row(name)) for name in "ab"]
    tell = clusters._sacct
    clusters._sacct = lambda *given: replace(tell(*given), stdout="")  # type: ignore[method-assign]
    assert launcher.poll(jobs)["a"].state is JobState.RUNNING
    now_s = RECORD_WAIT_S
    launcher.poll(jobs)
    assert [command[1] for command in clusters.named("scontrol")] == ["--clusters=eos"]


def test_an_answer_that_names_no_cluster_of_the_list_is_found_by_name(use: Use) -> None:
    clusters = two_with_one_id()
    clusters.answers = ["7\n", "7\n"]
    launcher = SlurmLauncher({})
    use(clusters)
    jobs = [launcher.submit(row(name)) for name in "ab"]
    assert [(job.cluster, job.id) for job in jobs] == [("eos", "7"), ("dgx", "7")]


@pytest.mark.parametrize(("option", "cluster"), [("eos", "eos"), (None, "")])
def test_an_answer_that_names_no_cluster_is_the_one_clusters_that_was_asked(
    use: Use, option: str | None, cluster: str
) -> None:
    use(Clusters({"eos": []}, ["7\n"]))
    job = SlurmLauncher({}).submit(replace(LIST, options=() if option is None else ("-M", option)))
    assert (job.cluster, job.id) == (cluster, "7")


def test_a_cluster_that_the_launch_script_names_is_asked(use: Use) -> None:
    clusters, launcher = use(Clusters({"eos": [], "dgx": [Entry("7", "gsw-a")]}, ["7;dgx\n"])), SlurmLauncher({})
    assert launcher.poll([launcher.submit(HERE)])["a"].state is JobState.RUNNING
    assert clusters.commands[-1][:2] == ("squeue", "--clusters=dgx")


def test_a_lost_answer_is_found_on_whichever_cluster_has_the_job(use: Use) -> None:
    clusters, launcher = use(two_with_one_id()), SlurmLauncher({})
    assert [launcher.find(row(name), 0.0).key for name in "ab"] == [("eos", "7"), ("dgx", "7")]  # type: ignore[union-attr]
    for entries in clusters.entries.values():
        entries[0].known, entries[0].state = False, "COMPLETED"
    assert [launcher.find(row(name), 0.0).key for name in "ab"] == [("eos", "7"), ("dgx", "7")]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ("#SBATCH --clusters=eos,dgx", {}),
        ("#SBATCH --exclusive -M dgx", {}),
        ("#SBATCH -Mdgx", {}),
        ("#SBATCH -Meos", {"SBATCH_CLUSTERS": "dgx"}),
        ("", {"SLURM_CLUSTERS": "dgx"}),
    ],
)
def test_a_lost_answer_is_found_where_the_launch_script_or_a_variable_sends_the_job(
    use: Use, tmp_path: Path, line: str, environment: dict[str, str]
) -> None:
    """Else the row would be submitted once more."""
    use(Clusters({"here": [], "eos": [], "dgx": [Entry("7", "gsw-a")]}))
    script = tmp_path / "launch.sh"
    script.write_text(f"#!/bin/bash\n{line}\ntrue\n#SBATCH -M eos\n")
    spec = replace(HERE, script=script, environment=environment)
    found = SlurmLauncher({}).find(spec, 0.0)
    assert found is not None
    assert found.key == ("dgx", "7")
    assert [one.key for one in SlurmLauncher({}).named([spec], 0.0)] == [("dgx", "7")]


def test_two_jobs_of_a_name_are_ended_each_on_its_cluster(use: Use) -> None:
    use(Clusters({"eos": [Entry("7", "gsw-a")], "dgx": [Entry("9", "gsw-a"), Entry("8", "gsw-a")]}))
    with pytest.raises(SubmissionError) as told:
        SlurmLauncher({}).find(LIST, 0.0)
    assert told.value.fact == "3 jobs have the name that only one can have: gsw-a"
    assert told.value.evidence == (("jobs", "8 of dgx, 9 of dgx, 7 of eos"),)
    assert told.value.advice == "scancel --clusters=dgx -Q -- 8 9 && scancel --clusters=eos -Q -- 7"


def test_all_jobs_of_a_run_are_told_with_their_clusters(use: Use) -> None:
    use(two_with_one_id())
    found = SlurmLauncher({}).named([row("a"), row("b")], 0.0)
    assert {(one.cluster, one.id, one.name) for one in found} == {("eos", "7", "gsw-a"), ("dgx", "7", "gsw-b")}


# -- journals of earlier releases, which have no cluster ------------------------------------------


def test_a_job_of_which_the_journal_has_no_cluster_is_looked_for(use: Use) -> None:
    clusters, launcher = use(two_with_one_id(b="PENDING")), SlurmLauncher({})
    jobs = [Job("7", row(name), 1000.0) for name in "ab"]
    told = launcher.poll(jobs)
    assert {name: (one.state, one.cluster) for name, one in told.items()} == {
        "a": (JobState.RUNNING, "eos"),
        "b": (JobState.PENDING, "dgx"),
    }
    assert [command[1] for command in clusters.commands] == ["--clusters=eos,dgx", "--clusters=eos", "--clusters=dgx"]
    launcher.cancel(jobs[:1])
    assert clusters.commands[-1] == ("scancel", "--clusters=eos", "-Q", "--", "7")


def test_a_job_that_is_on_no_cluster_of_the_list_is_unknown(use: Use) -> None:
    clusters, launcher = use(Clusters({"eos": [], "dgx": [Entry("7", "gsw-b")]})), SlurmLauncher({})
    told = launcher.poll([Job("7", row("a"), 1000.0)])["a"]
    assert (told.state, told.reason) == (JobState.UNKNOWN, "which of the clusters eos,dgx has job 7 is not known")
    with pytest.raises(JobError) as failed:
        launcher.cancel([Job("7", row("a"), 1000.0)])
    assert failed.value.fact == (
        "jobs may still run: whose their ids are is not known: which of the clusters eos,dgx has job 7 is not known"
    )
    assert failed.value.advice == "scancel --clusters=eos,dgx --me --name=gsw-a"
    assert not clusters.named("scancel")


# -- federations ----------------------------------------------------------------------------------


def moved(state: str = "RUNNING", code: str = "0:0", **more: bool) -> Clusters:
    """A job that was submitted here, and that the federation has moved to another cluster."""
    origin = Entry(FEDERATED, "gsw-a", "REVOKED", code, "here", "eos", **more)
    return Clusters(
        {"here": [origin], "dgx": [], "eos": [Entry(FEDERATED, "gsw-a", state, code, "here", "eos", **more)]},
        [f"{FEDERATED}\n"],
    )


@pytest.mark.parametrize(
    ("state", "code", "wanted"),
    [
        ("RUNNING", "0:0", (JobState.RUNNING, None)),
        ("PENDING", "0:0", (JobState.PENDING, None)),
        ("COMPLETED", "0:0", (JobState.COMPLETED, 0)),
        ("FAILED", "3:0", (JobState.FAILED, 3)),
    ],
)
def test_a_row_follows_its_job_to_where_the_federation_has_moved_it(
    use: Use, state: str, code: str, wanted: tuple[JobState, int | None]
) -> None:
    clusters, launcher = use(moved(state, code)), SlurmLauncher({})
    job = launcher.submit(HERE)
    assert job.cluster == ""
    for _ in range(2):
        told = launcher.poll([job])["a"]
        assert (told.state, told.exit_code) == wanted
        assert (told.cluster, told.nodes) == ("eos", "eos-n1")
    # Where the job has gone is asked once.
    assert len(clusters.named("scontrol")) == 1
    assert clusters.named("squeue")[-1][1] == "--clusters=eos"


def test_a_job_that_has_moved_is_cancelled_where_it_is(use: Use) -> None:
    clusters, launcher = use(moved()), SlurmLauncher({})
    job = launcher.submit(HERE)
    launcher.poll([job])
    launcher.cancel([job])
    assert clusters.commands[-1] == ("scancel", "--clusters=eos", "-Q", "--", FEDERATED)


def test_a_job_that_has_moved_and_was_not_asked_about_is_cancelled_by_its_origin(use: Use) -> None:
    """Which hands the request on."""
    clusters, launcher = use(moved()), SlurmLauncher({})
    launcher.cancel([launcher.submit(HERE)])
    assert clusters.commands[-1] == ("scancel", "-Q", "--", FEDERATED)


def test_where_a_job_has_moved_to_is_not_known(use: Use) -> None:
    clusters, launcher = use(moved()), SlurmLauncher({})
    job = launcher.submit(HERE)
    clusters.entries["here"][0].active = "dgx,eos"
    clusters.entries["eos"].clear()
    told = launcher.poll([job])["a"]
    assert (told.state, told.reason) == (
        JobState.UNKNOWN,
        f"the federation has moved job {FEDERATED}, and no cluster says that it has it",
    )
    clusters.entries["eos"].append(Entry(FEDERATED, "gsw-a"))  # accounting has it by now
    assert launcher.poll([job])["a"].state is JobState.RUNNING


def test_a_job_that_comes_back_is_followed(use: Use) -> None:
    clusters, launcher = use(moved()), SlurmLauncher({})
    job = launcher.submit(HERE)
    assert launcher.poll([job])["a"].cluster == "eos"
    clusters.entries["eos"].clear()
    clusters.entries["here"][0].state = "RUNNING"
    told = [launcher.poll([job])["a"] for _ in range(2)]
    assert (told[-1].state, told[-1].cluster) == (JobState.RUNNING, "here")
    assert not any(one.state.ended for one in told)


def test_a_job_that_its_origin_has_forgotten_is_looked_for(use: Use) -> None:
    """A session that is resumed hours later: slurmctld forgets, and accounting does not list what was revoked."""
    clusters, launcher = use(moved("FAILED", "3:0", known=False)), SlurmLauncher({})
    told = launcher.poll([launcher.submit(HERE)])["a"]
    assert (told.state, told.exit_code, told.cluster) == (JobState.FAILED, 3, "eos")
    assert clusters.named("sacct")[1][1] == "--federation"


def test_no_federation_is_asked_about_an_id_of_one_cluster(use: Use) -> None:
    clusters, launcher = use(Clusters({"here": []}, ["7\n"])), SlurmLauncher({})
    told = launcher.poll([launcher.submit(HERE)])["a"]
    assert (told.state, told.reason) == (JobState.UNKNOWN, "neither squeue nor sacct knows job 7")
    assert [command[0] for command in clusters.commands] == ["sbatch", "squeue", "sacct"]


@pytest.mark.parametrize("entries", [["PENDING", "PENDING"], ["REVOKED", "RUNNING"], ["RUNNING", "REVOKED"]])
def test_a_job_that_a_federation_lists_twice_is_one(use: Use, entries: list[str]) -> None:
    there = {
        cluster: [Entry(FEDERATED, "gsw-a", state, origin="eos")]
        for cluster, state in zip(("eos", "dgx"), entries, strict=True)
    }
    use(Clusters(there))
    launcher, cluster = SlurmLauncher({}), "dgx" if entries[0] == "REVOKED" else "eos"
    found = launcher.find(LIST, 0.0)
    assert found is not None
    assert found.key == (cluster, FEDERATED)
    assert [one.key for one in launcher.named([LIST], 0.0)] == [(cluster, FEDERATED)]


# -- what is kept of a job's cluster --------------------------------------------------------------


def test_an_id_of_two_clusters_is_claimed_for_each_and_their_outputs_must_differ(tmp_path: Path) -> None:
    claims = Claims()
    one, other = (Job("7", row(name), 1000.0, cluster=where) for name, where in (("a", "eos"), ("b", "dgx")))
    assert (claims.job(one), claims.job(other), claims.job(one)) == (None, None, None)
    clash = claims.job(replace(one, spec=row("b")))
    assert clash is not None
    assert clash[1].fact == "the scheduler gave the id 7 twice, to a and b"
    output = tmp_path / "slurm-7.out"
    assert (claims.output(one, output), claims.output(one, output)) == (None, None)
    assert claims.output(replace(other, id="8"), output) is None  # a file of a fixed name has always been several jobs'
    clash = claims.output(other, output)
    assert clash is not None
    assert str(clash[1]) == (
        "one batch output is that of two jobs, of a and b\n"
        "\n"
        f"output     {output}\n"
        "jobs       7 of eos, 7 of dgx\n"
        "next       name it by the job's name as well, --output=slurm-%x-%j.out, and run again: a b"
    )


def test_the_journal_keeps_the_cluster_of_each_job(tmp_path: Path) -> None:
    journal, spec = Journal(tmp_path), row("a")
    journal.session("site", ["t.yaml::a"])
    ended = JobStatus(JobState.NODE_FAIL, "NODE_FAIL", cluster="dgx")
    journal.intents([spec], 1000.0)
    journal.submitted(Job("7", spec, 1000.0, cluster="eos"))
    submission = read_journal(tmp_path).submissions["a"]
    assert (submission.key, submission.ended) == (("eos", "7"), None)
    journal.ended((Job("7", spec, 1000.0, cluster="eos"), ended))
    assert read_journal(tmp_path).submissions["a"].ended == ended
    journal.repeated("a", Attempt("7", ended, "node failure", cluster="eos"))
    journal.intents([spec.again()], 1001.0)
    journal.submitted(Job("7", spec.again(), 1001.0, cluster="dgx"))
    journal.close()
    submission = read_journal(tmp_path).submissions["a"]
    assert [one.key for one in submission.attempts] == [("eos", "7")]
    assert submission.key == ("dgx", "7")
    standing = take_up(spec, submission, ())
    assert standing.job is not None
    assert (standing.job.key, standing.spec.attempt) == (("dgx", "7"), 2)


def listed(name: str, cluster: str, job_id: str = "7", state: JobState = JobState.RUNNING) -> Named:
    return Named(job_id, name, JobStatus(state), cluster)


def test_two_jobs_of_a_row_with_one_id_on_two_clusters_are_two() -> None:
    lost = JobStatus(JobState.NODE_FAIL)
    past = Submission(5.0, attempts=(Attempt("7", lost, "node failure", cluster="eos"),))
    jobs = [listed("gsw-a", "eos", state=JobState.NODE_FAIL), listed("again2.gsw-a", "dgx")]
    standing = take_up(LIST, past, jobs)
    assert standing.job is not None
    assert (standing.job.key, standing.unknown) == (("dgx", "7"), ("7 of dgx",))
    assert standing.past is not None
    assert (standing.past.key, standing.past.attempts) == (("dgx", "7"), past.attempts)


def test_a_journal_without_clusters_learns_them_of_slurm() -> None:
    past = Submission(5.0, "8", attempts=(Attempt("7", JobStatus(JobState.NODE_FAIL), "node failure"),))
    jobs = [listed("gsw-a", "eos", state=JobState.NODE_FAIL), listed("again2.gsw-a", "dgx", "8")]
    standing = take_up(LIST, past, jobs)
    assert standing.job is not None
    assert (standing.job.key, standing.job.submitted_s, standing.unknown) == (("dgx", "8"), 5.0, ())
    assert standing.past is not None
    assert [one.key for one in standing.past.attempts] == [("eos", "7")]


def test_a_job_that_a_federation_has_moved_is_the_journals() -> None:
    standing = take_up(LIST, Submission(5.0, FEDERATED, cluster="dgx"), [listed("gsw-a", "eos", FEDERATED)])
    assert standing.job is not None
    assert (standing.job.key, standing.unknown) == (("eos", FEDERATED), ())


def test_two_jobs_for_one_row_are_named_with_their_clusters() -> None:
    with pytest.raises(SubmissionError) as told:
        take_up(LIST, Submission(5.0, "7", cluster="eos"), [listed("gsw-a", "dgx", "8")])
    assert told.value.fact == "two jobs for one row: 7 of eos by the journal, and 8 of dgx by the name gsw-a"
    assert told.value.advice == (
        "end both if they still run (scancel --clusters=eos 7 && scancel --clusters=dgx 8), and run a anew"
    )


def test_whether_two_keys_may_be_one_job() -> None:
    assert is_same_job(("eos", "7"), ("eos", "7"))
    assert is_same_job(("", "7"), ("eos", "7"))  # of an earlier release's journal
    assert not is_same_job(("dgx", "7"), ("eos", "7"))
    assert not is_same_job(("", "8"), ("eos", "7"))


def test_a_record_keeps_the_cluster_that_had_the_job() -> None:
    facts = JobFacts.of("7", "slurm", JobStatus(JobState.COMPLETED, exit_code=0, cluster="eos"))
    assert (facts.cluster, facts.status.cluster) == ("eos", "eos")
    before = {name: value for name, value in vars(facts).items() if name != "cluster"}
    assert json_shape.read(JobFacts, json.loads(json.dumps(before))).cluster == ""
