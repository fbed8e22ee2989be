"""What a release is made of, built and tried, and published nowhere: ``tox -e release``.

    python -m tests.release [FOLDER]     # the sdist and the wheel stay in FOLDER, by default dist

The sdist is built of this checkout, and the wheel of the sdist, so that a file that one of them lacks is noticed. The
wheel is installed in an empty environment. There the README's first command runs, and the unit tests of the sdist,
without the package's source beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The tests of the source itself: its imports, its public names, its strings.
OF_THE_SOURCE = ("tests/unit/test_architecture.py", "tests/unit/test_public.py", "tests/unit/test_errors.py")
#: One parameter set of each test is enough: what can be wrong here is a file that is missing.
ENVIRONMENT = {"NO_COLOR": "1", "GSW_TESTS": "one-of-each"}


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, as nobody's virtual environment, and end where it fails."""
    print("+", *command, flush=True)
    foreign = ("VIRTUAL_ENV", "PYTHON", "PYTEST_", "GSW_", "COV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    ended = subprocess.run([str(one) for one in command], cwd=cwd, env=environ | ENVIRONMENT, check=False)
    if ended.returncode:
        raise SystemExit(f"release: {command[0]} ended with {ended.returncode}")


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel, with metadata that a package index takes."""
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def try_out(sdist: Path, wheel: Path, scratch: Path) -> None:
    """Install the wheel in an empty environment, and use it there."""
    venv = scratch / "venv"
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    empty = scratch / "empty"
    empty.mkdir()
    run(python, "-m", "pip", "install", "--quiet", wheel)
    run(venv / "bin" / "pytest", "--gsw-cluster=demo", "-k", "llama2_70b_fp8", cwd=empty)
    run(venv / "bin" / "pytest-gsw", "rows", "-h", cwd=empty)
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[test]")
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    source = scratch / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(source / "pytest_gsw")
    without = [f"--ignore={name}" for name in OF_THE_SOURCE]
    run(venv / "bin" / "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *without, "tests/unit", cwd=source)


def main() -> int:
    """Build, check, try; the files stay."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    sdist, wheel = build(folder)
    with tempfile.TemporaryDirectory() as scratch:
        try_out(sdist, wheel, Path(scratch))
    print(f"release: {sdist.name} and {wheel.name} in {folder} are ready; nothing was published")
    return 0


if __name__ == "__main__":
    sys.exit(main())
