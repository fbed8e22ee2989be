"""``pytest-gsw compare-ab``: two settings of one row, in turns within one job."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from pytest_gsw.ab import plan as plans
from pytest_gsw.ab.judge import LEAST_PAIRS, MOST_PAIRS, least_p
from pytest_gsw.ab.plan import Plan
from pytest_gsw.ab.run import run_job
from pytest_gsw.ab.turns import ended_turns
from pytest_gsw.cli.ab_answer import Done, answer_of
from pytest_gsw.cli.answer import Answer, Commands, a_path
from pytest_gsw.cli.metrics import find_row
from pytest_gsw.cli.site import add_plugin_option, cluster_of, format_of, launcher_for, tables_on, unknown_format
from pytest_gsw.clusters.local import ready_cluster
from pytest_gsw.clusters.model import Cluster, check_keys, why_it_does_not_fit
from pytest_gsw.common.files import from_here, make_directory, write_whole
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted, positive
from pytest_gsw.errors import ConfigurationError, JobError
from pytest_gsw.jobs.environment import job_environment, masked_environment
from pytest_gsw.jobs.launchers import launcher_of
from pytest_gsw.jobs.launching import SBATCH
from pytest_gsw.jobs.model import JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.jobs.spec import expected_run_s, limit_with_script_s, make_job_spec
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results.run_id import RESULTS, new_run_id
from pytest_gsw.runs.checks import check_job
from pytest_gsw.runs.run import Run, job_evidence
from pytest_gsw.tables.model import Baseline

#: The default limit on the job's run time, as a multiple of the documented duration of its turns.
LIMIT_FACTOR = 2


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    ab = commands.add_parser(
        "compare-ab",
        help="compare two settings of a row, in turns within one job",
        description="Run a row with two settings in turns within one job (A B B A A B ...), and compare them pair by "
        "pair. The exit status is 0 when B is not shown to be slower, 1 when it is, or when too few pairs were "
        "measured to tell.",
    )
    ab.add_argument("row", nargs="?", metavar="ROW", help="the documented row")
    ab.add_argument("--cluster", metavar="NAME", help="where the job runs")
    ab.add_argument("--a", action="append", default=[], metavar="NAME=VALUE", help="a variable of side A; repeatable")
    ab.add_argument("--b", action="append", default=[], metavar="NAME=VALUE", help="a variable of side B; repeatable")
    ab.add_argument("--pairs", metavar="N", help=f"pairs of turns ({LEAST_PAIRS} by default, and at least)")
    ab.add_argument("--timeout", metavar="MINUTES", help="limit on the run time of the whole job")
    ab.add_argument("--clusters", type=a_path, metavar="FILE", help="file that defines clusters, before the usual")
    ab.add_argument("--baselines", action="append", type=a_path, metavar="PATH", help="tables that hold the row")
    ab.add_argument("--results", type=a_path, metavar="DIR", help="keep the turns in DIR/ab (default: .gsw/ab)")
    ab.add_argument("--of", type=a_path, metavar="DIR", help="run nothing: judge the turns that are in DIR")
    ab.add_argument("--json", action="store_true", help="print JSON: one object")
    add_plugin_option(ab)
    ab.set_defaults(run=_compare_ab)


def _compare_ab(asked: argparse.Namespace) -> Answer:
    return _run(asked) if asked.of is None else _read(asked)


def _read(asked: argparse.Namespace) -> Answer:
    """Judge the turns that an earlier session has left."""
    given = [name for name in ("row", "cluster", "clusters", "pairs", "timeout", "results") if getattr(asked, name)]
    given += [name for name in ("a", "b") if getattr(asked, name)]
    if given:
        what = "ROW" if given[0] == "row" else f"--{given[0]}"
        raise ConfigurationError(f"--of judges what was run; leave out {what}")
    plan = plans.read_plan(asked.of)
    row = find_row(plan.row, asked.baselines or [Path(plan.table)])
    return answer_of(Done(plan, asked.of, row, _log_format(row, asked.plugins)), as_json=asked.json)


def _run(asked: argparse.Namespace) -> Answer:
    """Run all turns in one job, and judge them."""
    if asked.row is None or asked.cluster is None:
        raise ConfigurationError("wanted a row and a cluster: pytest-gsw compare-ab ROW --cluster=NAME --b NAME=VALUE")
    pairs, timeout_s = _pairs(asked.pairs), _timeout_s(asked.timeout)
    a, b = plans.read_side("--a", asked.a), plans.read_side("--b", asked.b)
    row = find_row(asked.row, asked.baselines or tables_on(asked.cluster, asked.clusters))
    found = cluster_of(asked.cluster, asked.clusters)
    assert found is not None  # a name was given
    name = new_run_id()
    directory = ((asked.results or RESULTS) / "ab" / name).absolute()
    seed = os.environ.get("GSW_DEMO_SEED") or name
    cluster = ready_cluster(found, directory, os.environ, {"GSW_DEMO_SEED": seed})
    _check_fits(row, cluster)
    log_format = _log_format(row, asked.plugins)
    spec = make_job_spec(row, cluster, run_id=name)
    if spec.launcher != SBATCH:
        raise ConfigurationError(
            f"compare-ab submits its turns with sbatch, and {row.id} is launched by {spec.launcher}"
        )
    plans.check_sides(job_environment(os.environ, spec), a, b)
    order = plans.turn_order(pairs)
    job = plans.job_of(
        spec,
        directory,
        order,
        a,
        b,
        time_limit_s=timeout_s or _time_limit_s(row, cluster, len(order)),
        turn_limit_s=limit_with_script_s(row, cluster, spec.script),
    )
    launcher = _launcher(cluster, directory, asked.plugins)
    both = {name: value for name, value in a.items() if name in b}
    _check_ready(
        row, replace(spec, time_limit_s=job.time_limit_s, environment={**spec.environment, **both}), cluster, launcher
    )
    script = plans.job_script(spec.script, (resources.files("pytest_gsw.ab") / "turns.sh").read_text(encoding="utf-8"))
    table = str(row.location.path.absolute())
    plan = Plan(name, row.id, table, cluster.name, cluster.simulated, _shown_side(a), _shown_side(b), pairs)
    _prepare(directory, plan, script)
    run = _run_job(launcher, job, plan, directory)
    done = Done(plan, directory, row, log_format, environment=job.environment)
    return answer_of(done._replace(job=_check_turns(run, launcher.log_wait_s, done)), as_json=asked.json)


# -- what was asked ---------------------------------------------------------------------------


def _pairs(given: str | None) -> int:
    if given is None:
        return LEAST_PAIRS
    number = int(given) if re.fullmatch(r"[0-9]{1,6}", given) else 0
    if LEAST_PAIRS <= number <= MOST_PAIRS:
        return number
    fact, nearest_number = f"--pairs: got '{given}', wanted {LEAST_PAIRS} to {MOST_PAIRS}", MOST_PAIRS
    if number < LEAST_PAIRS:
        few, p_few, p_least = LEAST_PAIRS - 1, least_p(LEAST_PAIRS - 1), least_p(LEAST_PAIRS)
        fact += f"\nfewer decide nothing: {few} pairs, all of one sign, have p {p_few:.3f}, {LEAST_PAIRS} {p_least:.3f}"
        nearest_number = LEAST_PAIRS
    raise ConfigurationError(f"{fact}\nnext: --pairs={nearest_number}")


def _timeout_s(given: str | None) -> float | None:
    if given is None:
        return None
    minutes = positive(given)
    if minutes is None:
        raise ConfigurationError(f"--timeout: got '{given}', wanted a number of minutes above 0")
    return minutes * 60


def _check_fits(row: Baseline, cluster: Cluster) -> None:
    """Raise a ConfigurationError where the row cannot be compared on this cluster."""
    fails = f"{row.id} is documented to run out of memory" if row.expected_failure else ""
    if why := fails or why_it_does_not_fit(row.accelerator, row.gpus, cluster):
        raise ConfigurationError(f"nothing to compare: {why}\nnext: pytest-gsw rows lists the others")


def _check_ready(row: Baseline, spec: JobSpec, cluster: Cluster, launcher: Launcher) -> None:
    """Raise a SubmissionError where the job would fail or wait for ever, as a session finds it out of a row."""
    from pytest_gsw.session.checking import Here, Planned, not_ready  # a comparison that is read needs none of it

    found = not_ready([Planned(row, spec)], Here(cluster, launcher, os.environ))
    if found:
        launcher.close()
        problem = found[row.id]
        advice = problem.advice.replace("--gsw-timeout", "--timeout")
        raise type(problem)(problem.fact, problem.evidence, problem.tail, advice)


def _log_format(row: Baseline, plugins: Sequence[str]) -> LogFormat:
    found = format_of(row, plugins)
    if found is None:
        raise ConfigurationError(f"{row.location}: {unknown_format(row.log_format)}")
    return found


def _launcher(cluster: Cluster, directory: Path, plugins: Sequence[str]) -> Launcher:
    """How the job starts: as pytest-gsw does, else as a site's plugins do."""
    launcher = launcher_of(cluster, directory, os.environ) or launcher_for(cluster, directory, plugins)
    check_keys(cluster, launcher.name, getattr(launcher, "cluster_keys", ()))
    return launcher


