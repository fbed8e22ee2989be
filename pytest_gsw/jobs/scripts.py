"""What a recipe's launch script says: its options for sbatch, and what it and its like take from their environment."""

from __future__ import annotations

import ast
import difflib
import glob
import math
import operator
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pytest_gsw.common.redact import is_secret
from pytest_gsw.errors import RefusedError
from pytest_gsw.jobs.layout import ANY_SIZE, JOB_ID
from pytest_gsw.jobs.model import ERROR_SUFFIX, JobSpec
from pytest_gsw.tables.model import IMAGE_VARIABLE, Baseline

# -- The text of a recipe's script, for all who look into it before a job is submitted --------------


#: Scripts are shorter by far.
_MOST_BYTES = 256 << 10
#: ``export GSW_VERSION=25.01``, a constant of the launch scripts of v24.11.1 to v25.10; later ones have none.
_VERSION = re.compile(
    r"^[ \t]{0,40}(?:export[ \t]{1,8})?GSW_VERSION="
    r"['\"]?([A-Za-z0-9][\w.-]{0,40})['\"]?(?:[ \t]{1,40}#.*)?[ \t]{0,40}$",
    re.MULTILINE,
)


def script_text(script: Path) -> str | None:
    """A script's text as it is now; ``None`` of one that is not there, or cannot be read: who runs it says it better.

    Many rows have one script, which is read again only where it has changed.
    """
    place = str(script)
    try:
        facts = os.stat(place)  # noqa: PTH116 - Path costs more than the look
        if not stat.S_ISREG(facts.st_mode):
            return None  # a pipe would be waited for
        return _read(place, facts.st_ino, facts.st_ctime_ns, facts.st_size)
    except OSError:
        return None


def versions_in(text: str) -> list[re.Match[str]]:
    """The lines of a launch script that fix its GSW_VERSION, each with the value as its first group."""
    return list(_VERSION.finditer(text))


@lru_cache(maxsize=64)
def _read(script: str, _inode: int, _changed_ns: int, _size: int) -> str:
    with Path(script).open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")


# -- Options of sbatch as sbatch reads them ---------------------------------------------------------
#
# A long one by any beginning that only it has, short ones together in a word. So ``--part=batch``, ``--partition
# batch``, ``-p batch`` and ``-Hpbatch`` are the same to all who look for a partition.


#: Options with a value, in this word or the next, each with its short one in front: those of Slurm 22.05 by its own
#: answers, and later ones by the manuals up to 25.05.
_WITH_VALUE = """
    A/account acctg-freq a/array batch bb bbf b/begin D/chdir cluster cluster-constraint M/clusters comment
    C/constraint container container-id context S/core-spec cores-per-socket cpu-freq cpus-per-gpu c/cpus-per-task
    deadline delay-boot d/dependency m/distribution e/error x/exclude export export-file extra B/extra-node-info gid
    gpu-bind gpu-freq G/gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint i/input J/job-name
    kill-on-invalid-dep L/licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus
    network F/nodefile w/nodelist N/nodes n/ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    ntasks-per-tres open-mode o/output p/partition power prefer priority profile q/qos reservation segment signal
    sockets-per-node switches tasks-per-node thread-spec threads-per-core t/time time-min tmp tres-bind
    tres-per-task uid wait-all-nodes wckey wrap
"""
#: Options that stand alone, or with a value in the same word.
_ALONE = """
    consolidate-segments contiguous exclusive external get-user-env h/help H/hold ignore-pbs nice k/no-kill
    no-requeue oom-kill-step O/overcommit s/oversubscribe parsable propagate Q/quiet reboot requeue resv-ports
    spread-job spread-segments stepmgr test-only u/usage use-min-nodes v/verbose V/version W/wait
"""


def _table(text: str) -> dict[str, str]:
    """Long names by short ones, and by themselves."""
    words = [word.rpartition("/") for word in text.split()]
    return {name: long for short, _, long in words for name in (short, long) if name}


_VALUED, _BARE = _table(_WITH_VALUE), _table(_ALONE)
_LONG = [name for name in (*_VALUED, *_BARE) if len(name) > 1]
#: Two names of one option.
_ALSO = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}

#: Times as Slurm writes them: ``90`` minutes, ``90:30``, ``1:30:00``, ``2-12``, ``2-12:30``, ``2-12:30:00``.
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?")
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "-1"})


