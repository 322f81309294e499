"""The shipped JSON Schema says what the loader does."""

from __future__ import annotations

import json
import re

import pytest

from mulligan import resources
from mulligan.config import Config
from mulligan.config_schema import schema, schema_text
from mulligan.quantities import DURATION_PATTERN, SIZE_PATTERN


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = resources.read(resources.CONFIG_SCHEMA)
    assert shipped == schema_text(), "write it anew: python -m mulligan.config_schema > config/schema.json"


def test_it_names_every_key_and_no_other() -> None:
    found = schema()
    assert set(found["properties"]) == set(Config.__struct_fields__)
    assert found["additionalProperties"] is False
    assert all(entry["description"] for entry in found["properties"].values())


@pytest.mark.parametrize("key", ["budget_bytes", "max_file_bytes", "max_project_bytes"])
def test_sizes_may_be_numbers_or_text(key: str) -> None:
    kinds = {choice["type"] for choice in schema()["properties"][key]["anyOf"]}
    assert {"integer", "string"} <= kinds


def test_the_interval_is_text_and_off_by_default() -> None:
    interval = schema()["properties"]["interval"]
    assert interval["default"] == "off"
    assert "integer" not in json.dumps(interval)


def test_the_patterns_are_those_of_the_reader() -> None:
    assert re.search(SIZE_PATTERN, "512 MiB")
    assert not re.search(SIZE_PATTERN, "512")
    assert re.search(DURATION_PATTERN, "1h30m")
    assert not re.search(DURATION_PATTERN, "30m1h")
