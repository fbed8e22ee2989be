"""Checks of hooks' results against their contracts, before anything is submitted.

The contract suite in :mod:`pytest_gsw.testing` uses the same checks.
"""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any, TypeAlias

import pluggy

from pytest_gsw.clusters import LAUNCHER_KEYS
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import shortened
from pytest_gsw.errors import HookError, InvalidHookResultError
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import JOB_ID
from pytest_gsw.jobs.model import JobSpec, Launch
from pytest_gsw.jobs.states import JobState, JobStep
from pytest_gsw.tables.metrics import BY_KEY, DOCUMENTED, METRIC_KEY, STATISTICS, Direction
from pytest_gsw.tables.value_types import nearest

# -- Errors of hooks that raised or returned an invalid result, with the plugin and the place -------


#: Packages whose frames come between a session and a site's own code.
_BETWEEN = frozenset({"pytest_gsw", "pluggy", "_pytest", "pytest"})
_LONGEST_LINE = 300
_PREFIX = "pytest_gsw_"
_HOOKS_ADVICE = "correct it there; docs/hooks.md lists the arguments and results of each hook"


def hook_error(error: BaseException, manager: pluggy.PluginManager) -> HookError:
    """An error for an exception in a site's own code, with its plugin, its place, and the traceback's last line."""
    message = last_line(error)
    frames = list(traceback.walk_tb(error.__traceback__))
    first = next((number for number, (frame, _) in enumerate(frames) if _is_foreign(frame)), None)
    if first is None:
        evidence = (("at", _place(*frames[-1])),) if frames else ()
        return HookError(f"pytest-gsw itself raised {message}", evidence, advice="report it with this text")
    entry = frames[first][0]
    plugin = _plugin_of(entry, manager.list_name_plugin())
    own = [(frame, line) for frame, line in frames[first:] if _is_same_site(frame, entry)]
    return HookError(
        f"{_function_name(entry)} of {plugin} raised {message}", (("at", _place(*own[-1])),), advice=_HOOKS_ADVICE
    )


def wrong_answer(hook: Any, problem: str, advice: str = "") -> InvalidHookResultError:
    """An error for a hook's invalid result, with the plugins that implement it, in the order of their calls."""
    names = [impl.plugin_name for impl in reversed(hook.get_hookimpls())]
    return InvalidHookResultError(
        f"an implementation of {hook.name} returned {problem}",
        tuple([("plugin", shown(name)) for name in names if name and not name.startswith("pytest_gsw.")]),
        advice=advice or "docs/hooks.md lists the results that the hook may return",
    )


def wrong_hook(plugin: object, specs: Mapping[str, Any]) -> str | None:
    """The first function ``pytest_gsw_*`` of a plugin that is no hook, or that has an argument which its hook lacks.

    pluggy refuses both by a traceback; the text has the place of the function, and the nearest name.
    """
    known = [name for name in specs if name.startswith(_PREFIX)]
    for name in (name for name in dir(plugin) if name.startswith(_PREFIX)):
        function: Any = getattr(plugin, name)
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            continue
        if name in known:
            arguments = inspect.signature(specs[name]).parameters
            wrong = [one for one in inspect.signature(function).parameters if one not in arguments]
            problem = f"{name} has no argument '{wrong[0]}'{nearest(wrong[0], arguments)}" if wrong else ""
        else:
            problem = f"unknown hook {name}{nearest(name, known)}"
        if problem:
            place = f"{relative_path(Path(inspect.getfile(function)))}:{function.__code__.co_firstlineno}"
            return f"{place}: {problem}\nnext: {_HOOKS_ADVICE}"
    return None


def not_that(value: object, kind: str, problems: Sequence[str]) -> str:
    """A text that an object is not of the expected kind, with all its problems."""
    if isinstance(value, type):
        return f"the class {value.__name__}, wanted an instance of it: {value.__name__}()"
    return "\n".join([f"{type(value).__name__}, which is no {kind}:", *(f"  {problem}" for problem in problems)])


