"""Whether statistic, metric and steps of a row are such as its log can give.

What does not fit is not written: the row's job would run, and its log be read in vain.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.tables.load import LOG_FORMATS, LOGGED_AT_MOST
from pytest_gsw.tables.metrics import SAVE_TIME
from pytest_gsw.tables.statistic import parse_statistic
from pytest_gsw.tables.yamlfile import Stated

#: Log formats in which checkpoint saves are timed.
_WITH_SAVES = frozenset({"megatron"})


def log_format_of(values: Mapping[str, Stated]) -> str:
    """The log format of a row, empty where its framework is not known."""
    name = next((values[key].text for key in ("log_format", "framework") if key in values), "")
    return LOG_FORMATS.get(name, name)


def fewest_steps(values: Mapping[str, Stated]) -> int | None:
    """Fewest steps of a log whose run has nobody knows how many; ``None`` where the format is not known.

    One summary is of a whole run; of what is a mean of steps, one step is no mean.
    """
    log_format = log_format_of(values)
    return min(2, LOGGED_AT_MOST.get(log_format, 2)) if log_format else None


def misfits(values: Mapping[str, Stated]) -> dict[str, str]:
    """What the row's log cannot give, by key, and why; a log format that is missing."""
    log_format = log_format_of(values)
    if not log_format:
        return {}
    found = {}
    if log_format not in FORMATS and "log_format" not in values:
        found["log_format"] = f"no log format reads what {log_format} logs; a hook can, see docs/hooks.md"
    if "metric" in values and values["metric"].text == SAVE_TIME.name and log_format not in _WITH_SAVES:
        found["metric"] = f"a {log_format} log has no times of checkpoint saves"
    reason = _statistic_misfits(values["statistic"].text, log_format) if "statistic" in values else ""
    return {**found, "statistic": reason} if reason else found


def _statistic_misfits(text: str, log_format: str) -> str:
    try:
        statistic = parse_statistic(text)
    except ValueError:
        return ""  # told as what no table can hold
    most = LOGGED_AT_MOST.get(log_format)
    if most == 1:
        of_run = statistic.kind != "last" and statistic.first is statistic.last is None
        return "" if of_run else f"'{text}' is of single steps, and a {log_format} log has one summary of the run"
    if most is not None and max(statistic.first or 0, statistic.last or 0) > most:
        return f"'{text}' is of later steps than the first {most}, which a {log_format} log has"
    return ""
