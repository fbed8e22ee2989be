"""The log that a launch script names itself: ``srun --output=$LOGS/train_%j.out``.

Most recipes write to the place of :mod:`pytest_gsw.jobs.layout`. The script of another recipe is read as far as it is
certain: the assignments that begin a line, and indented ones, as those of a branch, if no directory depends on them.
"""

from __future__ import annotations

import contextlib
import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import JOB_ID
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import script_text, value_of
from pytest_gsw.jobs.spec import job_environment

_LONGEST_SCRIPT, _LONGEST_VALUE = 64 << 10, 4096

_COMMAND = r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`"
_EXPANSION = rf"{_COMMAND}|\$\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}"
_QUOTED = rf"\\.|'[^']*'|\"(?:\\.|{_EXPANSION}|\$(?![({{])|[^\"\\$`])*\""
#: It reads each text in one way: if there were two for an expansion, many would take exponential time.
_WORD = rf"(?:{_QUOTED}|{_EXPANSION}|(?!{_EXPANSION})[^\s;&|()<>'\"`\\])+"
_ASSIGNMENT = rf"[A-Za-z_]\w*\+?=(?:{_WORD})?"
#: An assignment or an srun, at the beginning of a line or behind another command.
_STATEMENT = re.compile(
    rf"(?P<before>^[ \t]*|[;&|({{)][ \t]*|\b(?:then|else|do)[ \t]+)(?:(?:(?:export|readonly|declare|local)[ \t]+"
    rf"(?:-\w+[ \t]+)?)?(?P<name>[A-Za-z_]\w*)(?P<adds>\+?)=(?P<value>(?:{_WORD})?)"
    r"(?:(?P<array>\()|(?=[ \t]*(?:[;&|#\n]|\Z)))"
    rf"|(?!echo|printf)(?:(?:\w+={_WORD}|!|[\w./-]+)[ \t]+){{0,8}}?(?:[\w./-]{{0,200}}/)?srun"
    rf"(?P<options>(?:[ \t]+{_WORD})+))",
    re.MULTILINE,
)
#: Several assignments behind one word: in ``export A=1 B=$A``, bash expands all values before it assigns one.
_EXPORTED = re.compile(
    rf"^(?P<word>[ \t]*(?:export|readonly|declare|local)[ \t]+(?:-\w+[ \t]+)?)"
    rf"(?P<all>{_ASSIGNMENT}(?:[ \t]+{_ASSIGNMENT})+)",
    re.MULTILINE,
)
#: But for one that a shell runs.
_HERE_DOCUMENT = re.compile(r"^(?!.*\b(?:ba)?sh(?: -\w+)* *<<)(?:.*?[^<])?<<-?[ \t]*['\"\\]?([A-Za-z_]\w*)")
_CD = re.compile(r"^[ \t]*(?:cd|pushd)\b", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:#|(?:echo|printf)\b).*", re.MULTILINE)
_PIECE = re.compile(
    rf"\"|\\(?P<escaped>.)|'(?P<literal>[^']*)'|(?P<command>{_COMMAND})"
    r"|\$(?P<plain>\w+|\$)|\$\{(?P<name>\w+)(?:(?P<how>:?[-=?]|,,|\^\^)(?P<other>(?:[^{}]|\{[^{}]*\})*))?\}"
    r"|(?P<unknown>[$`~{])|(?P<magic>[*?[])",
    re.DOTALL,
)
#: Arithmetic, and commands whose output has no slash; variables known in the job alone, whose values have none.
_PLAIN_COMMAND = re.compile(
    r"\$\(\(|(?:\$\(|`)\s*(?:date|hostname|whoami|id|basename|nproc)\b(?!.*%[Dx])[^/]*", re.DOTALL
)
_PLAIN_NAME = re.compile(r"SLURM_(?!\w*(?:DIR|PATH|HOME))\w+|RANDOM|HOSTNAME|USER|UID|SECONDS|EPOCHSECONDS|\$")
#: Options of srun and pyxis without a value in the next word.
_FLAG = re.compile(
    r"(?s:--(?:no-.+|.+=.*|container-(?:writable|readonly|remap-root)|label|overlap|exact|pty|unbuffered|multi-prog"
    r"|kill-on-bad-exit|quiet|verbose|exclusive)|-[lukKQvEHIOsXZb].*|-[^-].+)"
)
#: The log of the launch contract, but not ``--log-interval``.
_CONTRACT = re.compile(r"(?<![\w.-])log-|SRUN_OUTPUT|SLURM_STDOUTMODE")
_CONTRACT_NAME = re.compile(r"/log-[^/]*(?:SLURM_JOB_?ID|%j)")
#: Of Slurm's patterns, those without a file for each task or node.
_PERCENT = {"j": JOB_ID, "A": JOB_ID, "J": f"{JOB_ID}.*", "%": "%", **dict.fromkeys("uxsab", "*")}


def with_log(spec: JobSpec, path: str) -> JobSpec:
    """The spec with a log of :func:`named_log`."""
    stage = f"{glob.escape(str(spec.stage))}/"
    if path.startswith(stage):
        return replace(spec, log_glob=path.removeprefix(stage))
    parts = path.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part) or JOB_ID in part)
    return replace(spec, stage=Path("/".join(parts[:fixed]) or "/"), log_glob="/".join(parts[fixed:]))


