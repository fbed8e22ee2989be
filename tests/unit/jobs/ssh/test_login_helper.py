"""The program for a login node: its requests, in this process and as the program of each Python that is here."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from pytest_gsw.jobs.ssh import login_helper
from pytest_gsw.jobs.ssh.login_helper import Helper, RefusedError

_MARKER = "0123"
_ME = {"session": "a", "host": "here"}
_OTHER = {"session": "b", "host": "there"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stage" / ".gsw" / "run"


@pytest.fixture
def helper(folder: Path) -> Helper:
    """A helper whose session owns the run."""
    helper = Helper()
    helper.own_run(str(folder), _ME, takes_over=False)
    return helper


# -- As a program -------------------------------------------------------------------------------------


def _pythons() -> list[str]:
    """The oldest Pythons that a login node may have, on the PATH or of pyenv, and this one."""
    names = [f"python3.{minor}" for minor in range(6, 10)]
    known = {path.name: str(path) for path in Path.home().glob(".pyenv/versions/3.*/bin/python3.[6-9]")}
    return [known.get(name, name) for name in names] + [sys.executable]


class Program:
    """The program as a session runs it."""

    def __init__(self, python: str) -> None:
        source = Path(login_helper.__file__).read_bytes()
        start = (
            "import sys; r = sys.stdin.buffer; exec(compile(r.read(int(r.readline())), 'x', 'exec')); main(sys.argv[1])"
        )
        self._process = subprocess.Popen(
            [python, "-c", start, _MARKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout
        self._in.write(b"%d\n" % len(source) + source)

    def send(self, number: int, *calls: tuple[str, dict[str, Any]]) -> None:
        text = json.dumps({"id": number, "calls": calls}).encode()
        self._in.write(b"%d\n" % len(text) + text)
        self._in.flush()

    def answer(self) -> tuple[dict[str, Any], bytes]:
        assert self._out.readline() == b"\n"
        marker, text_bytes, blob_bytes = self._out.readline().split()
        assert marker == _MARKER.encode()
        content = json.loads(self._out.read(int(text_bytes)))
        return content, self._out.read(int(blob_bytes))

    def ask(self, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], bytes]:
        self.send(1, *calls)
        content, blob = self.answer()
        return content["results"], blob

    def close_input(self) -> None:
        self._in.close()

    def end(self) -> bytes:
        """Close its input; wait for its end; return its errors."""
        self._in.close()
        assert self._process.stderr is not None
        if self._process.stderr.closed:
            return b""
        with self._out, self._process.stderr as stream:
            errors = stream.read()
        self._process.wait(60)
        return errors


@pytest.fixture(params=_pythons(), ids=lambda python: Path(python).name)
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param}")
    program = Program(request.param)
    yield program
    program.end()


def test_each_request_by_the_program(program: Program, tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "log-7.out"
    log.write_bytes(b"step 1\n")
    command = [sys.executable, "-c", "import os; print('job', 17, os.environ.get('A'), os.environ.get('B'))"]
    (hello,), _ = program.ask(("hello", {}))
    assert tuple(hello["is"]["python"]) >= (3, 6)
    assert hello["is"]["user_id"] == os.getuid()
    assert hello["is"]["variables"]["PATH"]
    (owned, owner), _ = program.ask(
        ("own_run", {"folder": str(folder), "owner": _ME, "takes_over": False}), ("owner_of", {"folder": str(folder)})
    )
    assert (owned["is"], owner["is"]) == ({"before": None, "age_s": None}, _ME)
    (ran,), _ = program.ask(
        ("run", {"command": command, "changes": {"A": "x", "B": None}, "given": None, "timeout_s": 60})
    )
    assert ran["is"]["out"].split() == ["job", "17", "x", "None"]
    (submitted, state), _ = program.ask(("submit", submission(tmp_path, command)), ("state_of", {"key": "row.1"}))
    assert (submitted["is"]["state"], state["is"]) == ("taken", submitted["is"])
    (read, kept), blob = program.ask(
        ("read", {"wanted": [wanted(tmp_path, "7", "log-7.out")], "copies": {}}),
        ("keep", {"files": {"session/journal.jsonl": [0, "line é\n"]}}),
    )
    assert (read["is"]["jobs"], blob) == ([[str(log)]], b"step 1\n")
    assert kept["is"] == {}
    (files, places, found, failed), _ = program.ask(
        ("kept", {"folder": str(folder)}),
        ("writable", {"places": [str(tmp_path / "new")]}),
        ("programs", {"names": ["bash", "none"], "path": os.environ["PATH"]}),
        ("keep", {"files": {"session/journal.jsonl": [100, "x"]}}),
    )
    assert files["is"] == {"files": {"journal.jsonl": "line é\n"}}
    assert places["is"][str(tmp_path / "new")]["is_writable"]
    assert found["is"] == {"bash": shutil.which("bash"), "none": None}
    assert "failed" in failed
    (surveyed, released), blob = program.ask(
        ("survey", {"directories": [str(folder / "session")], "files": [str(tmp_path / "none")]}), ("release", {})
    )
    assert surveyed["is"]["entries"][str(folder / "session" / "journal.jsonl")]["kind"] == "file"
    assert blob == "line é\n".encode()
    assert "is" in released
    assert program.end() == b""


def test_a_slow_request_delays_no_other(program: Program, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = {"changes": {}, "given": None, "timeout_s": 60}
    program.send(1, ("run", {"command": ["cat", str(gate)], **run}))
    program.send(2, ("run", {"command": ["cat"], **run, "given": "quick"}))
    content, _ = program.answer()
    assert (content["id"], content["results"][0]["is"]["out"]) == (2, "quick")
    gate.write_text("slow")
    content, _ = program.answer()
    assert (content["id"], content["results"][0]["is"]["out"]) == (1, "slow")


def test_a_submission_is_finished_without_its_session(program: Program, tmp_path: Path) -> None:
    gate, folder = tmp_path / "gate", tmp_path / "run"
    os.mkfifo(gate)
    program.ask(("own_run", {"folder": str(folder), "owner": _ME, "takes_over": False}))
    program.send(2, ("submit", submission(tmp_path, ["cat", str(gate)])))
    program.close_input()
    gate.write_text("17\n")  # once its reader is there
    program.end()
    assert json.loads((folder / "keys" / "row.1").read_text().splitlines()[-1])["out"] == "17\n"


def test_the_time_of_a_command_counts_without_its_session(program: Program, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = ["bash", "-c", f"echo $$ >{gate}; exec sleep 600"]
    program.send(1, ("run", {"command": command, "changes": {}, "given": None, "timeout_s": 1}))
    process = int(gate.read_text())
    assert program.end() == b""
    assert not Path(f"/proc/{process}").exists()


# -- Submissions --------------------------------------------------------------------------------------


def submission(directory: Path, command: list[str], **changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "key": "row.1",
        "is_alone": False,
        "command": command,
        "changes": {},
        "directory": str(directory),
        "searches": [["echo", "other"], ["echo", "other"]],
        "search_changes": {},
        "name": "row-name",
        "places": [],
        "makes": [],
        "timeout_s": 60.0,
        "settle_s": 0.0,
    }
    return arguments | changes


@pytest.fixture
def sbatch(tmp_path: Path) -> Callable[..., list[str]]:
    """A command that counts its calls, and then does something."""

    def make(body: str) -> list[str]:
        return ["bash", "-c", f"echo >>{tmp_path}/calls; {body}"]

    return make


def calls(tmp_path: Path) -> int:
    return len((tmp_path / "calls").read_text().splitlines()) if (tmp_path / "calls").exists() else 0


Sbatch = Callable[..., list[str]]


def test_a_key_that_was_taken_has_the_same_answer(helper: Helper, sbatch: Sbatch, tmp_path: Path) -> None:
    first = helper.submit(**submission(tmp_path, sbatch("echo 17")))
    assert (first["state"], first["code"], first["out"]) == ("taken", 0, "17\n")
    assert helper.submit(**submission(tmp_path, sbatch("echo 18"))) == first
    assert helper.state_of("row.1") == first
    assert calls(tmp_path) == 1
    # Another attempt is another key.
    assert helper.submit(**submission(tmp_path, sbatch("echo 18"), key="row.2"))["out"] == "18\n"


def test_a_key_that_was_refused_is_submitted_again(helper: Helper, sbatch: Sbatch, tmp_path: Path) -> None:
    assert helper.submit(**submission(tmp_path, sbatch("echo no >&2; exit 1")))["state"] == "refused"
    assert helper.submit(**submission(tmp_path, sbatch("echo 17")))["state"] == "taken"
    assert calls(tmp_path) == 2


@pytest.mark.parametrize(
    ("searches", "settle_s", "again"),
    [
        pytest.param([["echo", "other"], ["true"]], 0.0, True, id="no job"),
        pytest.param([["echo", "other"], ["true"]], 600.0, False, id="too early"),
        pytest.param([["echo", "7|row-name"], ["true"]], 0.0, False, id="in the queue"),
        pytest.param([["true"], ["echo", "7|row-name"]], 0.0, False, id="in accounting"),
        pytest.param([["false"], ["true"]], 0.0, False, id="no queue"),
        pytest.param([["true"], ["false"]], 0.0, False, id="no accounting"),
        pytest.param([["false"], ["false"]], 0.0, False, id="neither"),
        pytest.param([["true"], ["no-such-program"]], 0.0, False, id="no program"),
    ],
)
def test_a_key_without_an_answer(
    helper: Helper, sbatch: Sbatch, tmp_path: Path, searches: list[list[str]], settle_s: float, again: bool
) -> None:
    silent = helper.submit(**submission(tmp_path, sbatch("kill -KILL $$")))
    assert silent["state"] == "unknown"
    more = submission(tmp_path, sbatch("echo 17"), searches=searches, settle_s=settle_s)
    assert helper.submit(**more)["state"] == ("taken" if again else "unknown")
    assert calls(tmp_path) == (2 if again else 1)


def test_a_command_that_is_too_slow_is_ended_with_its_children(helper: Helper, sbatch: Sbatch, tmp_path: Path) -> None:
    answer = helper.submit(**submission(tmp_path, sbatch("sleep 600 & wait"), timeout_s=0.3))
    assert (answer["state"], answer["timed_out"], answer["code"]) == ("unknown", True, 124)


def test_output_of_a_process_that_left_the_command_is_not_awaited(
    helper: Helper, sbatch: Sbatch, tmp_path: Path
) -> None:
    body = f"setsid sleep 600 & echo $! >{tmp_path}/pid; sleep 600"
    try:
        answer = helper.submit(**submission(tmp_path, sbatch(body), timeout_s=0.5))
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)
    assert answer["state"] == "unknown"


def test_a_program_that_is_missing(helper: Helper, tmp_path: Path) -> None:
    answer = helper.submit(**submission(tmp_path, ["no-such-sbatch"]))
    assert (answer["state"], answer["code"]) == ("refused", 127)
    assert "no-such-sbatch" in answer["err"]
    answer = helper.submit(**submission(tmp_path / "none", ["true"]))
    assert str(tmp_path / "none") in answer["err"]


def test_another_owner_refuses_a_submission(helper: Helper, folder: Path, sbatch: Sbatch, tmp_path: Path) -> None:
    taken = helper.submit(**submission(tmp_path, sbatch("echo 17"), key="row.0"))
    Helper().own_run(str(folder), _OTHER, takes_over=True)
    with pytest.raises(RefusedError):
        helper.submit(**submission(tmp_path, sbatch("echo 18")))
    assert calls(tmp_path) == 1
    assert helper.state_of("row.1") == {"state": "none"}
    assert helper.submit(**submission(tmp_path, sbatch("echo 18"), key="row.0")) == taken


def test_owners_of_a_run(folder: Path) -> None:
    first, second = Helper(), Helper()
    assert first.owner_of(str(folder)) is None
    assert first.own_run(str(folder), _ME, takes_over=False)["before"] is None
    answer = second.own_run(str(folder), _OTHER, takes_over=False)
    assert answer["before"] == _ME
    assert 0 <= answer["age_s"] < 600
    assert second.owner_of(str(folder)) == _ME
    assert second.own_run(str(folder), _OTHER, takes_over=True)["before"] == _ME
    assert first.owner_of(str(folder)) == _OTHER
    first.release()  # of another session's run: nothing
    assert first.own_run(str(folder), _ME, takes_over=False)["age_s"] < 600
    second.release()
    assert first.own_run(str(folder), _ME, takes_over=False)["age_s"] > 1e6


def test_a_session_that_lives_shows_it(helper: Helper, folder: Path) -> None:
    os.utime(folder / "owner.json", (1, 1))
    helper.sign()
    assert (folder / "owner.json").stat().st_mtime > 1
    os.utime(folder / "owner.json", (1, 1))
    helper.sign()  # not at each request
    assert (folder / "owner.json").stat().st_mtime == 1


def test_a_key_whose_sbatch_has_not_ended(helper: Helper, sbatch: Sbatch, folder: Path, tmp_path: Path) -> None:
    """The lock is held by the sbatch of a helper that was killed."""
    lock = os.open(folder / "keys" / "row.1.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    orphan = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock,))
    os.close(lock)
    try:
        assert helper.state_of("row.1") == {"state": "running"}
        with pytest.raises(RefusedError, match="busy"):
            helper.submit(**submission(tmp_path, sbatch("echo 17"), timeout_s=0.1))
        assert calls(tmp_path) == 0
    finally:
        orphan.communicate()
    assert helper.state_of("row.1") == {"state": "none"}
    assert helper.submit(**submission(tmp_path, sbatch("echo 17")))["state"] == "taken"


def test_submissions_of_one_key_at_once(helper: Helper, sbatch: Sbatch, tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = []
    arguments = submission(tmp_path, sbatch("echo $RANDOM"))
    threads = [threading.Thread(target=lambda: answers.append(helper.submit(**arguments))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls(tmp_path) == 1
    assert answers == [answers[0]] * 8


def test_logs_that_were_there_before(helper: Helper, sbatch: Sbatch, tmp_path: Path) -> None:
    for name in ("log-17.out", "log-170.out", "log-8.out"):
        (tmp_path / name).write_text("old")
    changes = {"places": [f"{tmp_path}/*"], "makes": [f"{tmp_path}/logs/deep"]}
    before = helper.submit(**submission(tmp_path, sbatch("echo 17"), **changes))["before"]
    old = (tmp_path / "log-17.out").stat()
    assert {facts["path"]: facts["inode"] for facts in before}[str(tmp_path / "log-17.out")] == old.st_ino
    assert str(tmp_path / "log-8.out") not in {facts["path"] for facts in before}
    assert (tmp_path / "logs" / "deep").is_dir()


# -- Files --------------------------------------------------------------------------------------------


def wanted(home: Path, job_id: str, *names: str) -> dict[str, Any]:
    beside = ["configs/*.yaml", "../vboost.err"]
    return {"home": str(home), "globs": [f"{home}/{name}" for name in names], "job_id": job_id, "beside": beside}


def copy_of(path: Path) -> tuple[int, int, int]:
    content = path.read_bytes()
    return path.stat().st_ino, len(content), zlib.crc32(content[-login_helper.TAIL_BYTES :])


def read(helper: Helper, path: Path, copy: tuple[int, int, int] | None = None) -> tuple[int, bytes]:
    """The offset and the bytes of a file."""
    copies = {} if copy is None else {str(path): copy}
    result, blob = helper.read([wanted(path.parent, "7", path.name)], copies)
    facts = result["files"][str(path)]
    assert facts["length"] == len(blob)
    assert facts["size"] == path.stat().st_size
    return facts["offset"], blob


def test_a_file_that_was_appended_to(helper: Helper, tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_bytes(b"a" * 10_000)
    copy = copy_of(log)
    assert read(helper, log, copy) == (10_000, b"")
    with log.open("ab") as file:
        file.write(b"b" * 5)
    assert read(helper, log, copy) == (10_000, b"bbbbb")


@pytest.mark.parametrize("content", [b"", b"a" * 9_999, b"a" * 9_999 + b"b" * 10, b"b" * 20_000])
def test_a_file_that_was_written_anew_in_place(helper: Helper, tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "log.out"
    log.write_bytes(b"a" * 10_000)
    copy = copy_of(log)
    log.write_bytes(content)
    assert log.stat().st_ino == copy[0]
    assert read(helper, log, copy) == (0, content)


def test_a_file_that_was_replaced(helper: Helper, tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_bytes(b"a" * 100)
    copy = copy_of(log)
    (tmp_path / "new").write_bytes(b"a" * 100 + b"b")
    (tmp_path / "new").replace(log)
    assert read(helper, log, copy) == (0, b"a" * 100 + b"b")


def test_files_larger_than_an_answer(helper: Helper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_helper, "MOST_BYTES", 100)
    for name in ("a-7.out", "b-7.out"):
        (tmp_path / name).write_bytes(name.encode() * 20)
    result, blob = helper.read([wanted(tmp_path, "7", "*.out")], {})
    assert len(blob) == 100
    facts = result["files"]
    assert [facts[str(tmp_path / name)]["length"] for name in ("a-7.out", "b-7.out")] == [100, 0]
    assert {one["size"] for one in facts.values()} == {140}


def test_links_that_lead_out(helper: Helper, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_text("secret")
    (home / "out-7.log").symlink_to(tmp_path / "secret")
    (home / "in-7.log").symlink_to(home / "real")
    (home / "real").write_text("log")
    (home / "pipe-7.log").unlink(missing_ok=True)
    os.mkfifo(home / "pipe-7.log")
    (home / "gone-7.log").symlink_to(home / "nothing")
    result, blob = helper.read([wanted(home, "7", "*.log")], {})
    assert (list(result["files"]), blob) == ([str(home / "in-7.log")], b"log")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all files")
def test_a_file_that_cannot_be_read(helper: Helper, tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text("x")
    log.chmod(0)
    result, blob = helper.read([wanted(tmp_path, "7", "log.out")], {})
    assert result["files"][str(log)]["problem"]
    assert blob == b""


def test_a_file_that_fails_while_it_is_read(helper: Helper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two files, one cannot be opened: the bytes of the other one stay its own."""
    for name in ("a.out", "b.out"):
        (tmp_path / name).write_text(name)

    def open_but_a(path: Any, *arguments: Any) -> Any:
        if str(path).endswith("a.out"):
            raise PermissionError(13, "Permission denied")
        return open(path, *arguments)  # noqa: PTH123

    monkeypatch.setattr(login_helper, "open", open_but_a, raising=False)
    result, blob = helper.read([wanted(tmp_path, "7", "*.out")], {})
    assert result["files"][str(tmp_path / "a.out")]["problem"] == "Permission denied"
    assert blob == b"b.out"


