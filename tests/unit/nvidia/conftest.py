"""A log of a run that went well."""

from __future__ import annotations

from tests.unit.validation.conftest import log

__all__ = ["log"]
