"""A real Slurm on this machine to try things on: ``python -m tests.slurm [NODES]`` opens a shell in which it is there."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from .cluster import SlurmCluster, missing_requirements


def main() -> int:
    """Start the cluster, open a shell, and end the cluster with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.slurm", description="Open a shell with a Slurm of its own.")
    parser.add_argument("nodes", nargs="?", type=int, default=4, help="how many, of 8 GPUs each (default: %(default)s)")
    nodes = parser.parse_args().nodes
    problem = missing_requirements()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    print(f"starting a Slurm of {nodes} nodes ...", flush=True)
    with SlurmCluster(nodes) as cluster:
        print("sbatch, squeue and the others work until this shell ends: exit", flush=True)
        return subprocess.call([os.environ.get("SHELL", "/bin/bash")], env=cluster.environ)


if __name__ == "__main__":
    sys.exit(main())
