"""The acceptance of a cluster: the plan, the run's state by its stages, and the sheet that is signed."""
