"""
Certificates of a device (docs/certificates.md): requests, answers, and when they are renewed.

The library that writes requests is loaded where one is written: a device that runs needs it once in months.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stemma.device.history import is_signed
from stemma.device.state import ENROLMENT, Enrolled
from stemma.device.store import read_json, write_durably
from stemma.device.wire import decode
from stemma.errors import StemmaError
from stemma.identities import canonical_json

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

WAITING = "renewal-key.json"
ANSWER_SECONDS = 60.0
MAX_CHANGES = 64
_KEY_EXTENSION = "2.25.1743892065"


def new_request(subject: Mapping[str, Any], device: Ed25519PrivateKey, owned: str | None = None) -> dict[str, str]:
    """
    Make a connection key and the request of its certificate; `subject` is fleet, device and generation.

    `owned` is the key of a certificate that the device has already, in PEM.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    connection = ec.generate_private_key(ec.SECP256R1()) if owned is None else _owned_key(owned)
    info = connection.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    key_hash = hashlib.sha256(b"stemma-connection-key-1\0" + info).hexdigest()
    proof = device.sign(b"stemma-device-key-1\0" + canonical_json({**subject, "connectionKey": key_hash}))
    extension = x509.UnrecognizedExtension(
        x509.ObjectIdentifier(_KEY_EXTENSION), device.public_key().public_bytes_raw() + proof
    )
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(subject["device"]))]))
        .add_extension(extension, False)
        .sign(connection, hashes.SHA256())
    )
    private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return {
        "connectionKey": connection.private_bytes(*private).decode("ascii"),
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.DER)).decode("ascii"),
    }


def _owned_key(pem: str) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        key = serialization.load_pem_private_key(pem.encode("ascii"), None)
    except (TypeError, ValueError) as error:
        raise StemmaError(
            "CERTIFICATE_REFUSED", f"The key of the owner's certificate cannot be read: {error}. Do not encrypt it."
        ) from error
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise StemmaError("CERTIFICATE_REFUSED", "The key of the owner's certificate is not of ECDSA or RSA.")
    return key


