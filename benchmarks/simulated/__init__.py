"""Simulated clusters: how their jobs differ, what changes, and how rules decide; see ``benchmarks/decisions.py``."""
