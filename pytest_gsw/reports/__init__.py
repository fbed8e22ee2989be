"""The report of a run: its value, its pages, and texts for CI."""
