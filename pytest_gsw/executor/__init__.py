"""The executor: runs the jobs of all selected rows at once."""
