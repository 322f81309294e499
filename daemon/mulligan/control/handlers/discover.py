"""rpc.discover: the protocol described by itself."""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan import __version__
from mulligan.control.handlers.daemon import NoParams
from mulligan.control.methods import METHODS, method
from mulligan.control.services import Call
from mulligan.control.subscription import SubscribeParams


@method("rpc.discover", NoParams)
def discover(_call: Call, _params: NoParams) -> dict[str, Any]:
    """An OpenRPC document of all methods with the JSON Schemas of their parameters."""
    structs = {name: found.params for name, found in sorted(METHODS.items())} | {"events.subscribe": SubscribeParams}
    schemas, components = msgspec.json.schema_components(
        list(structs.values()), ref_template="#/components/schemas/{name}"
    )
    methods = []
    for (name, struct), schema in zip(structs.items(), schemas, strict=True):
        properties = components[schema["$ref"].rpartition("/")[2]].get("properties", {})
        required = {field.name for field in msgspec.structs.fields(struct) if field.required}
        summary = METHODS[name].summary if name in METHODS else "Events as notifications on this connection."
        methods.append({
            "name": name,
            "summary": summary,
            "paramStructure": "by-name",
            "params": [
                {"name": key, "required": key in required, "schema": value} for key, value in properties.items()
            ],
            "result": {"name": "result", "schema": {"type": "object"}},
        })  # fmt: skip
    return {
        "openrpc": "1.3.2",
        "info": {"title": "mulligan control protocol", "version": __version__},
        "methods": methods,
        "components": {"schemas": components},
    }
