"""Checks of a Slurm cluster before its first session: ssh, the login node, Slurm, the clock and the files.

They are the same over a connection and on this machine: each is a question to the program of the login node, which
runs in this process if the cluster has no ``host``. Nothing is submitted.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gsw.clusters import Cluster, ready_cluster
from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import duration, enumerated, plural
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.jobs.layout import CLOCK_SKEW_S
from pytest_gsw.jobs.scripts import value_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.slurm.nodes import ask_nodes, slurm_cluster_of
from pytest_gsw.jobs.spec import query_environment
from pytest_gsw.jobs.ssh.connection import CONNECT_S, Connection, HelperError, Machine, changes_to
from pytest_gsw.jobs.ssh.login import RUNS
from pytest_gsw.jobs.ssh.login_helper import Helper

#: States of a check; a note is no problem.
OK, NOTE, PROBLEM = "ok", "note", "problem"

_PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo", "srun")
_OLDEST_SLURM = "22.05"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    fact: str
    state: str = OK
    #: Further lines that show it, such as ssh's own last words.
    evidence: tuple[str, ...] = ()
    #: What to type next; empty if all is well.
    advice: str = ""


def checks_of(cluster: Cluster) -> Iterator[Check]:
    """The checks of a cluster, as they are made; those that need what failed before are left out."""
    if cluster.scheduler != "slurm":
        yield Check("scheduler", f"{cluster.scheduler}: there is nothing to check", NOTE)
    elif cluster.submission.host is None:
        yield from _Slurm(cluster, Machine(), _call_here).checks()
    else:
        with closing(Connection(cluster.submission.host, cluster.submission.ssh or ())) as connection:
            yield from _over_ssh(cluster, connection)


def _over_ssh(cluster: Cluster, connection: Connection) -> Iterator[Check]:
    machine = connection.machine
    if (version := _answer_of_ssh("-V")) is not None:
        yield Check("ssh", version)
    begun_s = time.monotonic()
    try:
        connection.call("hello")
    except RunError as error:
        yield _failed("connection", error)
        return
    taken_s = time.monotonic() - begun_s
    master = re.search(r"pid=([0-9]+)", _answer_of_ssh(*machine.options, "-O", "check", machine.host) or "")
    by = f"by your master, process {master[1]}, " if master else ""
    yield Check("connection", f"{machine.host} answers {by}after {taken_s:.1f} s")
    assert connection.node is not None
    yield Check("python3", ".".join(map(str, connection.node.python)))
    yield _clock_check(machine, connection.now_s() - time.time())

    def call(do: str, arguments: Mapping[str, Any]) -> Any:
        return connection.request([(do, arguments)], client.QUERY_TIMEOUT_S).results[0]

    try:
        yield from _Slurm(cluster, machine, call).checks()
    except RunError as error:
        yield _failed("connection", error)


def _answer_of_ssh(*arguments: str) -> str | None:
    """The first line that ssh prints; ``None`` if it cannot be run."""
    command = ("ssh", *arguments)
    try:
        done = subprocess.run(command, capture_output=True, timeout=CONNECT_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return printable((done.stdout + done.stderr).decode(errors="replace").strip().partition("\n")[0])


def _clock_check(machine: Machine, ahead_s: float) -> Check:
    if abs(ahead_s) < 1:
        return Check("clock", "as this machine's")
    fact = f"{duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
    if abs(ahead_s) <= CLOCK_SKEW_S:
        return Check("clock", fact)
    return Check("clock", fact, PROBLEM, advice=f"set both clocks by NTP: date -u; {machine.command('date', '-u')}")


def _call_here(do: str, arguments: Mapping[str, Any]) -> Any:
    """The result of one of the helper's methods in this process."""
    try:
        result = getattr(Helper(), do)(**arguments)
    except (OSError, ValueError) as error:
        raise HelperError(str(error)) from None
    return result[0] if isinstance(result, tuple) else result


