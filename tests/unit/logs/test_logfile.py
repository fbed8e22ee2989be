from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gsw.logs import logfile
from pytest_gsw.logs.logfile import LogFile, opened
from pytest_gsw.logs.scan import matching_records

if TYPE_CHECKING:
    from pathlib import Path

#: A log that is read at once, and one that is not.
NOISE = pytest.mark.parametrize("noise", [b"", b"noise\n" * 200_000], ids=["small", "large"])


@pytest.fixture
def path(tmp_path: Path, noise: bytes) -> Path:
    log = tmp_path / "run.log"
    log.write_bytes(b"mark 1\n" + noise + b"mark 2\n")
    assert (log.stat().st_size > logfile._AT_ONCE_BYTES) is bool(noise)
    return log


def marks(log: Path | LogFile) -> list[bytes]:
    return [record for _, record in matching_records(log, (b"mark",))]


@NOISE
def test_what_is_appended_is_not_of_the_log_that_was_opened(path: Path) -> None:
    with LogFile(path) as log:
        with path.open("ab") as file:
            file.write(b"mark 3\n")
        assert marks(log) == [b"mark 1", b"mark 2"]
        assert log.read(log.size - 4, 100) == b"k 2\n"
        assert log.read(log.size + 1, 100) == b""
    assert marks(path) == [b"mark 1", b"mark 2", b"mark 3"]


@NOISE
def test_two_looks_at_one_log_do_not_disturb_each_other(path: Path) -> None:
    with LogFile(path) as log:
        looks = [matching_records(log, (b"mark",)) for _ in range(2)]
        assert [[next(look)[1] for look in looks] for _ in range(2)] == [[b"mark 1"] * 2, [b"mark 2"] * 2]


@NOISE
def test_a_log_is_open_until_all_are_done_with_it(path: Path) -> None:
    with LogFile(path) as log:
        with opened(log) as same:
            assert same is log
        assert marks(log) == [b"mark 1", b"mark 2"]
    with pytest.raises(ValueError, match="closed"):
        log.read(0, 1)
