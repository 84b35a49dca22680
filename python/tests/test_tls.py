"""Which servers a device talks to: those of its authority, at the time that it learned."""

import datetime
import ipaddress
import socket
import ssl
import threading

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stemma.device.certificates import post_request
from stemma.device.tls import UntimelyError, device_context
from stemma.errors import StemmaError

BEGIN, END = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)


def ms_of(year):
    return datetime.datetime(year, 7, 1, tzinfo=datetime.timezone.utc).timestamp() * 1000


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certified(subject, key, issuer, issuer_key, is_authority):
    made = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer)).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(BEGIN).not_valid_after(END)
    made = made.add_extension(x509.BasicConstraints(is_authority, None), True)
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
    return made.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def pem_of(key):
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*form).decode()


@pytest.fixture
def server(tmp_path):
    """A server whose certificate ended in 2021, by an authority that ended then; gives its port and files."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = certified("authority", authority_key, "authority", authority_key, True)
    pair = tmp_path / "pair.pem"
    pair.write_text(certified("server", key, "authority", authority_key, False) + pem_of(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    listening = socket.create_server(("127.0.0.1", 0))
    came = []

    def serve():
        while True:
            try:
                one, _ = listening.accept()
                with context.wrap_socket(one, server_side=True) as secure:
                    came.append(secure.recv(100))
            except OSError:
                if listening.fileno() < 0:
                    return

    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1], authority, pair, came
    listening.close()


def connect(port, context):
    with socket.create_connection(("127.0.0.1", port)) as plain:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_certificate_is_judged_at_the_time_that_the_device_learned(server):
    port, authority, pair, came = server
    with connect(port, device_context(authority, (pair, pair), lambda: ms_of(2020))) as secure:
        secure.sendall(b"hello")
    for year in (2019, 2021):
        with pytest.raises(UntimelyError, match="not valid now"):
            connect(port, device_context(authority, (pair, pair), lambda year=year: ms_of(year)))
    with connect(port, device_context(authority, (pair, pair), None)) as secure:
        secure.sendall(b"what time is it")
    assert b"".join(came).startswith(b"hello")


def test_a_certificate_is_asked_for_whatever_the_clock_shows(server):
    port, authority, _, came = server
    # This machine's clock is long past the end of the server's certificate.
    for year, why in ((2019, "not valid now"), (2021, "not valid now"), (2020, "does not answer in HTTP")):
        with pytest.raises(StemmaError, match=why):
            post_request(f"https://127.0.0.1:{port}", authority, {}, lambda year=year: ms_of(year))
        assert len(b"".join(came)) == 0 or year == 2020
    assert b"".join(came).startswith(b"POST /v1/certificates")


def test_a_certificate_of_another_key_is_named(tmp_path):
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    file, wrong = tmp_path / "device.pem", tmp_path / "device.key"
    file.write_text(certified("device", key, "device", key, False))
    for content in (pem_of(other), "no key"):
        wrong.write_text(content)
        with pytest.raises(StemmaError, match=r"device\.pem cannot be used") as caught:
            device_context(file.read_text(), (file, wrong), None)
        assert caught.value.code == "CERTIFICATE_REFUSED"


def test_a_server_of_another_authority_is_refused_at_any_time(server):
    port, _, pair, _ = server
    key = ec.generate_private_key(ec.SECP256R1())
    other = certified("authority", key, "authority", key, True)
    for now_ms in (lambda: ms_of(2020), None):
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(port, device_context(other, (pair, pair), now_ms))