def taken_answer(answer: Any, server_key: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """
    Check the server's answer to a request, and give the members of an enrolment that it changes.

    Where the server's key has changed, the answer leads from the one that is trusted to the new one.
    """
    try:
        members = {name: value for name, value in answer.items() if name != "signature"}
        key = _followed(server_key, members.get("keyChanges", []))
        named = hashlib.sha256(b"stemma-certificate-request-1\0" + keys["request"].encode("ascii")).hexdigest()
        signed = b"stemma-certificate-1\0" + canonical_json(members)
        signature = bytes.fromhex(answer["signature"])
        if members["request"] != named or not is_signed(bytes.fromhex(key), signed, signature):
            raise ValueError("the server that this device knows did not sign it, or it answers another request")
        end = _end_of_certificate(members["certificate"], keys["connectionKey"])
        return {
            "authorities": [str(each) for each in members["authorities"]],
            "certificate": str(members["certificate"]),
            "connectionKey": keys["connectionKey"],
            "issuedAtMs": int(members["issuedAtMs"]),
            "notAfterMs": end,
            "serverPublicKey": key,
        }
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StemmaError(
            "ENROLMENT_INVALID",
            f"The answer with the certificate is not valid: {error}. Ask again; it is made for the same keys.",
        ) from error


def _followed(key: str, changes: list[dict[str, Any]]) -> str:
    """Go on from a server's key to those that followed it, each signed by the one before and by itself."""
    for change in changes[:MAX_CHANGES]:
        said = canonical_json({name: change[name] for name in ("atMs", "from", "to")})
        proofs = (("from", "signature", b"stemma-key-change-1\0"), ("to", "proof", b"stemma-key-proof-1\0"))
        if change["from"] == key and all(
            is_signed(bytes.fromhex(change[by]), domain + said, bytes.fromhex(change[name]))
            for by, name, domain in proofs
        ):
            key = str(change["to"])
    return key


def _end_of_certificate(certificate: str, connection_key: str | None = None) -> int:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    issued = x509.load_pem_x509_certificate(certificate.encode("ascii"))
    if connection_key is not None:
        own = serialization.load_pem_private_key(connection_key.encode("ascii"), None).public_key()
        if issued.public_key() != own:
            raise ValueError("its certificate is of another key")
    return int(issued.not_valid_after_utc.timestamp() * 1000)


class Renewal:
    """Renews the certificate of an enrolled device; the new key waits on the disk until its certificate is there."""

    def __init__(self, home: Path, identity: Callable[[], Enrolled], learned_ms: Callable[[], float]) -> None:
        self._home = home
        self._learned_ms = learned_ms
        self._identity = identity

    def is_due(self, now_ms: float) -> bool:
        """Tell whether a third of the certificate's time or less is left; its owner's authority renews its own."""
        if self._identity().owned is not None:
            return False
        begin, end = self._times()
        return end - now_ms < (end - begin) / 3

    def _times(self) -> tuple[int, int]:
        file = self._identity().file
        end = int(file.get("notAfterMs") or _end_of_certificate(file["certificate"]))
        # Homes of earlier releases do not state when: a certificate is valid for a year.
        return int(file.get("issuedAtMs") or end - 365 * 86_400_000), end

    def request(self) -> dict[str, Any]:
        """Make the request, or give the one that waits."""
        if self._identity().owned is not None:
            raise StemmaError(
                "NOT_ALLOWED",
                "The authority of its owner renews the certificate of this device: put the new one into its file.",
            )
        one, path = self._identity(), self._home / WAITING
        keys = self._waiting()
        if keys is None:
            keys = new_request(one.subject, one.key)
            write_durably(path, json.dumps(keys).encode("ascii"))
        renewal = {**one.subject, "certificate": one.file["certificate"], "signature": one.sign(keys["request"])}
        request = {"kind": "stemma-certificate-request", "format": 1, "request": keys["request"]}
        return {**request, "renewal": renewal}

    def take(self, answer: Any) -> dict[str, Any]:
        """Take the server's answer; gives the enrolment that is on the disk then."""
        keys, file = self._waiting(), self._identity().file
        if keys is None:
            raise StemmaError("ENROLMENT_INVALID", "No renewal waits for this certificate. Ask for one again.")
        file = {**file, **taken_answer(answer, file["serverPublicKey"], keys)}
        write_durably(self._home / ENROLMENT, json.dumps(file).encode("utf-8"))
        (self._home / WAITING).unlink(missing_ok=True)
        return file

    def ask(self) -> Any:
        """Ask the server for a certificate: over HTTPS, or where that does not reach it, over MQTT."""
        request, http = self.request(), self._identity().file.get("http")
        if http is not None:
            try:
                return post_request(http, self._identity().authorities, request, self._learned_ms)
            except StemmaError as error:
                # What the server itself refuses, it refuses over MQTT, too.
                if error.code not in ("SERVER_UNREACHABLE", "TIMED_OUT", "NOT_ALLOWED"):
                    raise
        return self._ask_over_mqtt(json.dumps(request))

    def _waiting(self) -> dict[str, str] | None:
        try:
            keys = read_json(self._home / WAITING, "ENROLMENT_INVALID")
        except StemmaError:
            # Missing or damaged: another key is as good.
            return None
        is_complete = all(isinstance(keys.get(name), str) for name in ("connectionKey", "request"))
        # A renewal whose key is in the enrolment already has ended.
        return keys if is_complete and keys["connectionKey"] != self._identity().file["connectionKey"] else None

    def _ask_over_mqtt(self, request: str) -> Any:
        """Ask without a session: the CONNECT has the request, one message the answer (docs/protocol.md)."""
        one = self._identity()
        why = "it has no address of MQTT with TLS"
        for address in one.addresses:
            if not address.startswith("mqtts:"):
                continue
            try:
                payload, why = asked_alone(one, address, ("renewal", request), self._learned_ms)
            except OSError as error:
                payload, why = b"", str(error)
            if payload != b"":
                # Signed or not, the answer has a signature of its own.
                command = decode("Envelope", payload)["command"] or {}
                try:
                    return json.loads(command.get("json", ""))["answer"]
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise StemmaError(
                        "CERTIFICATE_REFUSED", "The server answered something else than a certificate. Ask again."
                    ) from error
        raise StemmaError("CERTIFICATE_REFUSED", f"The server gave no certificate over MQTT: {why}. Look at its log.")


def post_request(http: str, authorities: str, request: Mapping[str, Any], now_ms: Callable[[], float]) -> Any:
    """Send a request for a certificate over HTTP; the server's is judged at that time, whatever the clock shows."""
    from stemma.contexts import NamedServer
    from stemma.device.tls import device_context
    from stemma.transport import Transport

    server = Transport(NamedServer(http), context=device_context(authorities, None, now_ms))
    return server.exchange("certify", "POST", "/v1/certificates", {"request": request}, is_long=False)


def asked_alone(
    one: Enrolled, address: str, question: tuple[str, str | None], now_ms: Callable[[], float] | None
) -> tuple[bytes, str]:
    """Ask by a connection for that alone: a kind of client and its password. Gives the answer, or why there is none."""
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    url, ended = urlsplit(address), threading.Event()
    got: dict[str, Any] = {"payload": b"", "why": "it ended the connection"}
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        client_id=f"{one.fleet}:{one.device}:{question[0]}",
        protocol=mqtt.MQTTv311,
        reconnect_on_failure=False,
    )
    client.username_pw_set(one.device, question[1])
    client.tls_set_context(one.tls(now_ms))

    def on_message(_client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        got["payload"] = bytes(message.payload)
        ended.set()

    def on_connect(_client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            got["why"] = str(reason)
            ended.set()

    client.on_message, client.on_connect = on_message, on_connect
    client.on_disconnect = lambda *_: ended.set()
    client.connect(url.hostname or "", url.port or 8883)
    client.loop_start()
    ended.wait(ANSWER_SECONDS)
    client.disconnect()
    client.loop_stop()
    return got["payload"], got["why"]
