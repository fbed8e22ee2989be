"""YAML tables of documented rows become :class:`~pytest_gsw.tables.model.Baseline` values."""
