"""Names by content, as docs/formats.md defines them: tensor ids, Merkle roots, canonical JSON, version ids."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from stemma.errors import StemmaError

DTYPES: dict[str, tuple[int, int]] = {
    "BOOL": (1, 8),
    "U8": (2, 8),
    "I8": (3, 8),
    "U16": (4, 16),
    "I16": (5, 16),
    "U32": (6, 32),
    "I32": (7, 32),
    "U64": (8, 64),
    "I64": (9, 64),
    "F16": (16, 16),
    "BF16": (17, 16),
    "F32": (18, 32),
    "F64": (19, 64),
    "F8_E4M3": (32, 8),
    "F8_E5M2": (33, 8),
    "F8_E8M0": (34, 8),
    "F4": (35, 4),
    "F6_E2M3": (36, 6),
    "F6_E3M2": (37, 6),
    "C64": (48, 64),
}
"""Code in a tensor id and bits of an element, by the name that safetensors uses."""

_MAX_INTEGER = 2**53 - 1


def tensor_hasher(dtype: str, shape: Sequence[int]) -> hashlib._Hash:
    """Begin a tensor id; the tensor's bytes are added by `update`."""
    head = struct.pack(f"<BB{len(shape)}Q", DTYPES[dtype][0], len(shape), *shape)
    return hashlib.sha256(b"stemma-tensor-1\0" + head)


def leaf_hash(path: str, tensor_id: bytes) -> bytes:
    """Hash a leaf: a path and the id of the tensor there."""
    name = path.encode("utf-8")
    return hashlib.sha256(b"\0" + struct.pack("<I", len(name)) + name + tensor_id).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Give the Merkle root of RFC 6962, section 2.1, over leaf hashes."""
    if not leaves:
        return hashlib.sha256().digest()
    # Complete subtrees from the left, with their sizes: each is at most half as large as the one before.
    complete: list[tuple[int, bytes]] = []
    for leaf in leaves:
        size, node = 1, leaf
        while complete and complete[-1][0] == size:
            node = _node_hash(complete.pop()[1], node)
            size *= 2
        complete.append((size, node))
    node = complete.pop()[1]
    while complete:
        node = _node_hash(complete.pop()[1], node)
    return node


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def object_id(kind: str, content: bytes) -> str:
    """Give an object's id as 64 hexadecimal digits."""
    return hashlib.sha256(f"stemma-{kind}-1\0".encode() + content).hexdigest()


def version_id_of(record: Mapping[str, Any]) -> str:
    """Compute a version id from its save record as the API shows it."""
    objects = {
        name: [{**each, "hash": short_hash(each["hash"])} for each in value]
        if name == "attachments"
        else short_hash(value)
        for name, value in record["objects"].items()
    }
    uses = {name: _short_uses(value) for name, value in record.get("uses", {}).items()}
    derived = ("kind", "contentId", "architecture", "uses")
    short: dict[str, Any] = {name: value for name, value in record.items() if name not in derived}
    short |= {
        "bases": [short_hash(base) for base in record["bases"]],
        "root": short_hash(record["root"]),
        "objects": objects,
    }
    if record.get("clockErrorMs") is None:
        short.pop("clockErrorMs", None)
    if "successorOf" in record:
        short["successorOf"] = short_hash(record["successorOf"])
    if uses:
        short["uses"] = uses
    return object_id("record", canonical_json(short))


def _short_uses(value: Any) -> Any:
    if isinstance(value, str):
        return short_hash(value)
    return [short_hash(each) if isinstance(each, str) else {**each, "tree": short_hash(each["tree"])} for each in value]


def short_hash(digits: str) -> str:
    """Write a hash as 43 characters of base64url."""
    return base64.urlsafe_b64encode(bytes.fromhex(digits)).rstrip(b"=").decode("ascii")


def canonical_json(value: Any) -> bytes:
    """Write RFC 8785 over tagged values."""
    return _canonical(value).encode("utf-8")


def _canonical(value: Any) -> str:
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return _canonical_number(value)
    if isinstance(value, Mapping):
        # RFC 8785 sorts names by UTF-16 code units.
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = (f"{_canonical('$' + name if name[:1] == '$' else name)}:{_canonical(value[name])}" for name in names)
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_canonical(each) for each in value) + "]"
    raise StemmaError("CANONICAL_JSON_INVALID", f"A {type(value).__name__} cannot be written as canonical JSON.")


def _canonical_number(value: float) -> str:
    if isinstance(value, int):
        if abs(value) > _MAX_INTEGER:
            raise StemmaError("CANONICAL_JSON_INVALID", f"{value} is larger than a whole number of JSON may be here.")
        return str(value)
    if value.is_integer() and abs(value) <= _MAX_INTEGER and math.copysign(1, value) * (value or 1) > 0:
        return str(int(value))
    bits = "7ff8000000000000" if math.isnan(value) else struct.pack(">d", value).hex()
    return f'{{"$f64":"{bits}"}}'
