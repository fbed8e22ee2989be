"""Variables that a launch script cannot start without, or with: as far as the script itself leaves no doubt of it.

Read are single lines at the script's top level, up to the first that may set variables unseen (``source``, ``eval``) or
end the script. A variable counts by the first line that names it: one that is set, or has a default, before that is no
demand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.clusters.model import CONTRACT_VARIABLES
from pytest_gsw.common.words import enumerated
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.environment import job_environment
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.script_text import script_text

_LONGEST_LINE = 4096

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_WORD = re.compile(rf"{_NAME}")
#: ``export HF_TOKEN=${HF_TOKEN:?…}`` and ``: "${HF_TOKEN?…}"``.
_DEMAND = re.compile(rf"""(?:(?:export\s+|readonly\s+)?{_NAME}=|:\s+)"?\$\{{({_NAME})(:?)\?""")
#: A line that is nothing else: what follows an assignment in its line may read what that has set.
_ASSIGNMENT = re.compile(rf"""(?:export\s+|readonly\s+)?{_NAME}=((?:[^\s;&|"]|"[^"]*")*)""")
#: ``$NAME`` and ``${{NAME}}``, without a default.
_PLAIN = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})\}})")
#: ``if [[ -z "$NAME" ]]; then``, and ``-n``; ``${{NAME+x}}`` is there where the variable is, be it empty.
_TEST = re.compile(
    rf"""if\s+\[\[?\s+-([zn])\s+"?\$(?:({_NAME})|\{{({_NAME})(:?\+[A-Za-z0-9_]{{1,20}}|:?-(?:"")?)?\}})"?\s+\]\]?\s*;\s*then"""
)
#: ``${NAME:-…}`` and what else has a modifier, without another inside.
_MODIFIED = re.compile(r"\$\{[^{}]*[^{}A-Za-z0-9_][^{}]*\}")
_UNSETS_U = re.compile(r"\s*set\s+\+(?:[a-z]*u|o\s+nounset)\b")
_SETS_U = re.compile(r"set\s+-(?:[a-z]*u[a-z]*\b|(?:[a-z]+\s+)*o\s+nounset\b).*")
#: What only prints, and so sets nothing that it names.
_SAYS = re.compile(r"\s*(?:echo|printf)\s+(?!-v)[^=`]*")
_EXIT = re.compile(r"exit\s+[1-9][0-9]{0,2};?")
#: What may set variables unseen, wherever it stands, or begins what is no line of the script's own.
_BLINDS = re.compile(
    r"(?:^|[;&|({!]|\b(?:if|then|do|else|time|builtin|command)\s)\s*"
    r"(?:(?:source|\.|eval|exec|module|ml|conda|mamba|spack)\s|(?:export|declare|typeset|local|printf\s+-v)\s[^=]*\$"
    # A command that a variable holds, and an end that is a good one.
    r"|\$(?:\w+|\{\w+\})(?:\s|$)|exit\b(?!\s+[1-9]))|<<"
)
#: What may end the script before anything is demanded; a line that goes on.
_ENDS = re.compile(r"(?:exit|return|exec|trap|unset)\b|.*\\$")
_OPENS = re.compile(r"(?:^|[;&|(]\s*|\b(?:then|do|else)\s+)(if|for|while|until|case|select)\b|\{\s*$|\(\s*$")
_CLOSES = re.compile(r"(?:^|[;&|]\s*)(fi|done|esac)\b|^\s*\}|^\s*\)")

#: Options of sbatch by which the job has other variables than the session, by any beginning that only they have.
_OTHER_VARIABLES = re.compile(r"--(?:exp|get)(?!ort=ALL$).*")
#: A login shell reads the user's profile first.
_BASH = re.compile(r"#!(?!.*\s(?:-[a-z]*l|--login)).*\bbash\b")

