"""The JSON Schema of the configuration file, for editors and for `config check` elsewhere.

`python -m mulligan.config_schema > config/schema.json` writes the shipped copy anew; a test holds both equal.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mulligan.config import DURATION_KEYS, SIZE_KEYS, Config, expected
from mulligan.quantities import DURATION_PATTERN, SIZE_PATTERN, show_duration


def schema() -> dict[str, Any]:
    """What a file may hold: msgspec's schema of `Config`, widened to the sizes and durations that a file spells out."""
    whole = msgspec.to_builtins(msgspec.json.schema(Config))
    properties = whole["$defs"]["Config"]["properties"]
    for key, entry in properties.items():
        entry["description"] = expected(key)
        if key in SIZE_KEYS:
            written = {"type": "string", "pattern": SIZE_PATTERN}
            numbers = entry.pop("anyOf", None) or [{name: entry.pop(name) for name in ("type", "minimum", "maximum")}]
            entry["anyOf"] = [*numbers, written]
    duration = {"type": "string", "minLength": 1, "pattern": DURATION_PATTERN}
    for key in DURATION_KEYS:
        properties[key]["anyOf"] = [{"const": "off"}, duration]
        default = getattr(Config(), key)
        properties[key]["default"] = "off" if default is None else show_duration(default)
    autosave = properties["autosave_every"]
    autosave["anyOf"] = [{name: autosave.pop(name) for name in ("type", "minimum", "maximum")}, {"const": False}]
    definition = whole["$defs"]["Config"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **definition, "title": "mulligan config.yaml"}


def schema_text() -> str:
    """The schema as the shipped file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
