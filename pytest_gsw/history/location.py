"""The place of a history, by options and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.files import at_home
from pytest_gsw.errors import ConfigurationError, refuse_empty

if TYPE_CHECKING:
    from pytest_gsw.history.database import WaitBudget
    from pytest_gsw.history.store import History

#: Name of the history below the directory of results.
NAME = "history.sqlite"
#: The environment variable with the history's place, if no option is given.
VARIABLE = "GSW_HISTORY"

#: libpq's form of a database without a URL: ``host=db password=x``. No sensible file has such a name.
_PAIRS = re.compile(r"^(?:host|hostaddr|port|dbname|user|password|passfile|service)\s*=|=.*\s|\s.*=", re.DOTALL)


def is_postgresql(where: str) -> bool:
    """True if a history's place is a URL of PostgreSQL."""
    return re.match(r"postgres(?:ql)?:", where, re.IGNORECASE) is not None


def open_history(where: str | Path, budget: WaitBudget | None = None) -> History:
    """The history in a SQLite file, or at ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``; it connects at first use.

    Args:
        where: The file or the URL.
        budget: The time for all waits; no limit by default.

    Raises:
        ConfigurationError: It is neither, or psycopg is not installed.
    """
    # Imported late: a session that only collects rows opens no history.
    from pytest_gsw.history.database import SqliteDatabase
    from pytest_gsw.history.store import History

    if isinstance(where, str) and is_postgresql(where):
        from pytest_gsw.history.postgresql import PostgresqlDatabase

        return History(PostgresqlDatabase(where, budget))
    if isinstance(where, str) and "://" in where:  # which may have a password in it
        raise ConfigurationError(f"the history: got {_no_file(where)}, wanted a SQLite file or a postgresql:// URL")
    return History(SqliteDatabase(Path(where), budget))


def history_place(
    given: str | None,
    results: Path,
    environ: Mapping[str, str] = os.environ,
    base: Path = Path(),
    option: str = "--history",
) -> str | Path | None:
    """The place of the history: the option's, else the environment's, else a file next to the runs.

    Args:
        given: The option's value, if any.
        results: The directory of results.
        environ: The environment.
        base: Base of relative paths.
        option: The option's name, for messages.

    Returns:
        A URL of PostgreSQL, the path of a SQLite file, or ``None`` for the word ``none``.

    Raises:
        ConfigurationError: It is none of these. The message hides the text, which may contain a password.
    """
    source, value = (VARIABLE, environ.get(VARIABLE)) if given is None else (option, given)
    refuse_empty(source, value)
    text = (value or "").strip()
    if text.lower() == "none":
        return None
    if is_postgresql(text):
        return text
    problem = _no_file(text)
    if problem is not None:
        raise ConfigurationError(f"{source}: got {problem}, wanted a SQLite file, a postgresql:// URL, or 'none'")
    if not text:
        return results / NAME
    try:
        return base / at_home(text)
    except ValueError as error:
        raise ConfigurationError(f"{source}: {error}") from None


def _no_file(text: str) -> str | None:
    """The kind of a text that is no file name, without a possible password in it; ``None`` if it may be one."""
    url = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if url is not None:
        return f"a URL of '{url[1]}'"
    if "://" in text or "\0" in text or _PAIRS.search(text) is not None:
        return "what is no name of a file (it is not shown, because it may hold a password)"
    return None
