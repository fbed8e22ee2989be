"""Checks of an ended run before it is judged."""
