"""What is compared, and how: the two sides, the order of their turns, and the one job that runs them all."""

from __future__ import annotations

import dataclasses
import glob
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.clusters.model import CONTRACT_VARIABLES
from pytest_gsw.common.files import write_whole
from pytest_gsw.errors import ConfigurationError, SubmissionError
from pytest_gsw.jobs.directives import directive_lines
from pytest_gsw.jobs.environment import CHANGES_THE_SUBMISSION
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.spec import profiling_in

#: The names of a comparison's files in its directory.
PLAN = "plan.json"
JOB_SCRIPT = "job.sh"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Beginnings of the variables that no side may set, and why.
_NOT_FOR_SIDES = {
    "GSW_ROW": "part of the launch contract, the same for both sides",
    "GSW_AB_": "the comparison's own",
    "GSW_LOCAL": "the launcher's own",
    "SLURM_JOB": "the job's, and both sides share one job",
    "SBATCH_": "read when the job is submitted, and both sides share one job",
}


@dataclass(frozen=True)
class Plan:
    """A comparison as its directory has it, so that a later session can judge the turns that are there."""

    id: str
    row: str
    #: The file of the row.
    table: str
    cluster: str
    #: Its figures are made up.
    simulated: bool
    #: The variables of the two sides, secrets hidden.
    a: Mapping[str, str]
    b: Mapping[str, str]
    pairs: int

    @property
    def order(self) -> tuple[str, ...]:
        """The side of each turn."""
        return turn_order(self.pairs)


def turn_order(pairs: int) -> tuple[str, ...]:
    """A B, B A, A B …: in every other pair B is first, so that what changes slowly in the allocation cancels."""
    return tuple(side for number in range(pairs) for side in ("BA" if number % 2 else "AB"))


def read_side(option: str, given: Sequence[str]) -> dict[str, str]:
    """The variables of one side, given as ``NAME=VALUE`` with an option such as ``--a``.

    Raises:
        ConfigurationError: One is no such text, is given twice, or is not the sides' to set.
    """
    side: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or _NAME.fullmatch(name) is None:
            raise ConfigurationError(f"{option}: got '{text}', wanted NAME=VALUE such as NCCL_ALGO=Ring")
        if name in side:
            raise ConfigurationError(f"{option}: {name} is given twice")
        why = _why_not(name)
        if why is not None:
            raise ConfigurationError(f"{option}: {name} cannot be compared: it is {why}")
        side[name] = value
    return side


def _why_not(name: str) -> str | None:
    if name in CONTRACT_VARIABLES:
        return "part of the launch contract, the same for both sides"
    if name in CHANGES_THE_SUBMISSION:
        return "not handed on to jobs: it changes where they run, or where they write"
    return next((why for start, why in _NOT_FOR_SIDES.items() if name.startswith(start)), None)


def check_sides(environment: Mapping[str, str], a: Mapping[str, str], b: Mapping[str, str]) -> None:
    """Make sure that two sides differ, and that both can be compared.

    Raises:
        ConfigurationError: They do not, or cannot.
    """
    if {**environment, **a} == {**environment, **b}:
        raise ConfigurationError(
            "A and B are the same: nothing to compare\nnext: --a NCCL_ALGO=Ring --b NCCL_ALGO=Tree, or one of the two"
        )
    for name, side in (("A", a), ("B", b)):
        profiling = profiling_in({**environment, **side})
        if profiling is not None:
            where = f"--{name.lower()}" if profiling in side else "the environment"
            raise ConfigurationError(
                f"{profiling} is set in {where}: figures of profiled runs cannot be compared\nnext: unset {profiling}"
            )


def job_script(launch: Path, driver: str) -> str:
    """The script of the job: the driver under the directives of the launch script.

    sbatch reads directives of the script that it is given, and recipes have there what their training
    needs: ``--ntasks-per-node=8``, ``--exclusive``, ``--mem=0``.

    Raises:
        SubmissionError: The launch script cannot be read.
    """
    try:
        text = launch.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SubmissionError(
            f"the launch script {launch} cannot be read: {error.strerror}",
            advice=f"is the recipe set up? ls -l {launch.parent}",
        ) from None
    first, _, rest = driver.partition("\n")
    return "\n".join([first, *(line for _, line in directive_lines(text)), rest])


def job_of(
    spec: JobSpec,
    directory: Path,
    order: Sequence[str],
    a: Mapping[str, str],
    b: Mapping[str, str],
    *,
    time_limit_s: float | None,
    turn_limit_s: float | None,
) -> JobSpec:
    """The job that runs all turns of a row's sides, and leaves them beside its script in a directory.

    Its own time limit is the launch script's where it is ``None``; that of each turn is none then.
    """
    return dataclasses.replace(
        spec,
        script=directory / JOB_SCRIPT,
        time_limit_s=time_limit_s,
        environment={
            **spec.environment,
            "GSW_AB_DIRECTORY": str(directory),
            "GSW_AB_ORDER": " ".join(order),
            "GSW_AB_SCRIPT": str(spec.script),
            "GSW_AB_LOGS": f"{glob.escape(str(spec.stage))}/{spec.log_glob}",
            "GSW_AB_LIMIT_S": "" if turn_limit_s is None else f"{turn_limit_s:.0f}",
            **_side_variables("A", a),
            **_side_variables("B", b),
        },
    )


def _side_variables(side: str, variables: Mapping[str, str]) -> dict[str, str]:
    """What tells the driver of a side: no value is ever written to a file."""
    named = {f"GSW_AB_{side}_{name}": value for name, value in variables.items()}
    return {f"GSW_AB_NAMES_{side}": " ".join(variables), **named}


def write_plan(directory: Path, plan: Plan) -> None:
    """Write a comparison into its directory.

    Raises:
        OSError: It cannot be written.
    """
    write_whole(directory / PLAN, json.dumps(dataclasses.asdict(plan), indent=2) + "\n")


def read_plan(directory: Path) -> Plan:
    """The comparison that a directory has.

    Raises:
        ConfigurationError: It has none.
    """
    path = directory / PLAN
    try:
        return Plan(**json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        why = error.strerror
    except (ValueError, TypeError):
        why = "it is no plan of compare-ab"
    raise ConfigurationError(f"there is no comparison in {directory}: {PLAN}: {why}\nnext: ls {directory.parent}")
