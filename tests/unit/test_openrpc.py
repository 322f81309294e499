"""`rpc.discover` is an OpenRPC document by the meta-schema of its authors, and its schemas are JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from mulligan.control.handlers.discover import discover
from mulligan.control.methods import METHODS
from mulligan.control.result_schemas import OBJECTS, RESULTS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "openrpc"
META = json.loads((FIXTURES / "meta-schema.json").read_text(encoding="utf-8"))
JSON_SCHEMA = json.loads((FIXTURES / "json-schema.json").read_text(encoding="utf-8"))
#: The meta-schema speaks of the other one by its address, with and without a slash.
KNOWN = {"https://meta.json-schema.tools": JSON_SCHEMA, "https://meta.json-schema.tools/": JSON_SCHEMA}
REGISTRY: Registry[Any] = Registry().with_resources(
    (address, Resource(contents=contents, specification=DRAFT7)) for address, contents in KNOWN.items()
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found = discover(None, None)  # type: ignore[arg-type]
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(found))
    return decoded


def faults(document: dict[str, Any]) -> list[str]:
    """What the meta-schema has against a document."""
    return [
        f"{error.json_path}: {error.message}"
        for error in Draft7Validator(META, registry=REGISTRY).iter_errors(document)
    ]


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    assert faults(document) == []


@pytest.mark.parametrize("harm", ["name", "schema", "key", "version", "error"])
def test_a_document_that_is_not_is_found_out(document: dict[str, Any], harm: str) -> None:
    harmed = deepcopy(document)
    method = next(one for one in harmed["methods"] if one["params"])
    if harm == "name":
        del method["name"]
    elif harm == "schema":
        method["params"][0]["schema"] = {"type": "nothing of this kind"}
    elif harm == "key":
        method["parameters"] = []
    elif harm == "version":
        harmed["openrpc"] = "0.1"
    else:
        harmed["components"]["errors"]["Internal"]["code"] = "none"
    assert faults(harmed)


def test_every_method_is_in_it_with_its_parameters_and_its_result(document: dict[str, Any]) -> None:
    methods = {one["name"]: one for one in document["methods"]}
    assert set(methods) == {*METHODS, "events.subscribe"} and len(methods) == len(document["methods"])
    for name, method in methods.items():
        assert method["summary"].endswith(".") and method["description"]
        properties = method["result"]["schema"]["properties"]
        assert set(properties) - {"version", "exit_status"}, f"{name}: nothing is said of its result in RESULTS"
        required = [one["required"] for one in method["params"]]
        assert required == sorted(required, reverse=True)
    for name, found in METHODS.items():
        fields = {field.encode_name: field.required for field in msgspec.structs.fields(found.params)}
        assert {one["name"]: one["required"] for one in methods[name]["params"]} == fields


def schemas(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema of parameters, results and components."""
    for method in document["methods"]:
        yield from (one["schema"] for one in method["params"])
        yield method["result"]["schema"]
    yield from document["components"]["schemas"].values()


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a value."""
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_its_schemas_are_schemas_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for schema in schemas(document):
        Draft202012Validator.check_schema(schema)
    for reference in set(references(document)):
        place: Any = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
        assert isinstance(place, dict), reference


def test_no_object_and_no_method_is_described_for_nobody() -> None:
    used = " ".join([*OBJECTS.values(), *RESULTS.values()])
    assert {name for name in OBJECTS if f":{name}" not in used and f"[{name}]" not in used} == set()
    # what other commands bring with them is described before they are there
    assert set(RESULTS) - {*METHODS, "events.subscribe"} <= {"hook.deliver", "state.migrate", "state.handoff"}
