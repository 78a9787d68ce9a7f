"""What the server says of itself: a page for people, and OpenAPI for tools."""

from __future__ import annotations

import json
from typing import Any

from ..export._signature import shape_text
from ..version import __version__
from ._bodies import JSON, NPZ, SAFETENSORS, packed_inputs
from ._model import Model

__all__ = ["front_page", "openapi"]

#: a request with more numbers is shown as a file
MANY = 64


def front_page(model: Model, name: str, url: str) -> str:
    """What the model takes and gives, and a request that works."""
    takes = "\n".join(f"  {one}" for one in model.inputs)
    gives = "\n".join(f"  {one}" for one in model.program.outputs)
    ranges = ", ".join(
        f"{size} from {r.lower}" + ("" if r.upper is None else f" to {r.upper}")
        for size, r in model.program.range_constraints.items()
    )
    together = (
        f"{model.batch} counts rows; up to {model.sizes[-1]} of several requests are computed together"
        if model.batch
        else f"each request is computed by itself, because {model.why_alone}"
    )
    return f"""\
{name}, served by functorch_port {__version__}

takes
{takes or "  nothing"}
gives
{gives}
sizes
  {ranges or "all are fixed"}
  {together}

an example
{_example(model, url)}

bodies: {JSON}, {NPZ} (numpy.savez) and {SAFETENSORS}; the answer has the type of the request.
In JSON an array may also be {{"base64": "...", "shape": [...]}}: its bytes in C order, little-endian. Numbers that JSON
does not have are the texts "NaN", "Infinity" and "-Infinity".
pages: POST /predict; GET /health, /ready, /metrics, /openapi.json
"""


def _example(model: Model, url: str) -> str:
    arrays = dict(zip((one.name for one in model.inputs), model.example(), strict=True))
    plain = all(array.dtype.kind in "biuf" for array in arrays.values())
    if plain and sum(array.size for array in arrays.values()) <= MANY:
        text = packed_inputs(arrays)
        return f"  curl -gs {url}/predict -H 'Content-Type: {JSON}' -d '{text}'"
    zeros = ", ".join(
        f"{name}=np.zeros({tuple(array.shape)}, {str(array.dtype)!r})" for name, array in arrays.items()
    )
    return f"""\
  python -c "import numpy as np; np.savez('request.npz', {zeros})"
  curl -gs {url}/predict -H 'Content-Type: {NPZ}' --data-binary @request.npz -o answer.npz
  python -c "import numpy as np; print(dict(np.load('answer.npz')))\""""


def openapi(model: Model, name: str) -> dict[str, Any]:
    """A description of ``/predict`` for tools.

    Reference: https://spec.openapis.org/oas/v3.1.0
    """
    takes = {one.name: _schema(one) for one in model.inputs}
    gives = {one.name: _schema(one) for one in model.program.outputs}
    error = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "field": {"type": ["string", "null"]}},
    }
    told = {
        "400": "the body cannot be read", "413": "the body is too large", "415": "the Content-Type is not known",
        "422": "the program is not for these inputs", "503": "not ready, or too many requests wait",
        "504": "no answer in time",
    }  # fmt: skip
    files = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (NPZ, SAFETENSORS)}
    body = {
        "schema": {"type": "object", "properties": takes, "required": [*takes], "additionalProperties": False}
    }
    answer = {"schema": {"type": "object", "properties": gives}}
    answers: dict[str, Any] = {
        code: {"description": text, "content": {JSON: {"schema": error}}} for code, text in told.items()
    }
    answers["200"] = {"description": "the outputs by name", "content": {JSON: answer, **files}}
    predict = {"requestBody": {"required": True, "content": {JSON: body, **files}}, "responses": answers}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": __version__},
        "paths": {"/predict": {"post": predict}},
    }


def _schema(one: Any) -> dict[str, Any]:
    if one.dtype is None:
        return {"const": json.loads(json.dumps(one.value))}
    kinds = {"b": "boolean", "i": "integer", "u": "integer"}
    schema: dict[str, Any] = {"type": kinds.get(one.dtype[0], "number")}
    for size in reversed(one.shape):
        schema = {"type": "array", "items": schema}
        if isinstance(size, int):
            schema |= {"minItems": size, "maxItems": size}
    return {**schema, "description": f"{one.dtype}{shape_text(one.shape)}"}