class _Slurm:
    """The checks on the machine where Slurm's commands run.

    Args:
        cluster: As its file has it.
        machine: That machine.
        call: Carries out one of the helper's methods there, by its name and its arguments.
    """

    def __init__(self, cluster: Cluster, machine: Machine, call: Callable[[str, Mapping[str, Any]], Any]) -> None:
        self._cluster, self._machine, self._call = cluster, machine, call
        self._routed = slurm_cluster_of(cluster)
        hello = call("hello", {})
        self._host: str = hello["host"]
        self._environ: Mapping[str, str] = hello["variables"]

    def checks(self) -> Iterator[Check]:
        """All of them."""
        yield Check("node", self._host)
        paths = self._call("programs", {"names": [*_PROGRAMS, "sacctmgr"]})
        missing = [name for name in _PROGRAMS if paths[name] is None]
        if missing:
            fact, advice = missing_programs(self._machine, missing)
            yield Check("programs", fact, PROBLEM, advice=advice)
        else:
            yield Check("programs", enumerated(_PROGRAMS))
        yield from self._of_slurm({name for name in paths if paths[name] is not None})
        yield from self._of_files()

    # -- Slurm

    def _of_slurm(self, programs: set[str]) -> Iterator[Check]:
        if "sbatch" in programs:
            yield self._version()
        is_up = False
        if "scontrol" in programs:
            controller = self._controller()
            is_up = controller.state == OK
            yield controller
        if "sacct" in programs:
            yield self._accounting()
        if is_up and "sinfo" in programs:
            yield self._partition()
        if "sacctmgr" in programs and (account := self._account()) is not None:
            yield account

    def _version(self) -> Check:
        output = self._ask(("sbatch", "--version"))
        version = client.parse_version(output.stdout)
        if not version:
            fact = f"sbatch does not print its version: {_said(output)}"
            return Check("slurm", fact, PROBLEM, advice=self._machine.command("sbatch", "--version"))
        if version < _OLDEST_SLURM:
            fact, advice = f"{version}, wanted {_OLDEST_SLURM} or newer", "ask the administrators for a newer one"
            return Check("slurm", fact, PROBLEM, advice=advice)
        return Check("slurm", version)

    def _controller(self) -> Check:
        query = client.scontrol_ping_command(self._routed)
        output = self._ask(query)
        lines = [printable(line.strip()) for line in output.stdout.splitlines() if " is " in line]
        if any(line.endswith(" is UP") for line in lines):
            return Check("slurmctld", "; ".join(lines))
        fact = f"slurmctld does not answer: {'; '.join(lines) or _said(output)}"
        return Check("slurmctld", fact, PROBLEM, advice=f"wait until it is up: {self._machine.command(*query)}")

    def _accounting(self) -> Check:
        output = self._ask(client.sacct_jobs_command(self._routed, job_id="1"))
        if output.is_accounting_off:
            lost = "only the worst exit code of a job's steps is known, and `may_fail` has no effect (docs/clusters.md)"
            return Check("accounting", f"off: {lost}", NOTE)
        if output.returncode:
            fact = f"sacct does not answer: {_said(output)}"
            return Check("accounting", fact, PROBLEM, advice=self._machine.command("sacct", "-X"))
        return Check("accounting", "sacct answers")

    def _partition(self) -> Check:
        try:
            nodes = ask_nodes(self._ask, self._cluster, self._environ)
        except ConfigurationError as error:
            return _not_configured("partition", error)
        count = f"{len(nodes.usable)} of {plural(len(nodes.usable) + len(nodes.unusable), 'node')} can take jobs"
        return Check("partition", f"{nodes.partition}: {count}", OK if nodes.usable else NOTE)

    def _account(self) -> Check | None:
        """The check of the account; ``None`` if none is given, or accounting does not answer."""
        submission = self._cluster.submission
        account = value_of(submission.sbatch, "account") or submission.account or self._environ.get("SBATCH_ACCOUNT")
        if not account:
            return None
        format_ = ("-n", "-P", "format=Account", "where")
        output = self._ask(("sacctmgr", "show", "associations", *format_, f"account={account}"))
        if output.returncode:
            return None
        if account.lower() in output.stdout.lower().split():
            return Check("account", account)
        listing = self._machine.command("sacctmgr", "show", "associations", "format=Account,User,Cluster")
        advice = f"correct `account` of the cluster: {listing}"
        return Check("account", f"Slurm has no account '{account}' that you may see", PROBLEM, advice=advice)

    def _ask(self, command: tuple[str, ...], **_: object) -> Output:
        """The output of a query, in the environment that a session gives it."""
        changes = changes_to(query_environment(self._environ), self._environ)
        limit_s = client.QUERY_TIMEOUT_S
        answer = self._call("run", {"command": command, "changes": changes, "given": None, "timeout_s": limit_s})
        return Output(answer["code"], answer["out"], answer["err"], answer["timed_out"])

    # -- Files

    def _of_files(self) -> Iterator[Check]:
        try:
            ready_cluster(self._cluster, Path(), os.environ, {})
        except ConfigurationError as error:
            yield _not_configured("stage", error)
            return
        stage = _root_of(self._cluster.stage or "")
        try:
            yield self._stage(stage)
            yield self._recipes(_root_of(self._cluster.recipes or stage))
        except HelperError as error:
            yield _failed("files", error)

    def _stage(self, stage: str) -> Check:
        place = f"{stage.rstrip('/')}/{RUNS}" if self._machine.host else stage
        facts = self._call("writable", {"places": [place]})[place]
        if not facts["is_writable"]:
            fact, advice = unwritable(self._machine, stage, facts)
            return Check("stage", fact, PROBLEM, advice=advice)
        there, shown = facts["there"], self._machine.path(stage)
        space = f"{_bytes_text(facts['free_bytes'])} free"
        written = self._call("try_writing", {"directory": there})
        if written["problem"]:
            fact = f"nothing can be written to {self._machine.path(there)}: {written['problem']}, {space}"
            advice = f"correct `stage` of the cluster; {self._machine.command('ls', '-ld', there)}"
            if written["is_full"]:
                advice = f"free some space there, or have the quota raised: {self._machine.command('df', '-h', there)}"
            return Check("stage", fact, PROBLEM, advice=advice)
        if there in {stage, place}:
            return Check("stage", f"{shown}: writable, {space}")
        if there == os.path.dirname(stage):  # noqa: PTH120 - a path of another machine
            return Check("stage", f"{shown} is not there yet, and can be made, {space}", NOTE)
        fact = f"the staging area is not there, nor is the directory above it: {shown}"
        advice = f"correct `stage` of the cluster, or {self._machine.command('mkdir', '-p', stage)}"
        return Check("stage", fact, PROBLEM, advice=advice)

    def _recipes(self, root: str) -> Check:
        entries = self._call("survey", {"directories": [root], "files": []})["entries"]
        shown, entry = self._machine.path(root), entries[root]
        directories = sum(found["kind"] == "directory" for path, found in entries.items() if path != root)
        if entry["kind"] == "directory":
            return Check("recipes", f"{shown}: {plural(directories, 'directory', 'directories')}")
        fact = f"the directory of recipes cannot be read: {shown}: {entry['problem']}"
        if self._cluster.recipes is None:
            return Check("recipes", f"{fact}; rows need recipes next to their tables", NOTE)
        advice = f"correct `recipes` of the cluster, or copy the recipes there: {self._machine.command('ls', root)}"
        return Check("recipes", fact, PROBLEM, advice=advice)


