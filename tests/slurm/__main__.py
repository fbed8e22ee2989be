"""A real Slurm on this machine to try things on: ``python -m tests.slurm [NODES]`` opens a shell in which it is there."""

from __future__ import annotations

import os
import subprocess
import sys

from .cluster import SlurmCluster, missing_requirements


def main() -> int:
    """Start the cluster, open a shell, and end the cluster with it."""
    problem = missing_requirements()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    with SlurmCluster(int(sys.argv[1]) if len(sys.argv) > 1 else 4) as cluster:
        print(cluster.run("sinfo", "-o", "%P %D nodes %T, %G"), end="")
        print("Slurm runs until this shell ends: exit")
        return subprocess.call([os.environ.get("SHELL", "/bin/bash")], env=cluster.environ)


if __name__ == "__main__":
    sys.exit(main())
