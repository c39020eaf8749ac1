"""The description is valid, complete, and true."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from openapi_spec_validator import validate
from tests.unit.web.rig import Served, served

from elea.web import openapi
from elea.web.app import FIXED, KEY_METHODS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies
    import schemathesis
    from schemathesis import checks

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(openapi.describe())


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    with served(query_timeout_ms=1_000) as running:
        yield running


def test_it_is_valid() -> None:
    validate(openapi.describe())


def test_every_path_and_method_is_described() -> None:
    paths: Any = openapi.describe()["paths"]
    described = {
        (path, method.upper())
        for path, item in paths.items()
        for method in item
        if method != "parameters"
    }
    keys = {("/{key}", method) for method in KEY_METHODS if method != "HEAD"}
    assert described == keys | {(path, "GET") for path in FIXED}


def test_it_is_served(web: Served) -> None:
    assert web.http.get("/openapi.json").json() == openapi.describe()


@SCHEMA.parametrize()
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_answers_are_as_described(web: Served, case: Any) -> None:
    """F22: whatever is sent, never an error of ours, and never an answer that is not described."""
    case.call_and_validate(base_url=web.rest.url, checks=CHECKS)
