"""Answers to requests for certificates that nobody should believe, and a renewal whose waiting key is damaged."""

import hashlib
from types import SimpleNamespace

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemma.device.certificates import WAITING, Renewal, new_request, taken_answer
from stemma.errors import StemmaError
from stemma.identities import canonical_json

SUBJECT = {"fleet": "f", "device": "d", "generation": 1}
DEVICE, SERVER, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([digit]) * 32) for digit in (1, 2, 3))
KEYS = new_request(SUBJECT, DEVICE)


def public(key):
    return key.public_key().public_bytes_raw().hex()


def nested():
    value = []
    for _ in range(900):
        value = [value]
    return value


def answer(by=SERVER, request=KEYS["request"], **more):
    named = hashlib.sha256(b"stemma-certificate-request-1\0" + request.encode()).hexdigest()
    members = {"request": named, "certificate": "none", "authorities": [], "issuedAtMs": 1, **more}
    try:
        signature = by.sign(b"stemma-certificate-1\0" + canonical_json(members)).hex()
    except (RecursionError, TypeError):
        signature = "00" * 64
    return {**members, "signature": signature}


def change_of_key(by):
    said = {"atMs": 1, "from": public(SERVER), "to": public(OTHER)}
    text = canonical_json(said)
    signature, proof = by.sign(b"stemma-key-change-1\0" + text), OTHER.sign(b"stemma-key-proof-1\0" + text)
    return {**said, "signature": signature.hex(), "proof": proof.hex()}


@pytest.mark.parametrize(
    "lie",
    [
        None,
        answer(request="another"),
        answer(by=OTHER),
        answer(by=OTHER, keyChanges=[change_of_key(OTHER)]),
        answer(keyChanges=7),
        answer(more=nested()),
        answer(),
    ],
    ids=["nothing", "another request", "another key", "a change by the new key", "no list", "too deep", "no X.509"],
)
def test_answers_that_are_not_the_servers_to_this_request_are_refused(lie):
    with pytest.raises(StemmaError) as raised:
        taken_answer(lie, public(SERVER), KEYS)
    assert raised.value.code == "ENROLMENT_INVALID"


def test_a_change_of_the_servers_key_is_followed():
    with pytest.raises(StemmaError) as raised:
        taken_answer(answer(by=OTHER, keyChanges=[change_of_key(SERVER)]), public(SERVER), KEYS)
    # The signature holds then, and what it signs is read.
    assert "did not sign" not in raised.value.message


@pytest.mark.parametrize("damage", ["", "{}", '{"connectionKey": 7, "request": "x"}'])
def test_a_waiting_key_that_is_damaged_is_made_again(tmp_path, damage):
    identity = SimpleNamespace(subject=SUBJECT, owned=None, key=DEVICE, file={"certificate": "c", "connectionKey": "k"})
    identity.sign = lambda request: f"signed {request}"
    one = Renewal(tmp_path, lambda: identity, lambda: 0.0)
    (tmp_path / WAITING).write_text(damage)
    request = one.request()
    assert request["renewal"]["signature"] == f"signed {request['request']}"
    assert one.request() == request
