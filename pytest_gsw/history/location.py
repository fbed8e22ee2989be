"""Where a history is: what options and the environment say of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.files import at_home
from pytest_gsw.errors import ConfigurationError

if TYPE_CHECKING:
    from pytest_gsw.history.store import History

#: Where a history is below the directory of results.
NAME = "history.sqlite"
#: The environment variable that names the history, where no option does.
VARIABLE = "GSW_HISTORY"

#: How libpq takes a database that is no URL: ``host=db password=x``. No file that anybody means is named so.
_PAIRS = re.compile(r"^(?:host|hostaddr|port|dbname|user|password|passfile|service)\s*=|=.*\s|\s.*=", re.DOTALL)


def is_postgresql(where: str) -> bool:
    """Whether a history is named by a URL of PostgreSQL."""
    return re.match(r"postgres(?:ql)?:", where, re.IGNORECASE) is not None


def open_history(where: str | Path) -> History:
    """The history in a SQLite file, or at ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``; nothing is connected yet.

    Raises:
        ConfigurationError: It is neither, or psycopg is not installed.
    """
    # A session that only collects rows opens none.
    from pytest_gsw.history.database import SqliteDatabase
    from pytest_gsw.history.postgresql import PostgresqlDatabase
    from pytest_gsw.history.store import History

    if isinstance(where, str) and is_postgresql(where):
        return History(PostgresqlDatabase(where))
    if isinstance(where, str) and "://" in where:  # which may have a password in it
        raise ConfigurationError(f"the history: got {_no_file(where)}, wanted a SQLite file or a postgresql:// URL")
    return History(SqliteDatabase(Path(where)))


def history_place(
    given: str | None,
    results: Path,
    environ: Mapping[str, str] = os.environ,
    base: Path = Path(),
    option: str = "--history",
) -> str | Path | None:
    """Where the history is: as an option says, else as the environment says, else a file beside the runs.

    Args:
        given: What the option says, if anything.
        results: The directory of results.
        environ: The environment.
        base: What a path is relative to.
        option: The option's name, for messages.

    Returns:
        A URL of PostgreSQL, the path of a SQLite file, or ``None`` where the word ``none`` asks for no history.

    Raises:
        ConfigurationError: What is said is none of these. The text does not show it: it may have a password in it.
    """
    source, text = (option, given.strip()) if given and given.strip() else (VARIABLE, environ.get(VARIABLE, "").strip())
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
    """What a text is that is no name of a file, without what may be a password in it; ``None`` if it may be one."""
    url = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if url is not None:
        return f"a URL of '{url[1]}'"
    if "://" in text or "\0" in text or _PAIRS.search(text) is not None:
        return "what is no name of a file (it is not shown, because it may hold a password)"
    return None