@dataclass(frozen=True)
class Option:
    """One option."""

    #: Its long name, whole where it is known; empty of a word that is no option, or a short one that nobody knows.
    name: str
    #: ``None`` where it has none.
    value: str | None
    #: As it was written, with its value.
    written: str


def options_in(words: Iterable[str]) -> tuple[Option, ...]:
    """The options among these words, in their order, and the words that are none."""
    return _in_words(tuple(words))


@lru_cache(maxsize=64)
def _in_words(words: tuple[str, ...]) -> tuple[Option, ...]:
    """The same; many rows have the same options."""
    return tuple(_each(iter(words)))


def _each(rest: Iterator[str]) -> Iterator[Option]:
    for word in rest:
        if word.startswith("--") and word != "--":
            yield _long(word, rest)
        elif word.startswith("-") and word not in {"-", "--"}:
            yield from _short(word, rest)
        else:
            yield Option("", None, word)


def value_of(words: Iterable[str], name: str) -> str | None:
    """What an option is given last among these words, as sbatch takes it; empty of one that stands alone."""
    return _last_value(tuple(words), name)


@lru_cache(maxsize=256)
def _last_value(words: tuple[str, ...], name: str) -> str | None:
    given = [option.value or "" for option in _in_words(words) if option.name == name]
    return given[-1] if given else None


def _long(word: str, rest: Iterator[str]) -> Option:
    given, has_value, value = word[2:].partition("=")
    name = _whole(given)
    if name is None:  # of another release, or a site's plugin has added it
        return Option(given, value if has_value else None, word)
    if has_value:
        return Option(name, value, word)
    return _with_next(name, word, rest) if name in _VALUED else Option(name, None, word)


def _whole(given: str) -> str | None:
    """The one option that has this name, or begins so."""
    found = [given] if given in _LONG else [name for name in _LONG if name.startswith(given)]
    return _ALSO.get(found[0], found[0]) if len(found) == 1 else None


def _short(word: str, rest: Iterator[str]) -> Iterator[Option]:
    for number, letter in enumerate(word[1:], 1):
        behind = word[number + 1 :]
        if letter in _VALUED:
            yield Option(_VALUED[letter], behind, word) if behind else _with_next(_VALUED[letter], word, rest)
            return
        yield Option(_BARE.get(letter, ""), None, word)
        if letter not in _BARE or letter == "k":  # the value of -k follows in the word
            return


def _with_next(name: str, word: str, rest: Iterator[str]) -> Option:
    value = next(rest, "")
    return Option(name, value, f"{word} {value}".rstrip())


def seconds_of(text: str) -> float | None:
    """A limit on time as Slurm writes and reads it, infinity for no limit; ``None`` where it is no time."""
    if text.upper() in _UNLIMITED:
        return math.inf
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is None and match[4] is None:
        return first * 60.0 + second
    return ((days * 24 + first) * 60 + second) * 60.0 + third


# -- What a launch script asks of sbatch itself, as far as one row could become several jobs by it --


#: The place of what no script says.
OPTIONS = "the options of sbatch"
#: The variables of a job that name the Slurm cluster it goes to, in the order in which sbatch reads them.
CLUSTER_VARIABLES = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")

#: Any line that is neither blank nor a comment.
_COMMAND = re.compile(r"\s*[^\s#]")
_HETEROGENEOUS = frozenset({"hetjob", "packjob"})


def check_one_job(spec: JobSpec) -> None:
    """Raise a RefusedError where the launch script, or an option, makes several jobs of one submission."""
    place, words = next(_several(spec), (None, ""))
    if place is not None:
        raise RefusedError(
            f"{words} makes several jobs of one row",
            (("said at", place),),
            advice="take it out: each row is one job, which the session watches and judges",
        )