def missing_programs(machine: Machine, names: list[str]) -> tuple[str, str]:
    """The fact that a machine lacks programs, and what to type next."""
    find = machine.command("command", "-v", names[0])
    fact = f"{machine.host or 'this machine'} has no {enumerated(names, 'or')} on its PATH"
    return fact, f"`{find}` must find it; load its module in ~/.bash_profile"


def unwritable(machine: Machine, place: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """The fact that a place in the staging area cannot be written to, by the helper's facts, and what to type next."""
    there = facts["there"]
    kind = "cannot be written to" if facts["is_directory"] else "is no directory"
    fact = f"the staging area {kind}: {machine.path(there)}"
    if not f"{there}/".startswith(f"{place}/"):
        fact = f"the staging area is not there, and cannot be made: {machine.path(place)}: {there} {kind}"
    return fact, f"correct `stage` of the cluster; {machine.command('ls', '-ld', there)}"


def _failed(name: str, error: RunError) -> Check:
    last_words = tuple(line for line in error.tail if line.strip("@ ") not in error.fact)
    return Check(name, error.fact, PROBLEM, last_words, error.advice)


def _not_configured(name: str, error: ConfigurationError) -> Check:
    """The check of an error whose last line begins with ``next:``."""
    text, _, advice = str(error).partition("\nnext: ")
    fact, *evidence = text.splitlines()
    return Check(name, fact, PROBLEM, tuple(evidence), advice)


def _root_of(place: str) -> str:
    """The directory of all recipes' directories, or of their staging areas."""
    return place.partition("{recipe}")[0].rstrip("/") or "/"


def _said(output: Output) -> str:
    return printable(client.why(output) if output.returncode else output.stdout.strip()[:200] or "nothing")


def _bytes_text(count: float) -> str:
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{count:,.3g} {units[0]}" if count < 1000 else f"{count:,.0f} {units[0]}"
