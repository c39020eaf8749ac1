"""The description of the interface, OpenAPI 3.1, as plain data."""

from __future__ import annotations

from typing import Final

from elea import version
from elea.json5 import Json
from elea.web.problems import CONTENT_TYPE

_SAMPLE: Final[Json] = {
    "type": "object",
    "required": ["key", "value", "encoding", "timestamp"],
    "additionalProperties": False,
    "properties": {
        "key": {"type": "string", "description": "the key, or ERROR for an error reply"},
        "value": {
            "description": "null if empty; JSON or text if the encoding says so; else base64"
        },
        "encoding": {"type": "string", "examples": ["text/plain"]},
        "timestamp": {"type": ["string", "null"], "examples": ["7386690599959157260/33"]},
    },
}
_PROBLEM: Final[Json] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_REFUSALS: Final[dict[str, str]] = {
    "400": "The key or the selector is not legal.",
    "401": "The token is missing or wrong.",
    "403": "A page of another origin asks, or access rules deny it.",
    "404": "The path is empty.",
    "405": "The method is not one of these, or a GET would write.",
    "408": "The body did not come in time.",
    "413": "The body is too long.",
    "421": "The name in Host is not known.",
    "503": "There are too many subscriptions, or the router ends.",
    "504": "It took too long.",
}
_BODY: Final[Json] = {
    "description": "A payload; its content type becomes the encoding.",
    "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
}
_QUERY: Final[list[Json]] = [
    {
        "name": "_raw",
        "in": "query",
        "allowEmptyValue": True,
        "description": "answer with the octets of the first reply",
        "schema": {"type": "string", "enum": ["", "true"]},
    },
    {
        "name": "_timeout",
        "in": "query",
        "description": "seconds to wait for replies; at most what is configured",
        "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    },
]
_TOKEN: Final[list[Json]] = [{}, {"token": []}]


def describe() -> dict[str, Json]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Elea REST",
            "version": version.VERSION,
            "description": "The Zenoh data space over HTTP, shaped as by Eclipse Zenoh.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": {
            "/health": {"get": _fixed("health", "Whether the process answers", _json_object())},
            "/ready": {"get": _fixed("ready", "Whether requests can be served", _json_object())},
            "/metrics": {"get": _fixed("metrics", "What was counted, for Prometheus", _text())},
            "/openapi.json": {"get": _fixed("describe", "This description", _json_object())},
            "/{key}": {
                "parameters": [
                    {
                        "name": "key",
                        "in": "path",
                        "required": True,
                        "description": "a key expression, with `/` in it; @/local is this node",
                        "schema": {"type": "string", "minLength": 1, "maxLength": 1_024},
                        "example": "demo/a",
                    }
                ],
                "get": _ask("ask", "Ask for values, or subscribe", None),
                "post": _ask("ask_with", "Ask with a payload, or subscribe", _BODY),
                "put": _publish("put", "Publish a value", _BODY),
                "patch": _publish("patch", "Publish a value, as PUT does", _BODY),
                "delete": _publish("delete", "Publish a delete", None),
            },
        },
        "components": {
            "schemas": {"Sample": _SAMPLE, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _fixed(name: str, summary: str, content: Json) -> Json:
    responses: dict[str, Json] = {"200": {"description": summary, "content": content}}
    return {"operationId": name, "summary": summary, "responses": {**responses, **_refusals()}}


def _ask(name: str, summary: str, body: Json) -> Json:
    samples: Json = {"type": "array", "items": {"$ref": "#/components/schemas/Sample"}}
    octets: Json = {"schema": {"type": "string", "format": "binary"}}
    answered: Json = {
        "description": "The replies; with Accept: text/event-stream samples as they come.",
        "content": {
            "application/json": {"schema": samples},
            "text/event-stream": {"schema": {"type": "string"}},
            "text/html": {"schema": {"type": "string"}},
            "*/*": octets,
        },
    }
    made: dict[str, Json] = {
        "operationId": name,
        "summary": summary,
        "parameters": _QUERY,
        "security": _TOKEN,
        "responses": {"200": answered, **_refusals()},
    }
    return made if body is None else {**made, "requestBody": body}


def _publish(name: str, summary: str, body: Json) -> Json:
    made: dict[str, Json] = {
        "operationId": name,
        "summary": summary,
        "security": _TOKEN,
        "responses": {"200": {"description": "It was sent."}, **_refusals()},
    }
    return made if body is None else {**made, "requestBody": body}


def _refusals() -> dict[str, Json]:
    content: Json = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": content} for status, text in _REFUSALS.items()}


def _json_object() -> Json:
    return {"application/json": {"schema": {"type": "object"}}}


def _text() -> Json:
    plain: Json = {"schema": {"type": "string"}}
    return {"text/plain": plain, "application/openmetrics-text": plain}