def named_log(spec: JobSpec, environ: Mapping[str, str]) -> str | SubmissionError | None:
    """The path of the log that a launch script names, as a glob; ``None`` if it names none.

    An error if the log could not be found.
    """
    script, launch = spec.script_path, spec.launch
    text = "" if launch.has_directory or not launch.runs_script else script_text(script) or ""
    sruns = [_output_of(call["options"]) for call in _statements(text) if call["options"]] if "srun" in text else []
    names = [name for name in dict.fromkeys(sruns) if name]
    if not names or sruns[-1] is None:
        return None
    lines = list(enumerate(text.split("\n"), 1))
    places = (f"{next((number for number, line in lines if name in line), 1)}  {name}" for name in names)
    evidence = tuple([("said at", f"{script}:{place}") for place in places])
    paths: set[str] = set()
    fact, advice = "names its log without the job's id", "write _%j into the name, before its suffix"
    try:
        paths.update(_paths(text, {**job_environment(environ, spec), "PWD": str(spec.directory)}))
    except LookupError as error:
        if all(_CONTRACT_NAME.search(name) for name in names):
            return None  # the launch contract has its place
        fact, evidence = "names a log whose path is not certain", (*evidence, ("not certain", str(error.args[0])))
        advice = "write a plain path there: --output=/PATH/NAME_%j.out"
    for name in names:
        text = text.replace(name, "")
    if _CONTRACT.search(_COMMENT.sub("", text)) and not any("/log-" in path for path in paths):
        return None
    if len(paths) > 1:
        fact, advice = f"names {len(paths)} logs, and one row has one", "leave --output to the srun that is measured"
    elif paths and JOB_ID in (path := paths.pop()).rpartition("/")[2]:
        return path
    return SubmissionError(f"{spec.script.name} {fact}", evidence, advice=advice)


@lru_cache(maxsize=64)
def _statements(text: str) -> tuple[re.Match[str], ...]:
    """The assignments and sruns of a script, without here-documents; a continued line is one."""
    lines, until = list[str](), ""
    for line in _COMMENT.sub("", text[:_LONGEST_SCRIPT]).replace("\\\n", " ").split("\n"):
        if not until:
            lines.append(line)
        until = "" if line.strip() == until else until or "".join(_HERE_DOCUMENT.findall(line)[:1])
    apart = _EXPORTED.sub(
        lambda match: "\n".join(f"{match['word']}{part}" for part in reversed(re.findall(_ASSIGNMENT, match["all"]))),
        "\n".join(lines),
    )
    return tuple(_STATEMENT.finditer(apart))


@lru_cache(maxsize=64)
def _output_of(options: str) -> str | None:
    """The last ``--output`` of an srun, as written."""
    own, takes_value = list[str](), False
    for word in re.findall(_WORD, options):
        if not takes_value and word.strip("\"'")[:1] not in {"-", "$"}:
            break
        own.append(word.strip('"'))
        takes_value = not takes_value and word.startswith("-") and not _FLAG.fullmatch(word)
    output = value_of(tuple(own), "output")
    return "" if output is not None and output.strip("'") == "/dev/null" else output


def _paths(text: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The logs of a script's sruns, as globs; raises a LookupError if one is not certain."""
    #: ``*`` is any text without a slash, ``None`` one that is not certain.
    values: dict[str, str | None] = {name: glob.escape(value) for name, value in environment.items()}
    values |= dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), JOB_ID) | {"SLURM_SUBMIT_DIR": values["PWD"]}
    values["PWD"] = None if _CD.search(text) else values["PWD"]
    for statement in _statements(text):
        if statement["options"]:
            output = _output_of(statement["options"])
            yield from [_path(output, values)] if output else []
            continue
        name, new = statement["name"], None
        with contextlib.suppress(LookupError):
            new = None if statement["adds"] or statement["array"] else _expanded(statement["value"], values)
        old = values.get(name, "")
        if statement["before"] and new != old:
            new = None if new is None or old is None or "/" in new + old else "*"
        values[name] = new


def _path(name: str, values: Mapping[str, str | None]) -> str:
    """The glob of a log; raises a LookupError if it is not certain."""

    def of_percent(match: re.Match[str]) -> str:
        if match[1] not in _PERCENT:
            raise LookupError(match[0])
        return _PERCENT[match[1]]

    path = re.sub("%(.?)", of_percent, _expanded(name, values))
    path = path if path.startswith("/") else f"{_expanded('$PWD', values)}/{path}"
    if not {"..", "**"}.isdisjoint(path.split("/")):
        raise LookupError(name)
    place, _, last = re.sub("/(?:[.]?/)+", "/", path).rpartition("/")
    head, job_id, rest = last.partition(JOB_ID)
    return f"{place}/{head}{job_id}{rest.replace(JOB_ID, '*')}"


def _expanded(text: str, values: Mapping[str, str | None]) -> str:
    """A word as bash expands it; raises a LookupError if that is not certain."""

    def replaced(piece: re.Match[str]) -> str:
        name, how = piece["plain"] or piece["name"], piece["how"] or ""
        if name is None:
            if piece["unknown"] or (piece["command"] and not _PLAIN_COMMAND.fullmatch(piece["command"])):
                raise LookupError(piece[0])
            return (
                "*" if piece["command"] else glob.escape(piece["escaped"] or piece["literal"] or piece["magic"] or "")
            )
        value = values.get(name, "*" if _PLAIN_NAME.fullmatch(name) else "")
        if value == "" and how[-1:] in {"-", "="} and (how[0] == ":" or name not in values):
            return _expanded(piece["other"], values)
        if value is None or len(value) > _LONGEST_VALUE or (value == "" and name not in values):
            raise LookupError(piece[0])
        return value.lower() if how == ",," else value.upper() if how == "^^" else value

    return _PIECE.sub(replaced, text)
