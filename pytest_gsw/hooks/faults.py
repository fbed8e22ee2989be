"""A hook that raised, or returned what it must not, as an error that names the plugin and the place."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import shortened
from pytest_gsw.errors import HookError, WrongAnswerError

#: Packages whose frames stand between a session and a site's own code.
_BETWEEN = frozenset({"pytest_gsw", "pluggy", "_pytest", "pytest"})
_LONGEST_LINE = 300


def hook_error(error: BaseException, plugins: Iterable[tuple[str, object]]) -> HookError:
    """What a site's own code has raised, with its plugin, its place, and the traceback's last line."""
    said = last_line(error)
    frames = list(traceback.walk_tb(error.__traceback__))
    first = next((number for number, (frame, _) in enumerate(frames) if _is_foreign(frame)), None)
    if first is None:
        evidence = (("at", _place(*frames[-1])),) if frames else ()
        return HookError(f"pytest-gsw itself raised {said}", evidence, advice="report it with this text")
    entry = frames[first][0]
    plugin = _plugin_of(entry, plugins)
    own = [(frame, line) for frame, line in frames[first:] if _is_beside(frame, entry)]
    return HookError(
        f"{_called(entry)} of {plugin} raised {said}",
        (("at", _place(*own[-1])),),
        advice="correct it there; docs/hooks.md says what each hook is given, and what it may return",
    )


def wrong_answer(hook: Any, problem: str, advice: str = "", wrong: Sequence[str] = ()) -> WrongAnswerError:
    """That a hook, as ``config.hook`` has it, returned what it must not; ``wrong`` names attributes of the answer."""
    return WrongAnswerError(
        f"an implementation of {hook.name} returned {problem}",
        (*(("wrong", one) for one in wrong), *(("plugin", name) for name in implementers(hook))),
        advice=advice or "docs/hooks.md says what the hook may return",
    )


def not_that(value: object, kind: str, problems: Sequence[str]) -> str:
    """That an object is not what a hook is to return, with all that is wrong with it."""
    return "\n".join([f"{type(value).__name__}, which is no {kind}:", *(f"  {problem}" for problem in problems)])


def implementers(hook: Any) -> Sequence[str]:
    """The plugins that implement a hook besides pytest-gsw, those first that are asked first."""
    names = [impl.plugin_name for impl in reversed(hook.get_hookimpls())]
    return [shown(name) for name in names if name and not name.startswith("pytest_gsw.")]


def last_line(error: BaseException) -> str:
    """The last line of an error's traceback: ``KeyError: 'H100'``."""
    lines = [line for line in traceback.format_exception_only(type(error), error) if line.strip()]
    return shortened(lines[-1].strip().splitlines()[-1] if lines else type(error).__name__, _LONGEST_LINE)


def shown(plugin: str) -> str:
    """A plugin's name, a conftest.py as seen from the working directory."""
    return str(from_here(Path(plugin))) if plugin.endswith(".py") else plugin


def _called(frame: FrameType) -> str:
    """The function that was entered, with the class of its object."""
    name, itself = frame.f_code.co_name, frame.f_locals.get("self")
    return name if itself is None else f"{type(itself).__name__}.{name}"


def _plugin_of(frame: FrameType, plugins: Iterable[tuple[str, object]]) -> str:
    """The plugin whose file a frame is in, or whose package; else the frame's module."""
    module = str(frame.f_globals.get("__name__", "?"))
    path = frame.f_code.co_filename
    named = {name: str(getattr(plugin, "__file__", "")) for name, plugin in plugins if plugin is not None}
    for name, file in named.items():
        if file == path:
            return shown(name)
    package = module.partition(".")[0]
    return next((name for name in named if name.partition(".")[0] == package), module)


def _is_foreign(frame: FrameType) -> bool:
    """Whether a frame is neither pytest's nor ours, nor of Python's own library."""
    package, path = str(frame.f_globals.get("__name__", "")).partition(".")[0], frame.f_code.co_filename
    of_python = path.startswith(("<frozen", str(Path(traceback.__file__).parent))) and "site-packages" not in path
    return package not in _BETWEEN and not of_python


def _is_beside(frame: FrameType, entry: FrameType) -> bool:
    """Whether a frame is of the same site as the one that was entered."""
    beside, path = Path(entry.f_code.co_filename).parent, Path(frame.f_code.co_filename)
    return path.is_relative_to(beside) and "site-packages" not in path.relative_to(beside).parts


def _place(frame: FrameType, line: int) -> str:
    return f"{from_here(Path(frame.f_code.co_filename))}:{line}, in {frame.f_code.co_name}"