def last_line(error: BaseException) -> str:
    """The last line of an error's traceback: ``KeyError: 'H100'``."""
    lines = [line for line in traceback.format_exception_only(type(error), error) if line.strip()]
    return shortened(lines[-1].strip().splitlines()[-1] if lines else type(error).__name__, _LONGEST_LINE)


def shown(plugin: str) -> str:
    """A plugin's name; for a conftest.py, its path relative to the working directory."""
    return str(relative_path(Path(plugin))) if plugin.endswith(".py") else plugin


def _function_name(frame: FrameType) -> str:
    """The called function, with the class of its object."""
    name, itself = frame.f_code.co_name, frame.f_locals.get("self")
    return name if itself is None else f"{type(itself).__name__}.{name}"


def _plugin_of(frame: FrameType, plugins: Iterable[tuple[str, object]]) -> str:
    """The plugin with this frame's file or package; else the frame's module."""
    module = str(frame.f_globals.get("__name__", "?"))
    path = frame.f_code.co_filename
    named = {name: str(getattr(plugin, "__file__", "")) for name, plugin in plugins if plugin is not None}
    for name, file in named.items():
        if file == path:
            return shown(name)
    package = module.partition(".")[0]
    return next((name for name in named if name.partition(".")[0] == package), module)


def _is_foreign(frame: FrameType) -> bool:
    """True if a frame belongs neither to pytest, nor to this package, nor to Python's own library."""
    package, path = str(frame.f_globals.get("__name__", "")).partition(".")[0], frame.f_code.co_filename
    of_python = path.startswith(("<frozen", str(Path(traceback.__file__).parent))) and "site-packages" not in path
    return package not in _BETWEEN and not of_python


def _is_same_site(frame: FrameType, entry: FrameType) -> bool:
    """True if a frame belongs to the same site as the called function."""
    beside, path = Path(entry.f_code.co_filename).parent, Path(frame.f_code.co_filename)
    return path.is_relative_to(beside) and "site-packages" not in path.relative_to(beside).parts


def _place(frame: FrameType, line: int) -> str:
    return f"{relative_path(Path(frame.f_code.co_filename))}:{line}, in {frame.f_code.co_name}"


#: The requirement on an attribute: a few words, and its check.
_Check: TypeAlias = tuple[str, Callable[[Any], bool]]

