"""Tests on the Slurm and the Python of another Debian, in a folder of its own: ``tox -e slurm-newer,slurm-newest``.

The folder holds a whole Debian, which debootstrap makes once (some 3 minutes, 1.5 GB) and later runs use again: that of
a release until it is removed, that of ``testing`` for a week. Each run copies this checkout into it, makes a virtual
environment of its Python there, and runs pytest by chroot.

Everything happens in a mount and a process namespace of its own (``unshare``). The kernel ends both with
this program, however it ends: nothing stays mounted, and no daemon runs on.

How this machine reaches packages counts there, too: apt's archive and proxy, pip's configuration with all files that it
names, certificates and name servers.
"""

from __future__ import annotations

import configparser
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import FrameType
from urllib.parse import unquote, urlsplit

#: Debian whose packages change, and have the newest Slurm and Python: 26.05 and 3.14 in November 2026.
TESTING = "testing"
#: Debian 13, with Slurm 24.11 and Python 3.13, and the one above.
RELEASES = ("trixie", TESTING)

#: The client library of MariaDB 11.8.9, which both have by now, ends slurmdbd: this machine's takes its place.
_CLIENT_LIBRARY = "libmariadb.so.3"

PACKAGES = ("ca-certificates", "git", "iproute2", "procps", "python3", "python3-venv")
PACKAGES += ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server")

INSTALL = "apt-get install --no-install-recommends -y debootstrap"

#: Where the folder of each release is, if not in the temporary directory.
FOLDER_VARIABLE = "GSW_NEWER_SLURM_FOLDER"

#: Debian's archive, where apt's sources do not name it.
MIRROR_VARIABLE = "GSW_NEWER_SLURM_MIRROR"

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

#: pip's options that may name files, without their hyphens. Others, such as log and cache-dir, are written.
_READ_BY_PIP = {"cert", "clientcert", "constraint", "extraindexurl", "findlinks", "indexurl"}

#: Files and folders of this machine by which another one is reached: names, addresses, certificates.
_NETWORK = ("/etc/hosts", "/etc/resolv.conf", "/etc/ssl/certs", "/usr/share/ca-certificates")
_NETWORK += ("/usr/local/share/ca-certificates",)


class NewerSlurmError(Exception):
    """The folder cannot be made or used; the message says what to type."""


@dataclass(frozen=True)
class Mount:
    """One thing of this machine, as it is to be seen in the folder.

    Attributes:
        source: A path of this machine, or ``proc`` for the processes of the namespace.
        read_only: Whether the folder sees it as it is but cannot change it.
    """

    source: str
    read_only: bool = True

    @property
    def target(self) -> str:
        """The path within the folder."""
        return f"/{self.source}" if self.source == "proc" else self.source

    def command(self, folder: Path) -> list[str]:
        """The call of mount(8)."""
        target = f"{folder}{self.target}"
        if self.source == "proc":
            return ["mount", "-t", "proc", "proc", target]
        if self.read_only:
            return ["mount", "--bind", "-o", "ro", self.source, target]
        return ["mount", "--rbind", self.source, target]


