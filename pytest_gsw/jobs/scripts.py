"""A recipe's launch script: its options for sbatch, and the variables that it and its helper scripts read."""

from __future__ import annotations

import difflib
import glob
import math
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pytest_gsw.common.masks import is_secret
from pytest_gsw.errors import RefusedError
from pytest_gsw.jobs.layout import ANY_SIZE, JOB_ID
from pytest_gsw.jobs.model import ERROR_SUFFIX, JobSpec
from pytest_gsw.tables.model import IMAGE_VARIABLE, Baseline

# -- The text of a recipe's script ------------------------------------------------------------------


#: Most bytes read; scripts are far shorter.
_MOST_BYTES = 256 << 10
#: ``export GSW_VERSION=25.01``, a constant of the launch scripts of v24.11.1 to v25.10; later ones have none.
_VERSION = re.compile(
    r"^[ \t]{0,40}(?:export[ \t]{1,8})?GSW_VERSION="
    r"['\"]?([A-Za-z0-9][\w.-]{0,40})['\"]?(?:[ \t]{1,40}#.*)?[ \t]{0,40}$",
    re.MULTILINE,
)


def script_text(script: Path) -> str | None:
    """A script's current text; ``None`` if it is missing or unreadable, which its execution will report.

    Cached until the file changes, since many rows have one script.
    """
    place = str(script)
    try:
        facts = os.stat(place)  # noqa: PTH116 - Path costs more than the look
        if not stat.S_ISREG(facts.st_mode):
            return None  # opening a pipe would block
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
# Long options by any unique prefix, short ones also combined in one word: ``--part=batch``, ``--partition batch``,
# ``-p batch`` and ``-Hpbatch`` are equivalent.


#: Options with a value, in this word or the next, each after its short form: those of Slurm 22.05 by its own
#: help text, and later ones by the manuals up to 25.05.
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
#: Options without a value, or with one in the same word.
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
#: Synonyms of options.
_ALSO = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}

#: Times as Slurm writes them: ``90`` minutes, ``90:30``, ``1:30:00``, ``2-12``, ``2-12:30``, ``2-12:30:00``.
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?")
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "-1"})


@dataclass(frozen=True)
class Option:
    """One option of sbatch."""

    #: Its full long name, or an unknown name as written; empty for a word that is no option, or an unknown letter.
    name: str
    #: ``None`` if it has none.
    value: str | None
    #: As it was written, with its value.
    written: str


@lru_cache(maxsize=64)
def options_in(words: tuple[str, ...]) -> tuple[Option, ...]:
    """The options among these words, in their order, and the words that are none; many rows have the same ones."""
    return tuple(_parse_options(iter(words)))


def _parse_options(rest: Iterator[str]) -> Iterator[Option]:
    for word in rest:
        if word.startswith("--") and word != "--":
            yield _long(word, rest)
        elif word.startswith("-") and word not in {"-", "--"}:
            yield from _short(word, rest)
        else:
            yield Option("", None, word)


@lru_cache(maxsize=256)
def value_of(words: tuple[str, ...], name: str) -> str | None:
    """The last value of an option among these words, as sbatch reads them; empty for an option without a value."""
    given = [option.value or "" for option in options_in(words) if option.name == name]
    return given[-1] if given else None


def _long(word: str, rest: Iterator[str]) -> Option:
    given, has_value, value = word[2:].partition("=")
    name = _full_name(given)
    if name is None:  # an option of another release, or of a site's plugin
        return Option(given, value if has_value else None, word)
    if has_value:
        return Option(name, value, word)
    return _with_next(name, word, rest) if name in _VALUED else Option(name, None, word)


def _full_name(given: str) -> str | None:
    """The one option with this name or prefix; ``None`` if there is none, or several."""
    names = [given] if given in _LONG else [name for name in _LONG if name.startswith(given)]
    return _ALSO.get(names[0], names[0]) if len(names) == 1 else None


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
    """Seconds of a time limit in Slurm's format, infinity for no limit; ``None`` if it is no time."""
    if text.upper() in _UNLIMITED:
        return math.inf
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is None and match[4] is None:
        return first * 60.0 + second
    return ((days * 24 + first) * 60 + second) * 60.0 + third


# -- Options that affect the number of jobs and their cluster ---------------------------------------


#: The place of an option that is in no script.
OPTIONS = "the options of sbatch"
#: The variables with the job's Slurm cluster, in the order in which sbatch reads them.
CLUSTER_VARIABLES = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")

#: Any line that is neither blank nor a comment.
_COMMAND = re.compile(r"\s*[^\s#]")
_HETEROGENEOUS = frozenset({"hetjob", "packjob"})


