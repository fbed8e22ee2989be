"""tests/slurm on the Slurm of Debian's next release, in a folder of its own: ``tox -e slurm-newer``.

The folder holds a whole Debian, which debootstrap makes once (some 3 minutes, 1.5 GB) and later runs use again. Each run
copies this checkout into it, makes a virtual environment of its Python there, and runs pytest by chroot.

Everything happens in a mount and a process namespace of its own (``unshare``). The kernel ends both with
this program, however it ends: nothing stays mounted, and no daemon runs on.

How this machine reaches packages counts there, too: proxies, pip's configuration, certificates and name servers;
``GSW_NEWER_SLURM_MIRROR`` names another archive than Debian's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

#: Debian 13: Slurm 24.11 and Python 3.13.
RELEASE = "trixie"

PACKAGES = ("ca-certificates", "git", "iproute2", "procps", "python3", "python3-venv")
PACKAGES += ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server")

INSTALL = "apt-get install --no-install-recommends -y debootstrap"

#: Where the folder is, if not in the temporary directory.
FOLDER_VARIABLE = "GSW_NEWER_SLURM_FOLDER"

#: Debian's archive as this machine reaches it.
MIRROR_VARIABLE = "GSW_NEWER_SLURM_MIRROR"
MIRROR = "http://deb.debian.org/debian"

#: What the folder was made of. It is written last but for the folder's own name.
STAMP = "etc/gsw-newer-slurm"

CHECKOUT = "srv/pytest-gsw"
ENVIRONMENT = "srv/venv"

#: The first argument of this program once it is in its namespaces.
_INSIDE = "--inside-namespaces"

_ROOT = Path(__file__).resolve().parents[2]

_BINARIES = ("debootstrap", "unshare", "mount", "chroot", "git")

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: The environment that reaches the folder, by whole names: how packages are reached, and how output looks.
_KEPT = re.compile(
    r"PIP_\w+|GSW_\w+|(?:https?|no|all|ftp)_proxy|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|CI|HOME|TERM|COLUMNS|NO_COLOR|FORCE_COLOR|PYTEST_ADDOPTS",
    re.IGNORECASE,
)

#: Files and folders of this machine by which another one is reached, seen in the folder and read-only there.
_READ = ("/etc/hosts", "/etc/resolv.conf", "/etc/ssl/certs", "/usr/share/ca-certificates")
_READ += ("/usr/local/share/ca-certificates", "/etc/pip.conf", "~/.config/pip", "~/.pip")
#: Variables that name more of them.
_NAMED = ("PIP_CONFIG_FILE", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


class NewerSlurmError(Exception):
    """The folder cannot be made or used; the message says what to type."""


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What reaches the folder of this process's environment, and what must differ there."""
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    return {"HOME": "/root", "LANG": "C.UTF-8", "PATH": _PATH} | kept | {"GSW_REQUIRE_SLURM": "1"}


def stamp() -> str:
    """What a folder of this release and these packages says of itself."""
    return " ".join((RELEASE, *sorted(PACKAGES))) + "\n"


