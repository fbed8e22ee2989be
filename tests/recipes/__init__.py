"""The published recipes as they are, on a real Slurm; only what cannot be here is a stand-in."""
