"""Jobs: what is submitted, in which state it is, and the launchers slurm, local and replay."""