def check_one_job(spec: JobSpec) -> None:
    """Raise a RefusedError for a heterogeneous job: only the first of its jobs has the row's name, and is polled."""
    for number, words in directives_of(spec.script):
        if not _HETEROGENEOUS.isdisjoint(words[:1]):
            raise RefusedError(
                f"#SBATCH {words[0]} makes several jobs of one row",
                (("said at", f"{spec.script}:{number}"),),
                advice="take it out: each row is one job, which the session watches and judges",
            )


def cluster_of(spec: JobSpec) -> str:
    """The name of a job's Slurm cluster; empty if none is given."""
    return next(named_clusters(spec), ("", ""))[0]


def named_clusters(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """The clusters given for a job, each with its place; sbatch uses the first."""
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
    """Numbers and words of a script's ``#SBATCH`` lines; empty if it cannot be read, which sbatch will report."""
    return _parse_directives(script_text(script) or "")


@lru_cache(maxsize=64)
def _parse_directives(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The same for a script's text, cached: many rows have one script."""
    directives = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#SBATCH"):
            directives.append((number, _words(line.removeprefix("#SBATCH"))))
        elif _COMMAND.match(line):
            break  # sbatch stops reading at the first command
    return tuple(directives)


def requested_time_s(script: Path) -> float | None:
    """The time limit that a launch script requests, in seconds; ``None`` if it requests none, or no limit."""
    words = tuple([word for _, line in directives_of(script) for word in line])
    limit = value_of(words, "time")
    limit_s = None if limit is None else seconds_of(limit)
    return None if limit_s == math.inf else limit_s


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError:
        return tuple(text.split())


# -- Variables that a recipe's scripts read, and those that a row fixes -----------------------------
#
# This works for every release: scripts read an optional variable by ``${TP:-8}`` and the like in all of them. A row's
# variable that a script uses before it sets it counts as read, too. A launch script names the scripts that it sources
# or passes to its container; those in its directory are parsed as well.


#: The recipes' variables that a row fixes, and its value for each.
_ROW: Mapping[str, Callable[[Baseline], object]] = {
    "GBS": lambda row: row.batch.global_batch_size,
    "MBS": lambda row: row.batch.micro_batch_size,
    "SEQ_LEN": lambda row: row.workload.sequence_length,
    "NUM_LAYERS": lambda row: row.workload.layers,
    "JOB_TOTAL_GPUS": lambda row: row.gpus,
    "GPU_TYPE": lambda row: row.accelerator.lower(),
    "MAX_STEPS": lambda row: row.recipe.steps,
    "RUN_CONF_MAX_STEPS": lambda row: row.recipe.steps,
    "TP": lambda row: row.parallelism.tp,
    "PP": lambda row: row.parallelism.pp,
    "CP": lambda row: row.parallelism.cp,
    "EP": lambda row: row.parallelism.ep,
    "DP": lambda row: row.parallelism.dp,
    "VP": lambda row: row.parallelism.vp,
}
_CHOSEN = """
    CONFIG_VARIANT FP8_RECIPE CONFIG_OVERRIDES LLMB_MBRIDGE_EXTRA_ARGS CUDA_GRAPH CUDA_GRAPH_SCOPE DISABLE_CG ET
    ETP FSDP HIDDEN_SIZE STRONG_SCALING PROXY_WORKLOAD FT_TYPE SFT_SCHEME TRAINING_STEPS LOCAL_BATCH_SIZE
    PIPELINE_PARALLEL_DEGREE EXPERT_PARALLEL_DEGREE DATA_PARALLEL_SHARD_DEGREE PIPELINE_PARALLEL_SCHEDULE
    ACTIVATION_CHECKPOINT_MODE USE_MNNVL EP_COMM_BACKEND TP_COMM_OVERLAP CPU_PER_TASK_PINNING ENABLE_CHECKPOINT
    CHECKPOINT_INTERVAL LOAD_CHECKPOINT_PATH ENABLE_VBOOST ENABLE_PCT_BINDING ENABLE_PYTORCH_PROFILE
"""
#: The recipes' variables for choices that no row contains: the recipe's own choice applies.
_CHOICES = frozenset(_CHOSEN.split())
#: Beginnings of variables without effect on an unprofiled run, or recorded elsewhere (the image).
_OF_SITE = ("SLURM_", "SBATCH_", "SRUN_", "HF_", "LLMB_", "GSW_", "ENABLE_", "RUN_CONF_PROFILE_", IMAGE_VARIABLE)
#: Would move the log to a directory that is not searched.
_MISLEADS = "RUN_CONF_RESULT_DIR"
#: Slurm's name of SRUN_OUTPUT before 23.02.
STDOUT_BEFORE_23_02 = "SLURM_STDOUTMODE"
#: The recipes' variables for output files of srun, the older name of each, and the suffix of the file.
_OUTPUTS = (("SRUN_OUTPUT", STDOUT_BEFORE_23_02, ".out"), ("SRUN_ERROR", "SLURM_STDERRMODE", ERROR_SUFFIX))

#: Most scripts that are parsed; recipes have fewer.
_MOST_SCRIPTS = 16
#: ``${TP:-8}``, ``${TP-}``, ``${TP?…}``.
_TAKEN = re.compile(r"\$\{([A-Z][A-Z0-9_]{0,60}):?[-=?+]")
#: Variables that a script requires: the recipe has no value of its own.
_DEMANDED = re.compile(r"\$\{([A-Z][A-Z0-9_]{0,60}):?\?")
#: Text that the shell neither expands nor runs: comments, and single quotes outside double quotes.
_INERT = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^'\n]*'|(?<!\S)#[^\n]*", re.DOTALL)
#: ``$TP``, ``${TP}``, ``-v TP``; and in ``$((TP * PP))`` every name.
_USED = re.compile(r"(?:\$\{?[#!]?|-v )([A-Z][A-Z0-9_]{0,60})(?![A-Za-z0-9_])")
_NAME = re.compile(r"(?<![\w$])[A-Z][A-Z0-9_]{0,60}(?![A-Za-z0-9_])")
#: ``TP=8`` at the beginning of a line, but not ``TP=8 train``, which sets it for that command alone.
_ALWAYS_SET = re.compile(r"(?:export )?([A-Z][A-Z0-9_]{0,60})=(?![\w./-]{0,200}[ \t]{1,8}[a-z./])")
#: The first and last line of a branch that is not indented; its end is the group.
_BLOCK = re.compile(
    r"^(?:(?:if|elif|else|for|while|until|case)\b(?!.*;[ \t]*(?:fi|done|esac)\b)|(fi|done|esac)\b)", re.MULTILINE
)
_NAMED = re.compile(r"(?<![\w.$-])[A-Za-z0-9_][\w.-]{0,60}\.sh\b")

#: A recipe's directory has few files; an installation or a staging area, which may have its launch script, has many.
_MOST_FILES = 256
#: ``python3 $HOME/own/train.py``; programs below /opt are the framework's, in the container.
_PROGRAM = re.compile(r"(?<![\w./${}-])(?!/opt/)(?:[\w.${}-]{0,60}/){0,20}([A-Za-z0-9_][\w.-]{0,60}\.py)\b")
#: ``source ../settings``: sourced files except scripts (above), virtual environments, and the user's own.
_SOURCED = re.compile(
    r"^[ \t]{0,40}(?:source|\.)[ \t]+['\"]?(?:[^\s'\";|&]*/)?(?!activate\b|\.)([^\s'\";|&/]+)(?<!\.sh)(?![^\s'\";|&])",
    re.MULTILINE,
)
#: Code that reads variables without their names: shell by ``${!name}``, ``declare -n``, ``eval "\$OWN_$name"``, or a
#: list of all, as ``$(env)``; Python without literals, as ``os.environ.items()``, ``os.getenv(name)``; or by prefixes.
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
#: Beginnings of variables that the session, Slurm, the container or a library reads: no script needs to.
_OF_PROGRAMS = tuple(_PROGRAMS.split())


@dataclass(frozen=True)
class Scripts:
    """A launch script and the scripts that it names."""

    #: The variables that they read from their environment.
    taken: frozenset[str] = frozenset()
    #: The release that the launch script fixes, part of its results' path; empty if none.
    version: str = ""
    #: The variables of a row that they read without a recognizable default.
    demanded: frozenset[str] = frozenset()


def scripts_of(launch_script: Path) -> Scripts:
    """The facts of a recipe's scripts; empty if there is no readable launch script yet."""
    return _scripts(tuple(_texts(launch_script)))


@lru_cache(maxsize=64)
def _scripts(found: tuple[str | None, ...]) -> Scripts:
    texts = [text or "" for text in found]
    versions = {match[1] for match in versions_in(texts[0])}
    with_default = frozenset(name for text in texts for name in _TAKEN.findall(text))
    plain = frozenset(_used_first(texts)) - with_default
    taken = with_default | plain
    demanded = frozenset(name for text in texts for name in _DEMANDED.findall(text)) & _ROW.keys()
    return Scripts(taken, versions.pop() if len(versions) == 1 else "", demanded | plain)


def _used_first(texts: Iterable[str]) -> Iterator[str]:
    """The variables of a row that scripts use before they always set them; assignments in a branch are indented."""
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


def unread(names: Iterable[str], launch_script: Path) -> tuple[str, str] | None:
    """The first of these variables that no script of a recipe reads.

    The scripts are the launch script, those that it names, and all files of its directory. They read a variable if
    they name it and do not set it, unless they always set it before.

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
    own = [name for name in sorted(_scripts(tuple(named)).taken) if not name.startswith((*_OF_SITE, *_OF_PROGRAMS))]
    unread_names = (name for name in wanted if not any(_reads(name, text) for text in texts))
    return next(((name, "".join(difflib.get_close_matches(name, own, 1, 0.0))) for name in unread_names), None)


def _reads(name: str, text: str) -> bool:
    used = re.compile(rf"(?<!\w){re.escape(name)}(?!\w|\+?=(?!=))")
    own = (
        match
        for match in re.finditer(rf"^(?:export )?{re.escape(name)}=.*", text, re.MULTILINE)
        if _ALWAYS_SET.match(match[0]) and _BLOCK.findall(text, 0, match.start())[-1:] != [""]
    )
    return used.search(text, 0, next((match.end() for match in own), len(text))) is not None


def fixed_by(baseline: Baseline) -> dict[str, str | None]:
    """The recipes' variables that a row fixes, with its values; ``None`` if the row leaves one to the recipe."""
    values = {name: value_of_row(baseline) for name, value_of_row in _ROW.items()}
    return {name: None if value is None else str(value) for name, value in values.items()}


def own_variables(baseline: Baseline, scripts: Scripts, log_path: str) -> dict[str, str | None]:
    """The variables with which a recipe's scripts run the row, whatever the user's shell exports.

    Args:
        baseline: The row.
        scripts: The recipe's scripts.
        log_path: The path of its log, with ``*`` for the release and ``{job_id}`` for the job's id.

    Returns:
        Values by name; ``None`` unsets a variable: the recipe's own value is the row's.
    """
    of_row = {name: value for name, value in fixed_by(baseline).items() if name in scripts.taken}
    # A variable that a script requires and the row leaves open is the user's choice.
    fixed = {name: value for name, value in of_row.items() if value is not None or name not in scripts.demanded}
    others = dict.fromkeys(scripts.taken & {_MISLEADS, *_CHOICES})
    return {**fixed, **others, **_output_variables(scripts, log_path)}


def row_variables() -> tuple[str, ...]:
    """The variables that pass the row and its settings to recipes."""
    return (*_ROW, *_CHOICES)


def _output_variables(scripts: Scripts, log_path: str) -> dict[str, str]:
    """Variables of Slurm before 23.02 for the recipe's output files of srun."""
    path = log_path.replace("*", scripts.version, 1).replace(JOB_ID, "")
    if not scripts.version or "%" in path or glob.has_magic(path) or ANY_SIZE in path:
        return {}
    stem = log_path.replace("*", scripts.version, 1).replace(JOB_ID, "%j").removesuffix(".out")
    return {old: f"{stem}{suffix}" for name, old, suffix in _OUTPUTS if name in scripts.taken}


def differences(baseline: Baseline, spec: JobSpec, environ: Mapping[str, str]) -> Iterator[str]:
    """Warnings of variables by which a row's job may differ from the row.

    Args:
        baseline: The row.
        spec: Its job.
        environ: The session's environment.
    """
    scripts = scripts_of(spec.script)
    for name, value in fixed_by(baseline).items():
        given = spec.environment.get(name) if name in scripts.taken else None
        is_raised = spec.left_s is not None and name.endswith("MAX_STEPS")
        if given and value is not None and given != value and not is_raised:
            yield f"{name}={given} is set for the job, and the row has {value}"
    script = f"{spec.script.parent.name}/{spec.script.name}"
    for name in exported_to(spec, environ, scripts):
        yield f"{name} is exported here, and {script} takes it: the run may be another than the documented one"


def exported_to(spec: JobSpec, environ: Mapping[str, str], scripts: Scripts) -> list[str]:
    """The session's exported variables that a job's scripts read, if they affect its run."""
    taken = scripts.taken & environ.keys() - spec.environment.keys()
    return [
        name
        for name in sorted(taken)
        # Paths and settings of the site or user do not affect the run.
        if name not in spec.unset
        and environ[name]
        and not (environ[name].startswith("/") or name.startswith(_OF_SITE) or is_secret(name))
    ]


def _texts(launch_script: Path) -> Iterator[str | None]:
    """The texts of the launch script and of the scripts that it names; ``None`` for one that is not found."""
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
    texts = map(script_text, _places(script))
    return next((_without_comments(text) for text in texts if text is not None), None)


def _places(script: Path) -> Iterator[Path]:
    """Possible paths of a script that another one names."""
    yield script
    recipe = script.parent
    yield recipe / "cfg" / script.name
    yield recipe.parent / "common" / script.name


@lru_cache(maxsize=64)
def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