def missing_requirements() -> str | None:
    """What this machine lacks, and what to type; ``None`` if nothing."""
    missing = [name for name in _BINARIES if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"a newer Slurm needs {', '.join(missing)}: {INSTALL}"
    if os.geteuid() != 0:
        return "a newer Slurm needs root, because chroot and slurmd do: run tox -e slurm-newer as root"
    return None


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def _machine_paths() -> list[str]:
    """What names, certificates and pip's configuration need of this machine, as far as it is there."""
    named = [os.path.expanduser(path) for path in (*_READ, *(os.environ.get(name, "") for name in _NAMED))]  # noqa: PTH111
    return [path for path in named if path not in {"", os.devnull} and Path(path).exists()]


def _run(*command: str, environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise NewerSlurmError(f"exit code {done.returncode}: {shlex.join(command[:6])} …")


def _make(folder: Path) -> None:
    """Make the folder, unless it is there whole: it bears its name only once it is."""
    if _text(folder / STAMP) == stamp():
        print(f"newer Slurm: {folder} is used again", flush=True)
        return
    print(f"newer Slurm: makes {folder} by debootstrap, some minutes", flush=True)
    half = folder.with_name(f"{folder.name}.half")
    for old in (folder, half):
        mounts = [line.split()[4] for line in _text(Path("/proc/self/mountinfo")).splitlines()]
        mounted = [point for point in mounts if f"{point}/".startswith(f"{old}/")]
        if mounted:
            raise NewerSlurmError(f"{mounted[-1]} is mounted, and removing {old} would empty it: umount it first")
        if old.exists():
            shutil.rmtree(old)
    half.parent.mkdir(parents=True, exist_ok=True)
    mirror = os.environ.get(MIRROR_VARIABLE) or MIRROR
    _run(
        *("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE, str(half), mirror),
        environ=dict(os.environ) | {"PATH": _PATH},
    )
    (half / STAMP).write_text(stamp())
    half.rename(folder)


def _mount(folder: Path) -> None:
    (folder / "proc").mkdir(exist_ok=True)
    _run("mount", "-t", "proc", "proc", f"{folder}/proc")
    for path in ("/sys", "/dev"):
        _run("mount", "--rbind", path, f"{folder}{path}")
    for path in _machine_paths():
        target = Path(f"{folder}{path}")
        if Path(path).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # as the link of a resolver that does not run there
            target.touch()
        _run("mount", "--bind", "-o", "ro", path, str(target))


def _copy_checkout(folder: Path) -> None:
    """Copy what git tracks, as it is in the work tree: what was never added does not count."""
    listed = subprocess.run(["git", "-C", str(_ROOT), "ls-files", "-z"], capture_output=True, check=True)
    shutil.rmtree(folder / CHECKOUT, ignore_errors=True)
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (_ROOT / name).is_file():
            target = folder / CHECKOUT / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, target)


def _empty(directory: Path) -> None:
    """Remove what the last run's tests have left for whoever looked for the cause of a failure."""
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _wait_as_init(child: subprocess.Popen[bytes]) -> int:
    """The exit status of pytest. This is process 1 of its namespace: it also buries what daemons leave to it."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            pid, status = os.wait()
            if pid == child.pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second run out of the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another run uses {folder}: wait for it, or set {FOLDER_VARIABLE} to another place"
            raise NewerSlurmError(message) from None
        yield


def _test(folder: Path, arguments: Sequence[str]) -> int:
    """Run the tests within the namespaces, and return pytest's exit status."""
    with _alone(folder):
        _make(folder)
        environ = kept_environment(os.environ)
        _mount(folder)
        _empty(folder / "tmp")
        _copy_checkout(folder)
        Path(f"{folder}{environ['HOME']}").mkdir(parents=True, exist_ok=True)
        inside = ["chroot", str(folder), "env", "-C", f"/{CHECKOUT}"]
        python = f"/{ENVIRONMENT}/bin/python"
        _run(*inside, "python3", "-m", "venv", "--clear", f"/{ENVIRONMENT}", environ=environ)
        _run(*inside, python, "-m", "pip", "install", "-qq", ".[test]", environ=environ)
        _run(*inside, "slurmctld", "-V", environ=environ)
        _run(*inside, python, "-VV", environ=environ)

        def hand_on(number: int, frame: FrameType | None) -> None:
            child.send_signal(number)

        child = subprocess.Popen([*inside, python, "-m", "pytest", "tests/slurm", *arguments], env=environ)
        signal.signal(signal.SIGTERM, hand_on)
        status = _wait_as_init(child)
    print(f"newer Slurm: what the tests have left is in {folder}/tmp until the next run", flush=True)
    return status


def main(arguments: list[str]) -> int:
    """Enter the namespaces, or, being in them, run the tests.

    Args:
        arguments: Further ones of pytest.
    """
    problem = missing_requirements()
    if problem is not None:
        print(f"newer Slurm: {problem}", file=sys.stderr)
        return 2
    folder = Path(os.environ.get(FOLDER_VARIABLE) or Path(tempfile.gettempdir(), "gsw-newer-slurm")).resolve()
    if arguments[:1] != [_INSIDE]:
        # This process becomes unshare, so that there is none above the namespaces that could be killed alone.
        unshare = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.chdir(_ROOT)
        os.environ[FOLDER_VARIABLE] = str(folder)
        os.execvp("unshare", [*unshare, sys.executable, "-m", "tests.slurm.newer", _INSIDE, *arguments])  # noqa: S606
    try:
        return _test(folder, arguments[1:])
    except KeyboardInterrupt:
        return 130
    except NewerSlurmError as error:
        print(f"newer Slurm: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
