"""Seeded regressions and broken logs, all of which must come out right."""
