"""What a device believes of a server that shows restores page by page, and never ends."""

import json
import struct
from types import SimpleNamespace

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from test_device_parts import path, root

from stemma.device.history import Head
from stemma.device.restores import MAX_UNANSWERED, Belief
from stemma.errors import StemmaError

SERVER = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)


def belief():
    """Give a device that has seen another journal of twenty facts."""
    state = SimpleNamespace(
        values={"outbox": {}, "lines": {}},
        identity=SimpleNamespace(server_key=SERVER.public_key().public_bytes_raw(), fleet="f"),
        seen=Head(20, bytes(32), bytes(32)),
        keep=lambda: None,
        keep_head=lambda _: None,
    )
    return Belief(state, SimpleNamespace(policy="off"), lambda *_: None)


def test_pages_of_restores_end_where_what_follows_them_answers_another_birth():
    entries = [json.dumps({"type": "restored", "position": at}).encode() for at in range(4)]
    head = Head(4, bytes(32), root(entries))
    said = b"stemma-head-1\0" + struct.pack("<Q", head.length) + head.chain + head.root
    stated = {"length": 4, "chain": head.chain, "root": head.root, "signature": SERVER.sign(said)}
    facts = [
        {"position": at, "entry": entries[at], "hashes": b"".join(path(at, entries)), "approval": None}
        for at in range(4)
    ]
    one = belief()
    page = {"head": stated, "start": None, "restores_from": 0, "more_restores": True, "restores": facts[:2]}
    assert not one.take(page)
    other = {"length": 7, "hashes": b""}
    last = {**page, "restores_from": one.birth()["restores_from"], "more_restores": False, "restores": facts[2:]}
    for _ in range(MAX_UNANSWERED):
        assert not one.take({**last, "start": other})
        assert len(one._unknown) == 2
    with pytest.raises(StemmaError) as raised:
        one.take({**last, "start": other})
    assert raised.value.code == "HISTORY_UNPROVEN"
    with pytest.raises(StemmaError):
        one.take({**page, "restores": facts[:2] * 9})
    # Begun again from the first page, all of it explains the difference.
    assert not one.take(page)
    assert one.take(last)
    assert one.is_believed