def test_a_directory_that_cannot_be_listed(helper: Helper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of one job is in a directory that may be entered but not listed: all logs are read."""
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.out").write_text(name)
    listdir = os.listdir

    def list_open(path: str) -> list[str]:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(login_helper.os, "listdir", list_open)
    jobs = [wanted(tmp_path, "7", "closed/log.out"), wanted(tmp_path, "8", "open/log.out")]
    result, blob = helper.read(jobs, {})
    assert len(result["files"]) == 2
    assert blob == b"closedopen"


def test_several_jobs_in_one_directory(helper: Helper, tmp_path: Path) -> None:
    names = ["log_7.out", "log_7.err", "log_17.out", "log_17.err", "rank0-7.txt", "x71.txt", "7-of-17.txt"]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("a")
    result, _ = helper.read([wanted(tmp_path, "7", "log_7.out"), wanted(tmp_path, "17", "log_17.out")], {})
    first, second = [{os.path.relpath(path, tmp_path) for path in paths} for paths in result["jobs"]]
    assert first == {"log_7.out", "log_7.err", "rank0-7.txt", "7-of-17.txt", "configs/a.yaml"}
    assert second == {"log_17.out", "log_17.err", "7-of-17.txt", "configs/a.yaml"}


# -- The run's own files, recipes, and the node's programs --------------------------------------------


def test_files_are_kept(helper: Helper, folder: Path) -> None:
    helper.keep({"session/journal.jsonl": (0, "one\n"), "session/records/a.json": (0, "{}")})
    helper.keep({"session/journal.jsonl": (4, "two\n")})
    assert helper.kept(str(folder)) == {"files": {"journal.jsonl": "one\ntwo\n", "records/a.json": "{}"}}
    helper.keep({"session/journal.jsonl": (4, "three\n")})  # what was lost is sent again
    assert helper.kept(str(folder))["files"]["journal.jsonl"] == "one\nthree\n"
    with pytest.raises(ValueError, match="bytes"):
        helper.keep({"session/journal.jsonl": (400, "x")})
    assert helper.kept(str(folder))["files"]["journal.jsonl"] == "one\nthree\n"
    assert Helper().kept(str(folder / "none")) == {"files": {}}


def test_a_recipe_that_is_sent_can_run(helper: Helper, folder: Path) -> None:
    helper.keep({"recipes/1/tiny/launch.sh": (0, "#!/bin/sh\n./other.sh"), "recipes/1/tiny/other.sh": (0, "#!/bin/sh")})
    assert subprocess.run(["./launch.sh"], cwd=folder / "recipes/1/tiny", check=False).returncode == 0


def test_a_survey(helper: Helper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_helper, "SMALL_BYTES", 10)
    recipe = tmp_path / "recipe"
    (recipe / "more").mkdir(parents=True)
    for name, text in {"launch.sh": "launch", ".hidden": "x", "large": "x" * 11, "other": "é"}.items():
        (recipe / name).write_text(text)
    (recipe / "launch.sh").chmod(0o700)
    result, blob = helper.survey([str(recipe), str(tmp_path / "none")], [str(tmp_path / "gone"), str(recipe / "other")])
    entries = {os.path.relpath(path, tmp_path): entry for path, entry in result["entries"].items()}
    assert entries["recipe"] == {"kind": "directory"}
    assert entries["recipe/more"] == {"kind": "directory"}
    assert entries["none"]["kind"] == "none"
    assert entries["recipe/launch.sh"] == {"kind": "file", "is_runnable": True, "length": 6}
    assert entries["recipe/large"]["length"] == 0
    assert not {"gone", "recipe/.hidden"} & entries.keys()
    assert blob == "élaunch".encode()


def test_places_that_can_be_written_to(helper: Helper, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    places = [str(tmp_path / name) for name in (".", "new/deep", "file/below")]
    answer = helper.writable(places)
    here, new, below = (answer[place] for place in places)
    assert here["is_writable"]
    assert new["is_writable"]
    assert new["there"] == str(tmp_path)
    assert new["free_bytes"] > 0
    assert (below["is_directory"], below["is_writable"]) == (False, False)


def test_an_answer_that_was_written_in_part_leaves_its_key_begun(helper: Helper, folder: Path, tmp_path: Path) -> None:
    assert helper.submit(**submission(tmp_path, ["echo", "17"]))["state"] == "taken"
    key = folder / "keys" / "row.1"
    key.write_bytes(key.read_bytes()[:-3])
    assert helper.state_of("row.1")["state"] == "unknown"
    key.write_bytes(b"")
    assert helper.state_of("row.1")["state"] == "unknown"
    key.unlink()
    key.mkdir()
    with pytest.raises(OSError, match="directory"):
        helper.state_of("row.1")


def test_output_just_before_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the process sees it ended, with all that it has printed since the last look at its output."""

    class Slow(subprocess.Popen):  # type: ignore[type-arg]
        def poll(self) -> int | None:
            self.wait()
            return super().poll()

    monkeypatch.setattr(login_helper.subprocess, "Popen", Slow)
    monkeypatch.setattr(login_helper, "_LOOK_S", 0.01)
    answer = Helper().run(["bash", "-c", "sleep 0.2; echo 17; echo no >&2"], {}, None, 60.0)
    assert (answer["code"], answer["out"], answer["err"]) == (0, "17\n", "no\n")
