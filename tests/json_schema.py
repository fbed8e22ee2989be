"""JSON Schemas of the YAML files, for editors; made from the same fields that the loader checks.

``python -m tests.json_schema`` writes them anew; a test holds that they are up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest_gsw.tables
from pytest_gsw import clusters
from pytest_gsw.tables.schema import ACCEPTED_FILE_FIELDS, FILE_FIELDS
from pytest_gsw.tables.value_types import Field, Fields, Nested, Sequence_

#: Texts that YAML reads as another type are texts to the loader all the same.
_SCALAR = {"type": ["string", "number", "boolean"]}


def baseline_schema() -> dict[str, Any]:
    """The schema of a file of baselines."""
    return _top("pytest-gsw baseline table", _object(FILE_FIELDS))


def accepted_schema() -> dict[str, Any]:
    """The schema of a file of accepted figures."""
    return _top("pytest-gsw accepted figures", _object(ACCEPTED_FILE_FIELDS))


def clusters_schema() -> dict[str, Any]:
    """The schema of ``clusters.yaml``."""
    return _top("pytest-gsw clusters", _object(clusters.FILE_FIELDS))


def schema_files() -> dict[Path, str]:
    """Each schema's file in the package and what it holds."""
    here = Path(pytest_gsw.tables.__file__).parent
    schemas = {"baseline": baseline_schema(), "accepted": accepted_schema(), "clusters": clusters_schema()}
    return {here / f"{name}.schema.json": json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


def _top(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


def _object(fields: Fields) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: {**_schema(field), "description": field.help} for key, field in fields.items()},
        "additionalProperties": False,
    }
    required = [key for key, field in fields.items() if field.required]
    return {**schema, "required": required} if required else schema


def _schema(field: Field | Nested | Sequence_) -> dict[str, Any]:
    if isinstance(field, Field):
        return dict(field.schema)
    if isinstance(field, Nested):
        if field.fields is None:
            each = field.each
            under = _SCALAR if each is None else _schema(each) if isinstance(each, Sequence_) else _object(each)
            return {"type": "object", "patternProperties": {f"^{field.names}$": under}, "additionalProperties": False}
        return (
            _object(field.fields) if field.short is None else {"anyOf": [_schema(field.short), _object(field.fields)]}
        )
    if isinstance(field.item, (Field, Nested)):
        items = _schema(field.item)
    else:
        items = _SCALAR if field.item is None else _object(field.item)
    return {"type": "array", "items": items, **({"minItems": 1} if field.required else {})}


if __name__ == "__main__":
    for path, text in schema_files().items():
        path.write_text(text)