#: Set by bash or by Slurm in each job.
_GIVEN = frozenset(
    {
        *("HOME", "HOSTNAME", "HOSTTYPE", "IFS", "LINENO", "LOGNAME", "MACHTYPE", "OLDPWD", "OPTARG", "OPTIND"),
        *("OSTYPE", "PATH", "PPID", "PWD", "RANDOM", "SECONDS", "SHELL", "SHLVL", "TERM", "TMPDIR", "UID", "EUID"),
        *("EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM", "OPTERR", "PS4", "HISTCMD"),
        *("USER", "ENVIRONMENT", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES"),
    }
)
#: Variables by which the job has others than the session: a file that bash reads first, and what sbatch does.
_MAY_SET = frozenset({"BASH_ENV", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV"})
_GIVEN_PREFIXES = ("BASH", "SLURM", "SRUN_", "PMI", "FUNCNAME", "GROUPS", "DIRSTACK", "PIPESTATUS", "REPLY")


@dataclass(frozen=True)
class Demand:
    """What a script wants of one variable."""

    name: str
    line: int
    #: It must not be set, in place of: it must be.
    forbidden: bool = False
    #: An empty value is as good as none.
    empty_is_unset: bool = False

    def is_met(self, environment: Mapping[str, str]) -> bool:
        """Whether an environment is as the script wants it."""
        value = environment.get(self.name)
        return (value is not None and bool(value or not self.empty_is_unset)) != self.forbidden


def variables_problem(spec: JobSpec, environ: Mapping[str, str], demands: Sequence[Demand]) -> SubmissionError | None:
    """Why the launch script, which has these demands, would end at once; ``None`` where that is not certain."""
    script = spec.script_path
    if not demands or not spec.launch.runs_script:
        return None
    environment = {**job_environment(environ, spec), **spec.launch.variables(spec)}
    if not environment.keys().isdisjoint(_MAY_SET) or any(map(_OTHER_VARIABLES.match, spec.options)):
        return None
    unmet = [demand for demand in demands if not demand.is_met(environment)]
    refused = [demand for demand in unmet if demand.forbidden]
    if refused:
        return _refused(refused[0], script)
    return _needed(unmet, script) if unmet else None


def _refused(demand: Demand, script: Path) -> SubmissionError:
    advice = f"unset {demand.name}"
    if demand.name == "STAGE_PATH":
        advice = "it submits by itself: `launcher: nemo-run`, and LLMB_INSTALL in `environment` of the cluster"
    return SubmissionError(
        f"the launch script does not start where {demand.name} is set",
        (("said at", f"{script}:{demand.line}"),),
        advice=advice,
    )


def _needed(unmet: Sequence[Demand], script: Path) -> SubmissionError:
    names = [demand.name for demand in unmet]
    own = [name for name in names if name not in CONTRACT_VARIABLES]
    exports = " ".join(f"{name}=…" for name in own)
    advice = f"export {exports}; or write that under `environment` of the cluster"
    if not own:
        advice = "give the row its `size` in the table, which sets MODEL_SIZE"
    return SubmissionError(
        f"the launch script needs {enumerated(names)}, which {'is' if len(names) == 1 else 'are'} not set",
        tuple(("said at", f"{script}:{demand.line}  {demand.name}") for demand in unmet),
        advice=advice,
    )


def demands_of(script: Path) -> tuple[Demand, ...]:
    """What a launch script demands, by its own text; nothing of one that cannot be read."""
    return tuple(demands_in(script_text(script) or ""))


def demands_in(text: str) -> Iterator[Demand]:
    """What a bash script demands, each variable once."""
    lines = [line.rstrip() for line in text.split("\n")]
    if not _BASH.match(lines[0]):
        return
    named: set[str] = set()
    depth, strict = 0, False
    for number, line in enumerate(lines, 1):
        if not line or line.lstrip().startswith("#"):
            if line.startswith("#SBATCH") and any(map(_OTHER_VARIABLES.match, line.split())):
                return
            continue
        if len(line) > _LONGEST_LINE or _BLINDS.search(line) or not _is_whole(line):
            return
        if depth == 0 and not line[0].isspace():
            strict = (strict or _SETS_U.fullmatch(line) is not None) and not _UNSETS_U.match(line)
            if _ENDS.match(line):
                return
            for demand in _in_line(line, number, lines, strict):
                if demand.name not in named and not _is_given(demand.name):
                    yield demand
        if not _SAYS.fullmatch(line):
            named.update(_WORD.findall(line))
        depth += len(_OPENS.findall(line)) - len(_CLOSES.findall(line))
        if depth < 0:
            return


def _in_line(line: str, number: int, lines: Sequence[str], strict: bool) -> Iterator[Demand]:
    match = _DEMAND.match(line)
    if match is not None:
        yield Demand(match[1], number, empty_is_unset=match[2] == ":")
        return
    match = _TEST.fullmatch(line)
    if match is not None:
        name, modifier = match[2] or match[3], match[4] or ""
        if _ends_script(lines[number:]):
            # Of "${NAME+x}" nothing is left but whether there is a variable; -z of anything else is of its value.
            yield Demand(name, number, forbidden=match[1] == "n", empty_is_unset=not modifier.startswith("+"))
        return
    assigned = _ASSIGNMENT.fullmatch(line) if strict else None
    if assigned is not None and not re.search(r"['`\\]|\$\(", assigned[1]):
        text = _MODIFIED.sub("", assigned[1])
        if not re.search(r"\$\{\w*[^\w}]", text):  # what a default holds in its turn may not be asked for
            yield from (Demand(plain[1] or plain[2], number) for plain in _PLAIN.finditer(text))


def _ends_script(block: Iterable[str]) -> bool:
    """Whether what follows a test does nothing but say something and end the script."""
    for line in block:
        text = line.strip()
        if _EXIT.fullmatch(text):
            return True
        if not text.startswith(("echo ", "printf ", "#")) or text.endswith("\\"):
            return False
    return False


def _is_whole(line: str) -> bool:
    """Whether the quotes that a line opens are closed in it."""
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return line.endswith("\\")  # no quote, but a line that goes on
    return True


def _is_given(name: str) -> bool:
    return name in _GIVEN or name.startswith(_GIVEN_PREFIXES)
