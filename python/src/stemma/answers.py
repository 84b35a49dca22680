"""Checks what a server answers against the schemas of the API, before anything is read from it."""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import Any

from stemma.errors import StemmaError

Schema = dict[str, Any]
MAX_DEPTH = 64


def parse_json(text: bytes, whose: str) -> Any:
    """Read JSON of somebody else: bounded in depth, without NaN, and with an error that says whose it is."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _not_stemma(f"{whose} answered with something that is not JSON") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def check_answer(operation: str, value: Any, whose: str) -> Any:
    """Give the value back where it has the form that the operation's answer has."""
    schemas = _schemas()
    schema = schemas["answers"].get(operation)
    problem = None if schema is None else _problem(schema, value, "the answer", MAX_DEPTH)
    if problem is not None:
        raise _not_stemma(f"{whose} gave an answer that this version cannot use ({operation}): {problem}")
    return value


def _not_stemma(text: str) -> StemmaError:
    return StemmaError("SERVER_UNREACHABLE", f"{text}. Check that a Stemma server of this version listens there.")


@functools.cache
def _schemas() -> dict[str, dict[str, Schema]]:
    text = resources.files("stemma.generated").joinpath("schemas.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def _problem(schema: Schema, value: Any, where: str, depth: int) -> str | None:
    """Say in words what does not fit, or None."""
    if depth == 0:
        return f"{where[:200]} is nested too deeply"
    if "$ref" in schema:
        return _problem(_schemas()["types"][schema["$ref"].rpartition("/")[2]], value, where, depth - 1)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices is not None:
        problems = [_problem(choice, value, where, depth - 1) for choice in choices]
        return None if None in problems else problems[-1]
    if "const" in schema and value != schema["const"]:
        return f"{where} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is none of {schema['enum']!r}"
    return _type_problem(schema, value, where) or _member_problem(schema, value, where, depth)


def _type_problem(schema: Schema, value: Any, where: str) -> str | None:
    names = schema.get("type")
    if names is None:
        return None
    allowed = [kind for name in ([names] if isinstance(names, str) else names) for kind in _TYPES[name]]
    is_whole = isinstance(value, float) and value.is_integer() and int in allowed
    # A bool is an int in Python, and not in JSON.
    fits = type(value) in allowed or is_whole
    return None if fits else f"{where} has the type {type(value).__name__}, not {names}"


@functools.lru_cache(maxsize=256)
def _pattern(written: str) -> re.Pattern[str]:
    r"""Read a pattern of ECMAScript: without classes such as \p{L}, where Python takes any letter or digit."""
    # In Python a last $ matches before an end of line, too.
    ended = re.sub(r"(?<!\\)\$\Z", r"\\Z", written)
    return re.compile(re.sub(r"\\p\{[A-Za-z]+\}", r"\\w", ended))


def _member_problem(schema: Schema, value: Any, where: str, depth: int) -> str | None:
    if isinstance(value, str) and "pattern" in schema and _pattern(schema["pattern"]).search(value) is None:
        return f"{where} has not the expected form"
    if isinstance(value, list) and "items" in schema:
        found = (_problem(schema["items"], each, f"{where}[{i}]", depth - 1) for i, each in enumerate(value))
        return next((each for each in found if each is not None), None)
    if not isinstance(value, dict):
        return None
    missing = [name for name in schema.get("required", []) if name not in value]
    if missing:
        return f"{where} lacks {missing[0]}"
    members: Schema = schema.get("properties", {})
    # Further members are of a later version, and ignored.
    rest = schema.get("additionalProperties")
    for name, each in value.items():
        member = members.get(name, rest if isinstance(rest, dict) else None)
        problem = None if member is None else _problem(member, each, f"{where}.{name[:64]}", depth - 1)
        if problem is not None:
            return problem
    return None