def _time_limit_s(row: Baseline, cluster: Cluster, turns: int) -> float | None:
    """The default limit on the whole job: the launch script's own is one for a single run."""
    expected_s = expected_run_s(row)
    if expected_s is not None:
        return LIMIT_FACTOR * turns * expected_s
    if cluster.scheduler == "slurm":
        raise ConfigurationError(
            f"how long {row.id} runs is not documented, and the job is to run it {turns} times\n"
            "next: give the limit on the whole job with --timeout=MINUTES"
        )
    return None


def _shown_side(side: Mapping[str, str]) -> dict[str, str]:
    """A side as it may be written to files: without secrets."""
    return quoted(masked_environment(side), os.environ)


# -- the job ----------------------------------------------------------------------------------


def _prepare(directory: Path, plan: Plan, script: str) -> None:
    try:
        make_directory(directory)
        plans.write_plan(directory, plan)
        write_whole(directory / plans.JOB_SCRIPT, script)
    except OSError as error:
        raise ConfigurationError(
            f"the turns cannot be kept in {directory}: {error.strerror}\n"
            "next: give another directory with --results=DIR"
        ) from None


def _again(directory: Path) -> str:
    return f"pytest-gsw compare-ab --of {shlex.quote(str(from_here(directory)))}"


def _run_job(launcher: Launcher, spec: JobSpec, plan: Plan, directory: Path) -> Run:
    """Run the job to its end, and say meanwhile how far it is."""

    def progress(job_id: str, status: JobStatus) -> tuple[str, str]:
        turns = len(plan.order)
        return (
            f"job {job_id} on {plan.cluster}: {counted(turns, 'turn')}, kept in {from_here(directory)}",
            f"{status.state.value.lower()}, {ended_turns(plan, directory)} of {turns} turns have ended",
        )

    return run_job(launcher, spec, progress, _again(directory), _say)


def _say(line: str) -> None:
    """Tell on the standard error what happens; the answer itself goes to the standard output."""
    try:
        sys.stderr.write(f"compare-ab: {quoted(line, os.environ)}\n")
        sys.stderr.flush()
    except OSError:
        pass  # the terminal is gone; the job must be waited for all the same


def _check_turns(run: Run, log_wait_s: float, done: Done) -> tuple[tuple[str, str], ...]:
    """What is known of the job that has ended, once its turns are there; a JobError where it has left none."""
    healthy = run.status.state is JobState.COMPLETED and run.status.exit_code == 0
    give_up_s = time.monotonic() + (log_wait_s if healthy else 0.0)
    # A shared file system may be slow to show what compute nodes have written.
    while ended_turns(done.plan, done.directory) < len(done.plan.order) and time.monotonic() < give_up_s:
        time.sleep(0.1)
    if not ended_turns(done.plan, done.directory):
        check_job(run)
        raise JobError(
            f"job {run.job_id} left no turn",
            job_evidence(run),
            advice=f"do compute nodes write to {done.directory}? If not, --results=DIR",
        )
    return tuple(fact for fact in job_evidence(run) if not healthy or fact[0] == "job")
