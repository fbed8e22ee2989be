"""Files in places where others may write, too."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pytest_gsw.common.files import open_own, read_bounded, write_whole


def opened(path: Path) -> bytes:
    """What a file holds when it was opened and written to."""
    descriptor = open_own(path, os.O_RDWR)
    try:
        os.write(descriptor, b"mine")
    finally:
        os.close(descriptor)
    return path.read_bytes()


def test_a_new_file_and_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert opened(path) == b"mine"
    path.chmod(0o666)
    path.write_text("it is ")
    assert opened(path) == b"mines "  # nothing is truncated before it is known whose it is
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("target", ["victim", "missing"])
def test_a_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "file").symlink_to(tmp_path / target)
    with pytest.raises(PermissionError, match="it is a symbolic link"):
        opened(tmp_path / "file")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "missing").exists()


def test_a_second_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "file").hardlink_to(tmp_path / "victim")
    with pytest.raises(PermissionError, match="it is no file of your own"):
        opened(tmp_path / "file")
    assert (tmp_path / "victim").read_text() == "precious"


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is no file of your own"):
        opened(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        opened(tmp_path / "directory")


def test_a_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("theirs")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError, match="it is no file of your own"):
        opened(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "theirs"


def test_a_link_in_the_place_of_a_whole_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    write_whole(tmp_path / "file", "new")
    assert ((tmp_path / "file").read_text(), (tmp_path / "victim").read_text()) == ("new", "precious")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "victim"]


def test_a_file_that_cannot_be_replaced_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "file" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory") as raised:
        write_whole(tmp_path / "file", "new")
    assert raised.value.filename == str(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_error_of_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_whole(tmp_path / "file", "new")
    assert raised.value.filename == str(tmp_path / "file")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/null", "pipe", "directory", "nowhere", "large"])
def test_what_is_no_bounded_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind.lstrip("/")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "large":
        path.write_bytes(b"12345")
    with pytest.raises(OSError, match=r"regular file|Is a directory|No such file|larger than 4 bytes"):
        read_bounded(Path(kind) if kind.startswith("/") else path, 4)


def test_a_file_of_the_greatest_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    assert read_bounded(tmp_path / "file", 4) == b"1234"
