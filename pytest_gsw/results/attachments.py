"""Files of a row as Jenkins' junit-attachments plugin finds them: lines in a test case's standard output."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.common.redact import printable
from pytest_gsw.results.record import Record, record_name


def attachment_lines(record: Record, directory: Path, page: Path | None = None) -> list[str]:
    """A line for each file of a row that there is: what its job wrote, its record, and its page in a report.

    The plugin wants an absolute path that Jenkins' agent can read, nothing beside it on its line, and takes the last
    lines for sure: it cuts long outputs in the middle. ``directory`` is the run's.
    """
    log = None if record.run.log is None else Path(record.run.log)
    outputs = (Path(output) for output in record.run.outputs)
    files = (log, *outputs, directory / "records" / record_name(record.row.node_id), page)
    found = (file.absolute() for file in files if file is not None and _is_file(file))
    # A path with a line end in it would be two lines, and the second anything.
    return [f"[[ATTACHMENT|{path}]]" for path in found if printable(str(path)) == str(path) and "\n" not in str(path)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
