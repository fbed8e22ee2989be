"""Deterministic budgets: Python function calls and imported modules, which no slow machine changes.

``python -m tests.budget`` prints today's figures beside the budgets; ``--write`` makes today's the budgets.
"""
