"""Clusters from clusters.yaml, this machine, and the demo, as one type."""
