"""rpc.discover: the protocol described by itself."""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan import __version__
from mulligan.control import framing
from mulligan.control.handlers.daemon import NoParams
from mulligan.control.methods import METHODS, method
from mulligan.control.result_schemas import component_schemas, object_schema, result_schema
from mulligan.control.services import Call
from mulligan.control.subscription import SubscribeParams

#: What any method may answer instead of a result.
_ERRORS = {
    "InvalidParams": (framing.INVALID_PARAMS, "parameters that are unknown, missing, or of another type"),
    "Internal": (framing.INTERNAL_ERROR, "a fault of the daemon; its log says more"),
    "Refused": (framing.APPLICATION_ERROR, "an expected refusal: data.code says which, data.hint the next step"),
}


@method("rpc.discover", NoParams)
def discover(_call: Call, _params: NoParams) -> dict[str, Any]:
    """An OpenRPC document of all methods with the JSON Schemas of their parameters and results."""
    structs = {name: found.params for name, found in METHODS.items()} | {"events.subscribe": SubscribeParams}
    structs = dict(sorted(structs.items()))
    schemas, components = msgspec.json.schema_components(
        list(structs.values()), ref_template="#/components/schemas/{name}"
    )
    methods = []
    for (name, struct), schema in zip(structs.items(), schemas, strict=True):
        described = components[schema["$ref"].rpartition("/")[2]]
        properties = described.get("properties", {})
        required = {field.encode_name for field in msgspec.structs.fields(struct) if field.required}
        summary = METHODS[name].summary if name in METHODS else "Events as notifications on this connection."
        methods.append({
            "name": name,
            "summary": summary,
            "description": described.get("description", summary),
            "paramStructure": "by-name",
            "params": [
                {"name": key, "required": key in required, "schema": properties[key]}
                for key in sorted(properties, key=lambda key: key not in required)
            ],
            "result": {"name": "result", "schema": result_schema(name)},
            "errors": [{"$ref": f"#/components/errors/{error}"} for error in _ERRORS],
        })  # fmt: skip
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "mulligan control protocol",
            "version": __version__,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "methods": methods,
        "components": {
            "schemas": components | component_schemas() | {"ErrorData": _ERROR_DATA},
            "errors": {
                name: {"code": code, "message": message, "data": {"$ref": "#/components/schemas/ErrorData"}}
                for name, (code, message) in _ERRORS.items()
            },
        },
    }


_ERROR_DATA = object_schema("code:text hint:text exit_status:int")
