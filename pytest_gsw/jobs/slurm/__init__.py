"""Slurm as a launcher: commands, answers, conclusions."""
