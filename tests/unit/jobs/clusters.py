"""Slurm's commands as several clusters answer them, in the words of 22.05: of lists (``-M a,b``) and of a federation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pytest_gsw.jobs.slurm.answers import Output

UNKNOWN_ID = "slurm_load_jobs error: Invalid job id specified\n"


@dataclass
class Entry:
    """What one cluster has of one job."""

    id: str
    name: str
    state: str = "RUNNING"
    #: Exit code and signal.
    code: str = "0:0"
    #: The federation's: which cluster the job was submitted to, and which have it now.
    origin: str = ""
    active: str = ""
    #: Whether slurmctld still has it.
    known: bool = True


@dataclass
class Clusters:
    """Some clusters; commands without ``-M`` are the first one's."""

    entries: dict[str, list[Entry]]
    #: What sbatch answers, one after the other.
    answers: list[str] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    away: frozenset[str] = frozenset()

    def run(self, command: tuple[str, ...], *_: object, given: str | None = None, **__: object) -> Output:
        """What one command prints; stands in for the launcher's own way to run it."""
        self.commands.append(command)
        if command[0] == "sbatch":
            return Output(0, self.answers.pop(0), "")
        tell = {"squeue": self._squeue, "sacct": self._sacct, "scontrol": self._scontrol, "scancel": self._scancel}
        return tell[command[0]](command, given)

    def named(self, *names: str) -> list[tuple[str, ...]]:
        """The commands of these names."""
        return [command for command in self.commands if command[0] in names]

    def _asked(self, command: tuple[str, ...]) -> list[str]:
        option = _value(command, "--clusters=")
        if option in {None, "all"}:
            return list(self.entries) if option or "--federation" in command else [next(iter(self.entries))]
        return option.split(",")

    def _squeue(self, command: tuple[str, ...], _: str | None) -> Output:
        ids, name = _after(command, "-j"), _value(command, "--name=")
        several = _value(command, "--clusters=") is not None and "-h" not in command
        lines, problems = [], []
        for cluster in self._asked(command):
            if cluster in self.away:
                problems.append("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
                continue
            lines += [f"CLUSTER: {cluster}"] if several else []
            lines += (
                [] if "-h" in command else ["JOBID|STATE|EXIT_CODE|REASON|NODELIST|SUBMIT_TIME|START_TIME|END|NAME|"]
            )
            found = [one for one in self.entries[cluster] if one.known and _fits(one, ids, name)]
            if ids is not None and not found:
                problems.append(UNKNOWN_ID)
            lines += [
                f"{one.id}|{one.state}|{_wait(one)}|None|{cluster}-n1|1000|1001|1005|{one.name}|" for one in found
            ]
        return Output(1 if problems else 0, "\n".join(lines) + "\n", "".join(problems))

    def _sacct(self, command: tuple[str, ...], _: str | None) -> Output:
        ids, name = _after(command, "-j"), _value(command, "--name=")
        fields = (_after(command, "-o") or "").split(",")
        lines = []
        for cluster in self._asked(command):
            for one in self.entries[cluster]:
                if one.state != "REVOKED" and _fits(one, ids, name):
                    facts = {"JobIDRaw": one.id, "Cluster": cluster, "State": one.state, "ExitCode": one.code}
                    facts |= {"NodeList": f"{cluster}-n1", "JobName": one.name, "DerivedExitCode": "0:0"}
                    lines.append("|".join(facts.get(field, "1000") for field in fields))
        return Output(0, "\n".join(lines) + "\n", "")

    def _scontrol(self, command: tuple[str, ...], given: str | None) -> Output:
        (cluster, *more) = self._asked(command)
        if more:
            return Output(1, "", "scontrol: fatal: Only one cluster can be used at a time with scontrol\n")
        if cluster in self.away:
            return Output(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
        ids = [command[-1]] if given is None else [line.split()[-1] for line in given.splitlines()]
        found = [one for one in self.entries[cluster] if one.known and one.id in ids]
        lines = [
            f"JobId={one.id} JobName={one.name} JobState={one.state} ExitCode={one.code} SubmitTime=1000"
            f"{f' FedOrigin={one.origin} FedActiveSiblings={one.active}' if one.origin else ''}"
            f" StdOut=/out/{cluster}-{one.id}"
            for one in found
        ]
        return Output(0 if found else 1, "\n".join(lines) + "\n", "" if found else UNKNOWN_ID)

    def _scancel(self, command: tuple[str, ...], _: str | None) -> Output:
        for cluster in self._asked(command):
            self.entries[cluster] = [
                replace(one, state="CANCELLED") if one.id in command else one for one in self.entries[cluster]
            ]
        return Output(0, "", "")


def _wait(entry: Entry) -> int:
    exit_code, signal = map(int, entry.code.split(":"))
    return exit_code << 8 | signal


def _value(command: tuple[str, ...], option: str) -> str | None:
    return next((word.removeprefix(option) for word in command if word.startswith(option)), None)


def _after(command: tuple[str, ...], option: str) -> str | None:
    words: Iterator[str] = iter(command)
    return next((next(words) for word in words if word == option), None)


def _fits(entry: Entry, ids: str | None, name: str | None) -> bool:
    return (ids is None or entry.id in ids.split(",")) and name in {None, entry.name}