#: Longest id that fits into the names of files.
LONGEST_JOB_ID = 128


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _is_above_0(value: Any) -> bool:
    return _is_number(value) and 0 < value < math.inf


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _are_variables(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _is_mark(value: Any) -> bool:
    return isinstance(value, bytes) and bool(value)


def _is_dialect(value: Any) -> bool:
    return value == (b"",) or _is_filled_tuple(value, lambda mark: _is_mark(mark) or _is_filled_tuple(mark, _is_mark))


def _is_filled_tuple(value: Any, is_right: Callable[[Any], bool]) -> bool:
    return isinstance(value, tuple) and bool(value) and all(map(is_right, value))


def _is_tuple_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(isinstance(entry, kind) for entry in value)


def _is_log_glob(value: str) -> bool:
    path = PurePosixPath(value)
    return not path.is_absolute() and ".." not in path.parts and JOB_ID in path.name


def _or_none(wanted: str, is_right: Callable[[Any], bool]) -> _Check:
    return f"{wanted} or None", lambda value: value is None or is_right(value)


_NAME: _Check = ("a text", _is_name)
_TEXT: _Check = ("a text", lambda value: isinstance(value, str))
_SECONDS: _Check = ("seconds, 0 or more", lambda value: _is_number(value) and 0 <= value < math.inf)
_WHOLE_ABOVE_0: _Check = ("a whole number above 0", lambda value: _is_whole(value) and value > 0)
_FLAG: _Check = ("True or False", lambda value: isinstance(value, bool))

_LAUNCHER: Mapping[str, _Check] = {
    "name": _NAME,
    "log_wait_s": _SECONDS,
    "poll_interval_s": _SECONDS,
    "unknown_limit_s": _SECONDS,
    "parallel_submissions": _WHOLE_ABOVE_0,
    "jobs_outlive_session": _FLAG,
    "polls_in_a_thread": _FLAG,
    "sees_files": _FLAG,
    "cluster_keys": (
        f"some of {', '.join(sorted(LAUNCHER_KEYS))}",
        lambda keys: isinstance(keys, Collection) and not isinstance(keys, str) and LAUNCHER_KEYS.issuperset(keys),
    ),
}
#: The arguments of a launcher's methods.
_LAUNCHER_METHODS: Mapping[str, tuple[str, ...]] = {
    name: method.__code__.co_varnames[1 : method.__code__.co_argcount]
    for name, method in vars(Launcher).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
_FORMAT: Mapping[str, _Check] = {
    "name": _NAME,
    "dialects": (
        "a tuple of dialects, each a tuple of byte strings",
        lambda value: _is_filled_tuple(value, _is_dialect),
    ),
    "first_index": _or_none("a whole number", _is_whole),
    "wraps": _FLAG,
    "shows_progress": _FLAG,
}
_PARSER_METHODS: Mapping[str, tuple[str, ...]] = {"feed": ("offset", "record"), "log": ()}

_COUNT: _Check = ("a whole number, 0 or more", lambda value: _is_whole(value) and value >= 0)
_MOMENT = _or_none("seconds since the epoch,", lambda value: _is_number(value) and math.isfinite(value))
#: Checks by the declared type of a field of a job's spec or status.
_BY_TYPE: Mapping[str, _Check] = {
    "str": _TEXT,
    "str | None": _or_none(*_TEXT),
    "bool": _FLAG,
    "int": _COUNT,
    "int | None": _or_none("a whole number", _is_whole),
    "float | None": _MOMENT,
    "Launch": ("a Launch", lambda value: isinstance(value, Launch)),
    "Path": ("a pathlib.Path", lambda value: isinstance(value, Path)),
    "tuple[str, ...]": ("a tuple of texts", _is_tuple_of(str)),
    "Mapping[str, str]": ("a mapping of texts to texts", _are_variables),
    "JobState": ("a JobState", lambda value: isinstance(value, JobState)),
    "tuple[JobStep, ...] | None": _or_none("a tuple of JobStep,", _is_tuple_of(JobStep)),
}


#: Checks of a job's spec: by the types of its fields, or as given. The row's id, and fields that the session sets, are
#: not the hook's.
_SPEC: Mapping[str, _Check] = {
    **{
        name: _BY_TYPE[str(kind)]
        for name, kind in inspect.get_annotations(JobSpec).items()
        if name not in {"row_id", "definition", "image", "variables", "documented"}
    },
    "name": _NAME,
    "time_limit_s": _or_none("seconds above 0,", _is_above_0),
    "log_glob": (
        "a glob below the staging area with {job_id} in the file's name",
        lambda value: isinstance(value, str) and (not value or _is_log_glob(value)),
    ),
    "attempt": _WHOLE_ABOVE_0,
}


#: Longest texts that leave room for the figures on a row's line.
_LONGEST_UNIT, _LONGEST_LABEL = 20, 40


def _is_short(longest: int) -> Callable[[Any], bool]:
    return lambda value: _is_name(value) and len(value) <= longest


_METRIC: Mapping[str, _Check] = {
    "key": (
        "a-z, 0-9 and '_', at most 60 of them, and no key of a row such as step_time_s",
        lambda value: (
            isinstance(value, str)
            and re.fullmatch(METRIC_KEY, value) is not None
            and value not in {*BY_KEY, *DOCUMENTED}
        ),
    ),
    "unit": (f"a text of at most {_LONGEST_UNIT} characters", _is_short(_LONGEST_UNIT)),
    "label": (f"a text of at most {_LONGEST_LABEL} characters", _is_short(_LONGEST_LABEL)),
    "direction": ("a Direction", lambda value: isinstance(value, Direction)),
    "statistic": (f"one of {', '.join(STATISTICS)}", lambda value: value in STATISTICS),
}


def metric_problems(metric: object) -> list[str]:
    """Problems of an object as a site's metric, a line each."""
    return [*_wrong(metric, _METRIC), *_wrong_methods(metric, {"read": ("log",)})]


def log_problems(log: object, place: Path, rows: Collection[str]) -> list[str]:
    """Problems of an object as a log below a directory, of some of these rows, a line each."""
    checks: Mapping[str, _Check] = {
        "path": ("a file there", lambda path: isinstance(path, Path) and path.is_relative_to(place) and path.is_file()),
        "job_id": ("the id of a job", lambda job_id: job_id_problem(job_id) is None),
        "rows": ("ids of the given rows", lambda ids: _is_tuple_of(str)(ids) and set(ids) <= {*rows}),
    }
    return [*_wrong(log, checks)]


def suite_problems(suite: object) -> list[str]:
    """Problems of an object as the rows of a suite, a line each."""
    methods = {"of_table": ("path",), "case_of": ("row",), "heading": (), "conclude": ("records",)}
    return list(_wrong_methods(suite, methods))


def is_own(value: object) -> bool:
    """True if a launcher is part of pytest-gsw, not of a site."""
    return type(value).__module__.partition(".")[0] == "pytest_gsw"


def launcher_problems(launcher: object) -> list[str]:
    """Problems of an object as a launcher, a line each."""
    return [*_wrong(launcher, _LAUNCHER), *_wrong_methods(launcher, _LAUNCHER_METHODS)]


def format_problems(log_format: object) -> list[str]:
    """Problems of an object as a log format, a line each."""
    found = [*_wrong(log_format, _FORMAT), *_wrong_methods(log_format, {"reader": ()})]
    if found:
        return found
    try:
        parser = log_format.reader()  # type: ignore[attr-defined]
    except Exception as error:  # in a site's own code
        return [f"reader: raised {type(error).__name__}: {error}"]
    return [f"reader().{problem}" for problem in _wrong_methods(parser, _PARSER_METHODS)]


def spec_problems(spec: object) -> list[str]:
    """Fields of a job spec with a wrong type, a line each; their values may be secrets and are not shown."""
    return [
        f"{name}: got {type(getattr(spec, name)).__name__}, wanted {wanted}"
        for name, (wanted, is_right) in _SPEC.items()
        if not is_right(getattr(spec, name))
    ]


def peak_problem(peak: object) -> str | None:
    """The problem of a peak in FLOP/s; ``None`` if it is valid."""
    if peak is None or _is_above_0(peak):
        return None
    return f"{_short(peak)}, wanted FLOP/s above 0 or None"


def job_id_problem(job_id: object) -> str | None:
    """The problem of a job's id, which appears in names of files and in arguments; ``None`` if it is valid."""
    if not isinstance(job_id, str):
        return f"{_short(job_id)}, wanted a text"
    if not 1 <= len(job_id) <= LONGEST_JOB_ID:
        return f"a text of {len(job_id)} characters, wanted 1 to {LONGEST_JOB_ID}"
    if not job_id.isprintable() or job_id.startswith(("-", ".")) or set(job_id) & set("/\\ "):
        return f"{job_id!r}, wanted printable characters, no blank, no slash, and no dash or dot in front"
    return None


def _wrong(value: object, checks: Mapping[str, _Check]) -> Iterator[str]:
    for name, (wanted, is_right) in checks.items():
        try:
            found = getattr(value, name)
        except AttributeError:
            yield f"{name}: missing, wanted {wanted}"
            continue
        if not is_right(found):
            yield f"{name}: got {_short(found)}, wanted {wanted}"


def _wrong_methods(value: object, methods: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, arguments in methods.items():
        wanted = f"{name}({', '.join(arguments)})"
        method = getattr(value, name, None)
        if method is None:
            yield f"{name}: missing, wanted {wanted}"
        elif not callable(method):
            yield f"{name}: got {_short(method)}, wanted {wanted}"
        elif not _takes(method, len(arguments)):
            yield f"{name}: got {name}{inspect.signature(method)}, wanted {wanted}"
        elif inspect.iscoroutinefunction(method):
            yield f"{name}: got a coroutine, wanted {wanted} that returns its answer"


def _takes(method: Callable[..., Any], arguments: int) -> bool:
    """True if a method accepts so many arguments; a builtin without a signature may."""
    try:
        inspect.signature(method).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _short(value: object) -> str:
    return shortened(repr(value), 80)
