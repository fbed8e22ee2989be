"""What `tox -e slurm-newer` concludes from this machine's configuration; what it makes of that needs root and minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm import newer
from tests.slurm.newer import Mount, Source

LINES = """\
# deb http://archive.example/commented bookworm main
deb-src http://archive.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/some.gpg] https://packages.example/apt tool-bookworm main  # a tool
deb cdrom:[Debian_12]/ bookworm main

deb http://archive.example/debian-security bookworm-security main
deb [ trusted=yes ] http://archive.example/debian bookworm main contrib
"""

PARAGRAPHS = """\
# Modernized from /etc/apt/sources.list
Types: deb deb-src
URIs: mirror+file:///etc/apt/mirrors/debian.list
Suites: bookworm
Components: main

Types: deb-src
URIs: http://archive.example/sources
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://archive.example/disabled
Suites: bookworm
Components: main
 \t
types: deb
URIs: http://archive.example/debian
  https://other.example/debian
# between two lines of one field
Suites: bookworm
 bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 Suites: trap
 -----END PGP PUBLIC KEY BLOCK-----
"""


def test_apts_sources_in_lines() -> None:
    assert newer.sources_of_lines(LINES) == [
        Source("https://packages.example/apt", ("tool-bookworm",), ("main",)),
        Source("cdrom:[Debian_12]/", ("bookworm",), ("main",)),
        Source("http://archive.example/debian-security", ("bookworm-security",), ("main",)),
        Source("http://archive.example/debian", ("bookworm",), ("main", "contrib")),
    ]
    assert newer.mirror_of(newer.sources_of_lines(LINES), "bookworm") == "http://archive.example/debian"


def test_apts_sources_in_paragraphs() -> None:
    suites = ("bookworm", "bookworm-updates")
    assert newer.sources_of_paragraphs(PARAGRAPHS) == [
        Source("mirror+file:///etc/apt/mirrors/debian.list", ("bookworm",), ("main",)),
        Source("http://archive.example/debian", suites, ("main",)),
        Source("https://other.example/debian", suites, ("main",)),
    ]
    assert newer.mirror_of(newer.sources_of_paragraphs(PARAGRAPHS), "bookworm") == "http://archive.example/debian"


@pytest.mark.parametrize(
    "source",
    [
        Source("http://archive.example/ubuntu", ("noble",), ("main",)),
        Source("http://archive.example/debian-security", ("bookworm-security",), ("main",)),
        Source("http://archive.example/debian", ("bookworm",), ("contrib",)),
        Source("http://archive.example/flat", ("./",), ()),
    ],
)
def test_what_is_no_archive_of_debians_next_release(source: Source) -> None:
    assert newer.mirror_of([source], "bookworm") is None


def test_apts_proxies() -> None:
    dump = (
        'Acquire::http::Proxy "http://proxy.example:3142";\n'
        'Acquire::http::Proxy::archive.example "DIRECT";\n'
        'Acquire::https::Proxy "DIRECT";\n'
        'APT::Architecture "amd64";\n'
    )
    assert newer.proxies_of(dump) == {"http_proxy": "http://proxy.example:3142"}


def test_what_reaches_the_folder_of_the_environment() -> None:
    machine = {
        "HOME": "/home/ci",
        "PATH": "/opt/python/bin",
        "PIP_INDEX_URL": "https://index.example/simple",
        "https_proxy": "http://proxy.example",
        "VIRTUAL_ENV": "/opt/python",
        "PYTHONPATH": "/opt/python/lib",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "TMPDIR": "/scratch",
        "MY_TOKEN": "secret",
        "GSW_REQUIRE_SLURM": "0",
    }
    assert newer.kept_environment(machine) == {
        "HOME": "/home/ci",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PIP_INDEX_URL": "https://index.example/simple",
        "https_proxy": "http://proxy.example",
        "GSW_REQUIRE_SLURM": "1",
    }


def test_where_pips_configuration_is() -> None:
    assert newer.pip_configuration_files({"HOME": "/home/ci", "PIP_CONFIG_FILE": "/ci/pip.conf"}) == [
        "/etc/xdg/pip/pip.conf",
        "/home/ci/.config/pip/pip.conf",
        "/etc/pip.conf",
        "/home/ci/.pip/pip.conf",
        "/ci/pip.conf",
    ]


def test_what_pips_options_name() -> None:
    options = [
        ("extra-index-url", "https://index.example/simple\nfile:///opt/an%20index/simple/"),
        ("PIP_FIND_LINKS", "/opt/wheels  https://wheels.example"),
        ("client_cert", "/etc/ci/client.pem"),
        ("log", "/var/log/pip.log"),
        ("PIP_CACHE_DIR", "/var/cache/pip"),
    ]
    assert newer.paths_of_pip(options) == ["/opt/an index", "/opt/wheels", "/etc/ci/client.pem"]


def test_what_is_mounted() -> None:
    paths = ["/opt/wheels/simple", "/opt/wheels", "/etc/hosts", "/opt/wheels-more", "/dev/shm/ca.pem", "/etc/hosts"]
    plan = newer.mounts_plan(paths)
    assert [mount.command(Path("/folder")) for mount in plan] == [
        ["mount", "-t", "proc", "proc", "/folder/proc"],
        ["mount", "--rbind", "/sys", "/folder/sys"],
        ["mount", "--rbind", "/dev", "/folder/dev"],
        ["mount", "--bind", "-o", "ro", "/etc/hosts", "/folder/etc/hosts"],
        ["mount", "--bind", "-o", "ro", "/opt/wheels", "/folder/opt/wheels"],
        ["mount", "--bind", "-o", "ro", "/opt/wheels-more", "/folder/opt/wheels-more"],
    ]
    assert plan[-1] == Mount("/opt/wheels-more")


def test_what_is_mounted_below_a_folder_that_is_to_be_removed() -> None:
    mountinfo = (
        "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "30 22 0:6 / /tmp/debian/dev rw - devtmpfs devtmpfs rw\n"
        "31 22 0:6 / /tmp/debian.half/dev rw - devtmpfs devtmpfs rw\n"
    )
    assert newer.mounted_below(mountinfo, Path("/tmp/debian")) == ["/tmp/debian/dev"]
    assert newer.mounted_below(mountinfo, Path("/tmp/deb")) == []


def test_what_is_missing_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer, "_BINARIES", ("sh", "no-such-tool"))
    install = "apt-get install --no-install-recommends -y debootstrap"
    assert newer.missing_requirements() == f"a newer Slurm needs no-such-tool: {install}"
    monkeypatch.setattr(newer, "_BINARIES", ("sh",))
    monkeypatch.setattr(newer.os, "geteuid", lambda: 1000)
    assert newer.missing_requirements() == (
        "a newer Slurm needs root, because chroot and slurmd do: run tox -e slurm-newer as root"
    )
    monkeypatch.setattr(newer.os, "geteuid", lambda: 0)
    assert newer.missing_requirements() is None
