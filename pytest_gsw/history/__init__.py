"""The history of runs: every record, and the series of points of rows by cluster and definition.

A history is a SQLite file or a PostgreSQL database. This package prints nothing and does not import pytest.
"""
