"""NVIDIA's recipes: their launchers, files next to a log, and the suite of the certification.

No other module imports this package. It uses the hooks of docs/hooks.md only, as a site can.
"""
