"""Enrolment with an invitation (docs/certificates.md): this device makes its keys, and gets a certificate for them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from stemma.contexts import NamedServer
from stemma.device.history import is_signed
from stemma.device.state import ENROLMENT
from stemma.device.store import read_json, write_durably
from stemma.errors import StemmaError
from stemma.identities import canonical_json
from stemma.transport import Transport

WAITING = "enrolment-keys.json"
_KEY_EXTENSION = x509.ObjectIdentifier("2.25.1743892065")
_TERMS = ("fleet", "device", "generation", "lines", "mqtt", "root", "authorities", "serverPublicKey")


def enrol_with(home: str | os.PathLike[str], invitation: str | os.PathLike[str] | Mapping[str, Any]) -> None:
    """Enrol a device; its keys wait on the disk before they are used."""
    folder = Path(home)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    terms = dict(invitation) if isinstance(invitation, Mapping) else read_json(Path(invitation), "ENROLMENT_INVALID")
    _check_invitation(terms)
    if (folder / ENROLMENT).exists():
        raise StemmaError("ENROLMENT_INVALID", f"{folder} is enrolled already. Choose another home for another device.")
    keys = _waiting_keys(folder, terms)
    body = {
        "request": {
            "kind": "stemma-certificate-request",
            "format": 1,
            "request": keys["request"],
            "invitation": terms,
        }
    }
    authority = "".join([*terms["authorities"], terms.get("ca", "")])
    server = Transport(NamedServer(terms["http"], authority=authority if terms["http"].startswith("https:") else None))
    answer = server.exchange("certify", "POST", "/v1/certificates", body, is_long=False)
    _check_answer(answer, terms, keys)
    enrolment = {name: terms[name] for name in _TERMS} | {
        "authorities": answer["authorities"],
        "certificate": answer["certificate"],
        "connectionKey": keys["connectionKey"],
        "deviceSeed": keys["deviceSeed"],
        "profile": terms.get("profile", "generic"),
    }
    write_durably(folder / ENROLMENT, json.dumps(enrolment).encode("utf-8"))
    (folder / WAITING).unlink(missing_ok=True)


def _check_invitation(terms: Mapping[str, Any]) -> None:
    missing = [name for name in (*_TERMS, "http", "signature") if name not in terms]
    if terms.get("kind") != "stemma-invitation" or terms.get("format") != 1 or missing:
        raise _invalid(f"it is not the invitation of a device ({', '.join(missing) or 'kind'})")
    members = {name: value for name, value in terms.items() if name != "signature"}
    try:
        key, signature = bytes.fromhex(terms["serverPublicKey"]), bytes.fromhex(terms["signature"])
    except (TypeError, ValueError) as error:
        raise _invalid("its key or signature is malformed") from error
    if not is_signed(key, b"stemma-invitation-1\0" + canonical_json(members), signature):
        raise _invalid("it was changed after it was made")
    if terms.get("releases", {}).get("policy", "off") != "off":
        raise _invalid("it demands signed releases, which this client does not check: use the agent")
    if "authority" in terms:
        raise _invalid("it demands a certificate of the fleet's owner, which this client does not use: use the agent")


def _waiting_keys(folder: Path, terms: Mapping[str, Any]) -> dict[str, str]:
    subject = {name: terms[name] for name in ("fleet", "device", "generation")}
    path = folder / WAITING
    if path.exists():
        keys = read_json(path, "ENROLMENT_INVALID")
        if keys.get("subject") == subject:
            return {name: str(keys[name]) for name in ("deviceSeed", "connectionKey", "request")}
    device = Ed25519PrivateKey.generate()
    connection = ec.generate_private_key(ec.SECP256R1())
    info = connection.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    key_hash = hashlib.sha256(b"stemma-connection-key-1\0" + info).hexdigest()
    proof = device.sign(b"stemma-device-key-1\0" + canonical_json({**subject, "connectionKey": key_hash}))
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, terms["device"])]))
        .add_extension(
            x509.UnrecognizedExtension(_KEY_EXTENSION, device.public_key().public_bytes_raw() + proof), False
        )
        .sign(connection, hashes.SHA256())
    )
    private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    keys = {
        "deviceSeed": device.private_bytes_raw().hex(),
        "connectionKey": connection.private_bytes(*private).decode("ascii"),
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.DER)).decode("ascii"),
    }
    write_durably(path, json.dumps({"subject": subject, **keys}).encode("utf-8"))
    return keys


def _check_answer(answer: Mapping[str, Any], terms: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    members = {name: value for name, value in answer.items() if name != "signature"}
    named = hashlib.sha256(b"stemma-certificate-request-1\0" + keys["request"].encode("utf-8")).hexdigest()
    signed = b"stemma-certificate-1\0" + canonical_json(members)
    if answer["request"] != named or not is_signed(
        bytes.fromhex(terms["serverPublicKey"]), signed, bytes.fromhex(answer["signature"])
    ):
        raise StemmaError(
            "ENROLMENT_INVALID",
            "The answer with the certificate is not the invitation's server's, or answers another request. "
            "Enrol again; the same keys get the same certificate.",
        )


def _invalid(why: str) -> StemmaError:
    return StemmaError(
        "ENROLMENT_INVALID", f"The invitation cannot be used: {why}. Make a new one with `stemma device enroll`."
    )
