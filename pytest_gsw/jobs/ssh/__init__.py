"""A Slurm cluster whose login node is another machine, reached by OpenSSH's own client."""