# -- what this machine has: pure --------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One archive of apt's sources."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def sources_of_lines(text: str) -> list[Source]:
    """The archives of binary packages that a file of apt's one-line format names (sources.list(5))."""
    sources = []
    for line in text.splitlines():
        words = re.sub(r"^(\s*deb\s+)\[[^\]]*\]", r"\1", line.partition("#")[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            sources.append(Source(words[1], (words[2],), tuple(words[3:])))
    return sources


def sources_of_paragraphs(text: str) -> list[Source]:
    """The archives of binary packages that a file of apt's deb822 format names (sources.list(5))."""
    sources = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        fields: dict[str, list[str]] = {}
        key = ""
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            starts = colon and not line[:1].isspace()
            key = name.lower() if starts else key
            fields.setdefault(key, []).extend((value if starts else line).split())
        if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"]) in (["no"], ["false"], ["0"]):
            continue
        suites, components = tuple(fields.get("suites", ())), tuple(fields.get("components", ()))
        sources += [Source(uri, suites, components) for uri in fields.get("uris", ())]
    return sources


def mirror_of(sources: Iterable[Source], codename: str) -> str | None:
    """Debian's archive as this machine reaches it: where the suite of its own release is, the next one's is, too.

    Args:
        sources: All of apt's.
        codename: Of this machine's own Debian. Suites with more behind it, such as its security updates, are elsewhere.
    """
    for source in sources:
        # debootstrap reads no list of mirrors, as mirror+file: is one.
        readable = urlsplit(source.uri).scheme in {"http", "https", "file"}
        if readable and "main" in source.components and {codename, "stable", "oldstable"} & set(source.suites):
            return source.uri
    return None


def proxies_of(dump: str) -> dict[str, str]:
    """The proxies of ``apt-config dump``, as the variables that debootstrap's wget reads."""
    found = re.findall(r'^Acquire::(https?)::Proxy "([^"\n]+)";$', dump, re.MULTILINE | re.IGNORECASE)
    return {f"{scheme.lower()}_proxy": proxy for scheme, proxy in found if proxy.upper() != "DIRECT"}


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What reaches the folder of this process's environment, and what must differ there."""
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    return {"HOME": "/root", "LANG": "C.UTF-8", "PATH": _PATH} | kept | {"GSW_REQUIRE_SLURM": "1"}


def pip_configuration_files(environ: Mapping[str, str]) -> list[str]:
    """Where pip looks for its configuration outside of a virtual environment, whether or not it is there."""
    home = environ.get("HOME", "/root")
    folders = [
        *environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep),
        environ.get("XDG_CONFIG_HOME", f"{home}/.config"),
    ]
    named = environ.get("PIP_CONFIG_FILE", "")
    return [*(f"{folder}/pip/pip.conf" for folder in folders), "/etc/pip.conf", f"{home}/.pip/pip.conf", named]


def paths_of_pip(options: Iterable[tuple[str, str]]) -> list[str]:
    """The paths of this machine that pip reads, of its options: named as such or by ``file:`` addresses.

    Args:
        options: Names as in its configuration or its environment, each with its value.
    """
    paths = []
    for name, value in options:
        option = re.sub(r"^pip_|[-_]", "", name.lower())
        for word in value.split() if option in _READ_BY_PIP else ():
            path = unquote(urlsplit(word).path) if word.startswith("file:") else word
            # The pages of an index, its folder "simple", link to files that may be beside it.
            paths.append(os.path.dirname(path.rstrip("/")) if "index" in option else path)  # noqa: PTH120
    return [path for path in paths if path.startswith("/") and path != "/"]


def mounts_plan(machine_paths: Sequence[str]) -> list[Mount]:
    """What is mounted into the folder, in order: the kernel's own, then paths of this machine, read-only.

    A path below another one comes with it, and so does none that the kernel's own hold.
    """
    chosen: list[str] = []
    for path in sorted({os.path.normpath(path) for path in machine_paths}):
        if not any(path == above or path.startswith(f"{above}/") for above in ("/dev", "/proc", "/sys", *chosen)):
            chosen.append(path)
    kernel = [Mount("proc", read_only=False), Mount("/sys", read_only=False), Mount("/dev", read_only=False)]
    return [*kernel, *map(Mount, chosen)]


def mounted_below(mountinfo: str, folder: Path) -> list[str]:
    """What is mounted at or below a folder, of the text of ``/proc/self/mountinfo`` (proc(5))."""
    points = [line.split()[4] for line in mountinfo.splitlines()]
    return [point for point in points if f"{point}/".startswith(f"{folder}/")]


def stamp(release: str, today: date) -> str:
    """What a folder of this release and these packages says of itself."""
    week = ["{}-W{:02}".format(*today.isocalendar())] if release == TESTING else []
    return " ".join((release, *week, *sorted(PACKAGES))) + "\n"


def missing_requirements() -> str | None:
    """What this machine lacks, and what to type; ``None`` if nothing."""
    missing = [name for name in _BINARIES if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"a newer Slurm needs {', '.join(missing)}: {INSTALL}"
    if os.geteuid() != 0:
        return "a newer Slurm needs root, because chroot and slurmd do: run tox -e slurm-newer,slurm-newest as root"
    return None


# -- what is done ------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def _mirror() -> str:
    named = os.environ.get(MIRROR_VARIABLE)
    if named:
        return named
    codename = re.search(r"^VERSION_CODENAME=(\w+)", _text(Path("/etc/os-release")), re.MULTILINE)
    place = Path("/etc/apt")
    lists = [place / "sources.list", *sorted(place.glob("sources.list.d/*.list"))]
    sources = [source for path in lists for source in sources_of_lines(_text(path))]
    for path in sorted(place.glob("sources.list.d/*.sources")):
        sources += sources_of_paragraphs(_text(path))
    mirror = mirror_of(sources, codename[1] if codename else "stable")
    if mirror is None:
        raise NewerSlurmError(f"apt's sources name no archive of Debian: set {MIRROR_VARIABLE} to the address of one")
    return mirror


def _machine_paths(environ: Mapping[str, str]) -> list[str]:
    """All that names, certificates, pip's configuration and slurmdbd need of this machine, as far as it is there."""
    options = [(name, value) for name, value in environ.items() if name.startswith("PIP_")]
    configurations = [path for path in pip_configuration_files(environ) if path and Path(path).is_file()]
    for path in configurations:
        parser = configparser.RawConfigParser()
        parser.read(path)
        options += [option for section in parser.sections() for option in parser.items(section)]
    certificates = [environ[name] for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE") if name in environ]
    libraries = map(str, Path("/usr/lib").glob(f"*/{_CLIENT_LIBRARY}"))
    found = [*_NETWORK, *configurations, *certificates, *paths_of_pip(options), *libraries]
    return [path for path in found if Path(path).exists() and Path(path) != Path(os.devnull)]


def _run(*command: str, environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise NewerSlurmError(f"exit code {done.returncode}: {shlex.join(command[:6])} …")


def _make(folder: Path, release: str) -> None:
    """Make the folder, unless it is there whole: it bears its name only once it is."""
    if _text(folder / STAMP) == stamp(release, date.today()):  # noqa: DTZ011 - any clock's week will do
        print(f"newer Slurm: {folder} is used again", flush=True)
        return
    print(f"newer Slurm: makes {folder} by debootstrap, some minutes", flush=True)
    half = folder.with_name(f"{folder.name}.half")
    for old in (folder, half):
        mounted = mounted_below(_text(Path("/proc/self/mountinfo")), old)
        if mounted:
            raise NewerSlurmError(f"{mounted[-1]} is mounted, and removing {old} would empty it: umount it first")
        if old.exists():
            shutil.rmtree(old)
    half.parent.mkdir(parents=True, exist_ok=True)
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    environ = proxies_of(dump.stdout) | dict(os.environ) | {"PATH": _PATH}
    _run(
        "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", release, str(half), _mirror(),
        environ=environ,
    )  # fmt: skip
    (half / STAMP).write_text(stamp(release, date.today()))  # noqa: DTZ011
    half.rename(folder)


def _mount(folder: Path, plan: Iterable[Mount]) -> None:
    for mount in plan:
        target = Path(f"{folder}{mount.target}")
        if mount.source == "proc" or Path(mount.source).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_symlink():  # as of a resolver that does not run there
                target.unlink()
            target.touch()
        _run(*mount.command(folder))


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


def _test(folder: Path, release: str, arguments: Sequence[str]) -> int:
    """Run the tests within the namespaces, and return pytest's exit status."""
    with _alone(folder):
        _make(folder, release)
        environ = kept_environment(os.environ)
        _mount(folder, mounts_plan(_machine_paths(os.environ)))
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

        child = subprocess.Popen([*inside, python, "-m", "pytest", *arguments], env=environ)
        signal.signal(signal.SIGTERM, hand_on)
        status = _wait_as_init(child)
    print(f"newer Slurm: what the tests have left is in {folder}/tmp until the next run", flush=True)
    return status


def main(arguments: list[str]) -> int:
    """Enter the namespaces, or, being in them, run the tests.

    Args:
        arguments: The release, and the arguments of pytest.
    """
    is_inside = arguments[:1] == [_INSIDE]
    release, *others = arguments[is_inside:] or [""]
    if release not in RELEASES:
        print(f"newer Slurm: name a release: {' or '.join(RELEASES)}", file=sys.stderr)
        return 2
    problem = missing_requirements()
    if problem is not None:
        print(f"newer Slurm: {problem}", file=sys.stderr)
        return 2
    folders = Path(os.environ.get(FOLDER_VARIABLE) or Path(tempfile.gettempdir(), "gsw-newer-slurm")).resolve()
    if not is_inside:
        # This process becomes unshare, so that there is none above the namespaces that could be killed alone.
        unshare = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.chdir(_ROOT)
        os.environ[FOLDER_VARIABLE] = str(folders)
        os.execvp("unshare", [*unshare, sys.executable, "-m", "tests.slurm.newer", _INSIDE, *arguments])  # noqa: S606
    try:
        return _test(folders / release, release, others)
    except KeyboardInterrupt:
        return 130
    except NewerSlurmError as error:
        print(f"newer Slurm: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