def _several(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """What makes several jobs of a submission, and where it stands."""
    for words in _arrays(spec.options):
        yield OPTIONS, words
    for number, line in directives_of(spec.script):
        several = [*(word for word in line[:1] if word in _HETEROGENEOUS), *_arrays(line)]
        yield from ((f"{spec.script}:{number}", f"#SBATCH {words}") for words in several)


def cluster_of(spec: JobSpec) -> str:
    """The Slurm cluster that a job goes to by its name; empty if none is named."""
    return next(named_clusters(spec), ("", ""))[0]


def named_clusters(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """The clusters that are named for a job, each with its place; sbatch takes the first."""
    named = value_of(spec.options, "clusters")
    if named:
        yield named, OPTIONS
    for variable in CLUSTER_VARIABLES:
        if value := spec.environment.get(variable):
            yield value, variable
    for number, words in reversed(directives_of(spec.script_path)):
        if value := value_of(words, "clusters"):
            yield value, f"{spec.script_path}:{number}"


def directives_of(script: Path) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The numbers and the words of a script's lines for sbatch; none of one that cannot be read: sbatch says it."""
    return _in_text(script_text(script) or "")


def directive_words(script: Path) -> tuple[str, ...]:
    """The words of all of a script's lines for sbatch."""
    return tuple([word for _, words in directives_of(script) for word in words])


@lru_cache(maxsize=64)
def _in_text(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The same of a script's text; many rows have one script."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#SBATCH"):
            found.append((number, _words(line.removeprefix("#SBATCH"))))
        elif _COMMAND.match(line):
            break  # sbatch reads no further than to the first command
    return tuple(found)


def time_asked_s(script: Path) -> float | None:
    """The limit on the run time that a launch script asks for; ``None`` where it asks for none, or has no limit."""
    asked = value_of(directive_words(script), "time")
    limit_s = None if asked is None else seconds_of(asked)
    return None if limit_s == math.inf else limit_s


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError:
        return tuple(text.split())


def _arrays(words: Iterable[str]) -> list[str]:
    """Options that make an array, as they are written."""
    return [option.written for option in options_in(words) if option.name == "array"]


# -- What a recipe's own scripts take from their environment, and what of it a row fixes ------------
#
# No release has to be known for it: shell takes what may be set by ``${TP:-8}`` and its like, and the scripts of all
# releases write it so. A row's variable that a script uses before it sets it is taken as well. A launch script names
# the scripts that it sources or hands to its container; those that lie beside it are read as well.


#: The recipes' variables, and what of a row each of them is.
_ROW = {
    "GBS": "global_batch_size",
    "MBS": "micro_batch_size",
    "SEQ_LEN": "sequence_length",
    "NUM_LAYERS": "layers",
    "JOB_TOTAL_GPUS": "gpus",
    "MAX_STEPS": "steps",
    "RUN_CONF_MAX_STEPS": "steps",
    **{name.upper(): name for name in ("tp", "pp", "cp", "ep", "dp", "vp")},
}
_CHOSEN = """
    CONFIG_VARIANT FP8_RECIPE CONFIG_OVERRIDES LLMB_MBRIDGE_EXTRA_ARGS CUDA_GRAPH CUDA_GRAPH_SCOPE DISABLE_CG ET
    ETP FSDP HIDDEN_SIZE STRONG_SCALING PROXY_WORKLOAD FT_TYPE SFT_SCHEME TRAINING_STEPS LOCAL_BATCH_SIZE
    PIPELINE_PARALLEL_DEGREE EXPERT_PARALLEL_DEGREE DATA_PARALLEL_SHARD_DEGREE PIPELINE_PARALLEL_SCHEDULE
    ACTIVATION_CHECKPOINT_MODE USE_MNNVL EP_COMM_BACKEND TP_COMM_OVERLAP CPU_PER_TASK_PINNING ENABLE_CHECKPOINT
    CHECKPOINT_INTERVAL LOAD_CHECKPOINT_PATH ENABLE_VBOOST ENABLE_PCT_BINDING ENABLE_PYTORCH_PROFILE
"""
#: The recipes' variables that choose how a row is run, which no row says: the recipe's own choice is the row's.
_CHOICES = frozenset(_CHOSEN.split())
#: Beginnings of variables that say nothing of a run that is not profiled, or what a record has anyhow (the image).
_OF_SITE = ("SLURM_", "SBATCH_", "SRUN_", "HF_", "LLMB_", "GSW_", "ENABLE_", "RUN_CONF_PROFILE_", IMAGE_VARIABLE)
#: Would put the log where nobody looks for it.
_MISLEADS = "RUN_CONF_RESULT_DIR"
#: What turns NCCL tracing on, as recipes up to NeMo 1 and those of NeMo 2 spell it.
_TRACING = ("ENABLE_NCCL_TRACE", "ENABLE_NCCLTRACE")
#: Slurm's name of SRUN_OUTPUT before 23.02, which knows no other.
STDOUT_BEFORE_23_02 = "SLURM_STDOUTMODE"
#: What the recipes set to have the output of srun in files, that variable's older name, and how the file's name ends.
_OUTPUTS = (("SRUN_OUTPUT", STDOUT_BEFORE_23_02, ".out"), ("SRUN_ERROR", "SLURM_STDERRMODE", ERROR_SUFFIX))

#: Scripts are short, and name few others.
_MOST_SCRIPTS = 16
#: ``${TP:-8}``, ``${TP-}``, ``${TP?…}``.
_TAKEN = re.compile(r"\$\{([A-Z][A-Z0-9_]{0,60}):?[-=?+]")
#: Without it a script does not run, so that there is no value of the recipe's own.
_DEMANDED = re.compile(r"\$\{([A-Z][A-Z0-9_]{0,60}):?\?")
#: What shell does not expand or run: a comment, and text in single quotes, but not where double quotes are around it.
_INERT = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^'\n]*'|(?<!\S)#[^\n]*", re.DOTALL)
#: ``$TP``, ``${TP}``, ``-v TP``; and in ``$((TP * PP))`` every name.
_USED = re.compile(r"(?:\$\{?[#!]?|-v )([A-Z][A-Z0-9_]{0,60})(?![A-Za-z0-9_])")
_NAME = re.compile(r"(?<![\w$])[A-Z][A-Z0-9_]{0,60}(?![A-Za-z0-9_])")
#: ``TP=8`` at the beginning of a line, but not ``TP=8 train``, which sets it for that command alone.
_ALWAYS_SET = re.compile(r"(?:export )?([A-Z][A-Z0-9_]{0,60})=(?![\w./-]{0,200}[ \t]{1,8}[a-z./])")
#: The lines between which a branch that is not indented stands; its end is the group.
_BLOCK = re.compile(
    r"^(?:(?:if|elif|else|for|while|until|case)\b(?!.*;[ \t]*(?:fi|done|esac)\b)|(fi|done|esac)\b)", re.MULTILINE
)
#: Whatever sets a variable; and ``TP=4`` at the beginning of a line: what a branch sets is indented.
_SET = re.compile(r"(?<![\w.$({-])([A-Z][A-Z0-9_]{0,60})\+?=(?!=)")
_NUMBER = re.compile(r"(?:export )?([A-Z]\w{0,60})=(\d{1,9}|\"?\$\(\([\w ${}()+*/-]{1,99}\)\)\"?)[ \t]{0,8}(?:#.*)?$")
#: A variable in arithmetic, and what may be done with its number.
_TERM = re.compile(r"\$?\{?([A-Z][A-Z0-9_]{0,60})\}?")
_IN_PYTHON = str.maketrans({"$": "", "/": "//"})
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
_NAMED = re.compile(r"(?<![\w.$-])[A-Za-z0-9_][\w.-]{0,60}\.sh\b")

#: A recipe's directory has few files; an installation or a staging area, which may have its launch script, has many.
_MOST_FILES = 256
#: ``python3 $HOME/own/train.py``; what is below /opt, the container has, and a framework wrote it.
_PROGRAM = re.compile(r"(?<![\w./${}-])(?!/opt/)(?:[\w.${}-]{0,60}/){0,20}([A-Za-z0-9_][\w.-]{0,60}\.py)\b")
#: ``source ../settings``: what is read so, but for scripts (above), virtual environments, and the user's own.
_SOURCED = re.compile(
    r"^[ \t]{0,40}(?:source|\.)[ \t]+['\"]?(?:[^\s'\";|&]*/)?(?!activate\b|\.)([^\s'\";|&/]+)(?<!\.sh)(?![^\s'\";|&])",
    re.MULTILINE,
)
#: What reads variables without their names: shell by ``${!name}``, ``declare -n``, ``eval "\$OWN_$name"``, or a list
#: of all, as ``$(env)``; Python by what is no literal, as ``os.environ.items()``, ``os.getenv(name)``; or by prefixes.
_ANY = re.compile(
    r"\$\{!\w+(?![\w[])|\\\$\{?\w*\$|\b(?:declare|local|typeset) -\w*n|\bcompgen\b|/environ(?![\w.])"
    r"|(?<![\w.${=-])(?:print)?env(?: -0)? *[|>`]|[$<]\((?:print)?env(?: -0)? *\)"
    r"|(?:\bset|\b(?:export|declare|typeset) -[px]+) *[|>)]"
    r"|(?<!import )(?<![/\w])(?:environ\b(?!\.d\b)(?!\[(['\"])\w+\1\]|\.(?:get|setdefault|pop)\(\s*(['\"])\w+\2\s*[,)])"
    r"|getenv\b(?!\(\s*(['\"])\w+\3\s*[,)]))|\bprocess\.env\b(?![.\[])|env_?(?:var_)?prefix|\.prefixed\("
)
_PROGRAMS = """
    SLURM SBATCH_ SRUN_ PMI OMPI_ MPI UCX_ UCC_ FI_ SHARP_ GLOO_ NCCL_ RCCL_ NVSHMEM_ CUDA CUDNN_ CUBLAS NVIDIA_ NVTE_
    HSA_ ROCR_ HIP_ GPU_ TORCH PYTORCH_ TRITON_ XLA_ JAX_ TF_ TRANSFORMER TOKENIZERS_ HF_ NEMO MEGATRON DEEPSPEED_ DS_
    ACCELERATE_ RAY_ WANDB_ MLFLOW_ MASTER_ OMP_ KMP_ MKL_ OPENBLAS_ MALLOC_ LD_ LC_ LANG PYTHON CONDA_ VIRTUAL_ENV PATH
    HOME USER TMP ENROOT_ PYXIS_ APPTAINER SINGULARITY LLMB_ GSW_ ADDITIONAL_SLURM_PARAMS TIME_LIMIT GPUS_PER_NODE
"""
#: Beginnings of variables that the session, Slurm, the container or a library reads, so that no script has to.
_OF_PROGRAMS = tuple(_PROGRAMS.split())


@dataclass(frozen=True)
class Scripts:
    """A launch script and the scripts that it names."""

    #: The variables that they take from their environment, where these are set.
    taken: frozenset[str] = frozenset()
    #: Whether they know a variable that turns NCCL tracing on; so may one that is not found.
    trace: bool = True
    #: The variables of a row that they set to one number each, or to what arithmetic gives, whatever is exported.
    fixed: tuple[tuple[str, str], ...] = ()
    #: The release as the launch script itself fixes it, in the name of a directory of its results; else empty.
    version: str = ""
    #: The variables of a row that they take and have no default for, or none that is plain to see.
    demanded: frozenset[str] = frozenset()


def scripts_of(launch_script: Path) -> Scripts:
    """What a recipe's scripts say; nothing where there is no launch script yet, or none that can be read."""
    return _scripts(tuple(_texts(launch_script)))


@lru_cache(maxsize=64)
def _scripts(found: tuple[str | None, ...]) -> Scripts:
    texts = [text or "" for text in found]
    versions = {match[1] for match in versions_in(texts[0])}
    with_default = frozenset(name for text in texts for name in _TAKEN.findall(text))
    plain = frozenset(_used_first(texts)) - with_default
    taken = with_default | plain
    traces = None in found or any(name in text for text in texts for name in _TRACING)
    numbers = ((name, values.pop()) for name, values in _set_in(texts) if len(values) == 1 and name not in taken)
    fixed = tuple((name, number) for name, number in numbers if number)
    demanded = frozenset(name for text in texts for name in _DEMANDED.findall(text)) & _ROW.keys()
    return Scripts(taken, traces, fixed, versions.pop() if len(versions) == 1 else "", demanded | plain)


def _used_first(texts: Iterable[str]) -> Iterator[str]:
    """The variables of a row that scripts use before they set them in any case: what a branch sets is indented."""
    own: set[str] = set()
    for line in (
        line
        for text in texts
        for line in _INERT.sub(lambda match: "" if match[0][0] in "'#" else match[0], text).split("\n")
    ):
        for part in line.split(";"):
            arithmetic = part.partition("((")[2].rpartition("))")[0]
            names = {*_USED.findall(part), *_NAME.findall(arithmetic)}
            yield from (names & _ROW.keys()) - own
            always = _ALWAYS_SET.match(part)
            if always is not None:
                own.add(always[1])


def _set_in(texts: Iterable[str]) -> Iterable[tuple[str, set[str]]]:
    """The variables of a row that scripts set, and to which numbers; "" stands for what may be any."""
    found: dict[str, set[str]] = {}
    for line in (line for text in texts for line in text.split("\n")):
        whole = _NUMBER.match(line)
        for name in _ROW.keys() & set(_SET.findall(line)):
            found.setdefault(name, set()).add(whole[2] if whole is not None and whole[1] == name else "")
    return found.items()


def unread(names: Iterable[str], launch_script: Path) -> tuple[str, str] | None:
    """The first of these variables that no script of a recipe reads.

    The scripts are the launch script, those that it names, and all files of its directory. They read a variable if
    they name it and do not set it, unless they have set it in any case before.

    Returns:
        The variable, and the most similar one that they read, empty if there is none. ``None`` if they read all,
        or one of the scripts cannot be read.
    """
    wanted = [name for name in names if not name.startswith(_OF_PROGRAMS) and not name.islower()]
    named = list(_texts(launch_script)) if wanted else [None]
    below = list(islice(launch_script.parent.rglob("*"), _MOST_FILES + 1)) if None not in named else []
    files = [path for path in below if path.suffix != ".md" and path.is_file()]
    texts = [text or "" for text in (*named, *map(_text_of, files))]
    programs = {name for text in texts[: len(named)] for kind in (_PROGRAM, _SOURCED) for name in kind.findall(text)}
    is_known = 0 < len(below) <= _MOST_FILES and programs <= {path.name for path in files}
    if not is_known or any(map(_ANY.search, texts)):
        return None
    own = [one for one in sorted(_scripts(tuple(named)).taken) if not one.startswith((*_OF_SITE, *_OF_PROGRAMS))]
    found = (name for name in wanted if not any(_reads(name, text) for text in texts))
    return next(((name, "".join(difflib.get_close_matches(name, own, 1, 0.0))) for name in found), None)


def _reads(name: str, text: str) -> bool:
    used = re.compile(rf"(?<!\w){re.escape(name)}(?!\w|\+?=(?!=))")
    own = (
        one
        for one in re.finditer(rf"^(?:export )?{re.escape(name)}=.*", text, re.MULTILINE)
        if _ALWAYS_SET.match(one[0]) and _BLOCK.findall(text, 0, one.start())[-1:] != [""]
    )
    return used.search(text, 0, next((one.end() for one in own), len(text))) is not None


def check_traces(scripts: Scripts, launch_script: Path) -> None:
    """Raise a RefusedError where a recipe that is to trace NCCL cannot."""
    if not scripts.trace:
        raise RefusedError(
            f"{launch_script.parent.name} of this release cannot trace NCCL",
            (("script", str(launch_script)), ("wanted", " or ".join(_TRACING))),
            advice="leave --gsw-profile=nccl-trace out, or take a release of the recipe that traces",
        )


def fixed_by(baseline: Baseline) -> dict[str, str | None]:
    """The recipes' variables that a row fixes, with its values; ``None`` where the row leaves it to the recipe."""
    facts = {**vars(baseline.parallelism), "steps": baseline.recipe.steps}
    found = {name: facts[fact] if fact in facts else getattr(baseline, fact) for name, fact in _ROW.items()}
    return {name: None if value is None else str(value) for name, value in found.items()}


def own_variables(baseline: Baseline, scripts: Scripts, log_path: str) -> dict[str, str | None]:
    """The variables with which a recipe's scripts run as the row has it, whatever the user's shell exports.

    Args:
        baseline: The row.
        scripts: The recipe's.
        log_path: The path of its log, with ``*`` for the release and ``{job_id}`` for the job's id.

    Returns:
        Values by name; ``None`` is to be unset: the recipe's own value is the row's.
    """
    of_row = {name: value for name, value in fixed_by(baseline).items() if name in scripts.taken}
    # What a script demands and the row leaves open is the user's to say.
    fixed = {name: value for name, value in of_row.items() if value is not None or name not in scripts.demanded}
    others = dict.fromkeys(scripts.taken & {_MISLEADS, *_CHOICES})
    return {**fixed, **others, **_output_variables(scripts, log_path)}


def row_variables() -> tuple[str, ...]:
    """The variables by which recipes are told which row they run, and how."""
    return (*_ROW, *_CHOICES)


def _output_variables(scripts: Scripts, log_path: str) -> dict[str, str]:
    """What Slurm before 23.02 has to be told of where the recipe sends the output of its srun."""
    path = log_path.replace("*", scripts.version, 1).replace(JOB_ID, "")
    if not scripts.version or "%" in path or glob.has_magic(path) or ANY_SIZE in path:
        return {}
    stem = log_path.replace("*", scripts.version, 1).replace(JOB_ID, "%j").removesuffix(".out")
    return {old: f"{stem}{suffix}" for name, old, suffix in _OUTPUTS if name in scripts.taken}


def differences(baseline: Baseline, spec: JobSpec, environ: Mapping[str, str]) -> Iterator[str]:
    """How a row's job may differ from the row by variables, as far as that is known before it is submitted.

    Args:
        baseline: The row.
        spec: Its job.
        environ: The session's environment.
    """
    scripts = scripts_of(spec.script)
    of_row, fixed_there = fixed_by(baseline), dict(scripts.fixed)
    known = {**of_row, "SLURM_JOB_NUM_NODES": str(spec.nodes), **spec.environment, **fixed_there}
    for name, value in of_row.items():
        is_taken, fixed = name in scripts.taken, fixed_there.get(name)
        given = spec.environment.get(name) if is_taken else fixed and _number(fixed, known)
        if given and value is not None and given != value:
            how = f"{name}={given} is set for the job" if is_taken else f"{_called(spec)} fixes {name}={given}"
            yield f"{how}, and the row has {value}"
    for name in exported_to(spec, environ, scripts):
        taken = f"{name} is exported here, and {_called(spec)} takes it"
        yield f"{taken}: the run may be another than the documented one"


def _number(arithmetic: str, known: Mapping[str, str | None]) -> str:
    """What arithmetic of shell gives; empty if it has a variable without a known number, or cannot be computed."""
    try:
        filled = _TERM.sub(lambda match: str(known[match[1]]), arithmetic.strip('"')).translate(_IN_PYTHON)
        return str(_computed(ast.parse(filled, mode="eval").body))
    except (KeyError, ValueError, SyntaxError, ZeroDivisionError):
        return ""


def _computed(node: ast.expr) -> int:
    match node:
        case ast.Constant(int(number)):
            return number
        case ast.BinOp(left, sign, right):
            return int(_OPERATORS[type(sign)](_computed(left), _computed(right)))
    raise ValueError(ast.dump(node))


def exported_to(spec: JobSpec, environ: Mapping[str, str], scripts: Scripts | None = None) -> list[str]:
    """The variables of a session's environment that a job's scripts take, and that say how it runs."""
    taken = (scripts or scripts_of(spec.script)).taken & environ.keys() - spec.environment.keys()
    return [
        name
        for name in sorted(taken)
        # Not what says where things are, or who runs them, and nothing of what is run.
        if name not in spec.unset
        and environ[name]
        and not (environ[name].startswith("/") or name.startswith(_OF_SITE) or is_secret(name))
    ]


def _called(spec: JobSpec) -> str:
    return f"{spec.script.parent.name}/{spec.script.name}"


def _texts(launch_script: Path) -> Iterator[str | None]:
    """The launch script's text, and those of the scripts that it names; ``None`` for one that is not found."""
    scripts, seen = [launch_script], {launch_script.name}
    while scripts and len(seen) <= _MOST_SCRIPTS:
        text = _text_of(scripts.pop(0))
        yield text
        for name in _NAMED.findall(text or ""):
            if name not in seen:
                seen.add(name)
                scripts.append(launch_script.parent / name)


def _text_of(script: Path) -> str | None:
    """A script's text without its comments."""
    for place in _places(script):
        text = script_text(place)
        if text is not None:
            return _without_comments(text)
    return None


def _places(script: Path) -> Iterator[Path]:
    """Where a script lies, and where one that another names may lie."""
    yield script
    recipe = script.parent
    yield recipe / "cfg" / script.name
    yield recipe.parent / "common" / script.name


@lru_cache(maxsize=64)
def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
