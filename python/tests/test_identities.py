"""Identities against the golden vectors of the repository, which the server's own tests read too."""

import base64
import json
import struct
from pathlib import Path

import pytest

from stemma.errors import StemmaError
from stemma.identities import canonical_json, leaf_hash, object_id, root_of, tensor_hasher, version_id_of

VECTORS = Path(__file__).parents[2] / "test" / "vectors" / "identities"


def vectors(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def test_tensor_ids():
    cases = [each for each in vectors("tensor-ids.json") if "bytes" in each and "id" in each]
    assert len(cases) > 5
    for case in cases:
        hasher = tensor_hasher(case["dtype"], case["shape"])
        hasher.update(bytes.fromhex(case["bytes"]))
        assert hasher.hexdigest() == case["id"], case["what"]


def test_roots():
    cases = vectors("trees.json")
    assert len(cases) > 3
    for case in cases:
        leaves = [
            leaf_hash(path, bytes.fromhex(tensor)) for path, tensor in zip(case["paths"], case["tensors"], strict=True)
        ]
        assert [leaf.hex() for leaf in leaves] == case["leafHashes"], case["what"]
        assert root_of(leaves).hex() == case["root"], case["what"]


def untagged(value):
    """Turn tagged values of canonical JSON into those that were written."""
    if isinstance(value, list):
        return [untagged(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$f64" in value:
        return struct.unpack(">d", bytes.fromhex(value["$f64"]))[0]
    return {name[1:] if name.startswith("$$") else name: untagged(each) for name, each in value.items()}


def test_canonical_json():
    for case in vectors("canonical-json.json")["accepted"]:
        value = json.loads(case["text"])
        if "$i64" not in case["text"]:
            assert canonical_json(untagged(value)).decode() == case["text"]
    assert canonical_json([1.0, -0.0, float("nan")]) == (b'[1,{"$f64":"8000000000000000"},{"$f64":"7ff8000000000000"}]')
    for refused in (2**60, b"bytes"):
        with pytest.raises(StemmaError) as raised:
            canonical_json(refused)
        assert raised.value.code == "CANONICAL_JSON_INVALID"


def long(short):
    return base64.urlsafe_b64decode(short + "=").hex()


def as_answered(record):
    """Write a record as the API shows it: hexadecimal, with the members that follow from others."""
    shown = {**record, "bases": [long(each) for each in record["bases"]], "root": long(record["root"])}
    shown["objects"] = {
        name: [{**each, "hash": long(each["hash"])} for each in value] if name == "attachments" else long(value)
        for name, value in record["objects"].items()
    }
    for name, value in record.get("uses", {}).items():
        all_of = [value] if isinstance(value, str) else value
        each = [long(one) if isinstance(one, str) else {**one, "tree": long(one["tree"])} for one in all_of]
        shown["uses"] = {**shown["uses"], name: each[0] if isinstance(value, str) else each}
    if "successorOf" in record:
        shown["successorOf"] = long(record["successorOf"])
    return {"clockErrorMs": None, **shown, "kind": "opaque", "architecture": "0" * 64, "contentId": "0" * 64}


@pytest.mark.parametrize("file", ["short-save-records.json", "save-records-2.json"])
def test_version_ids(file):
    cases = vectors(file)
    assert len(cases) > 0
    for case in cases:
        shown = as_answered(json.loads(case["text"]))
        assert version_id_of(shown) == object_id("record", case["text"].encode())
