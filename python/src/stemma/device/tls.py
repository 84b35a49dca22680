"""TLS of a device: the server's certificate is judged at the time that the device learned, not at that of its clock."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stemma.errors import StemmaError

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME: the clock of the machine judges nothing.
_NO_CHECK_TIME = 0x200000


class UntimelyError(OSError):
    """The server's certificate is refused for its validity alone."""


class _JudgingSocket(ssl.SSLSocket):
    """Nothing is sent before the certificate was judged."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        context = self.context
        if isinstance(context, DeviceContext):
            context.judge(self.getpeercert() or {})


class DeviceContext(ssl.SSLContext):
    """A context that trusts the server's authority alone, whatever the host is called."""

    sslsocket_class = _JudgingSocket
    now_ms: Callable[[], float] | None
    """The time that the device learned; None: the certificate's validity does not matter."""

    def judge(self, certificate: Any) -> None:
        """Require that the server's certificate is valid now."""
        if self.now_ms is None:
            return
        now = self.now_ms() / 1000
        begin, end = (ssl.cert_time_to_seconds(str(certificate.get(name))) for name in ("notBefore", "notAfter"))
        if not begin <= now <= end:
            raise UntimelyError(
                f"the server's certificate is valid from {certificate['notBefore']} to {certificate['notAfter']}, and "
                "by the time that this device learned it is not valid now"
            )


def device_context(
    authorities: str, pair: tuple[Path, Path] | None, now_ms: Callable[[], float] | None
) -> DeviceContext:
    """Make the context of a connection, with the files of the device's certificate and its key, which may be one."""
    context = DeviceContext(ssl.PROTOCOL_TLS_CLIENT)
    context.now_ms = now_ms
    context.check_hostname = False
    context.verify_flags |= _NO_CHECK_TIME
    try:
        context.load_verify_locations(cadata=authorities)
    except (OSError, ValueError) as error:
        raise StemmaError(
            "ENROLMENT_INVALID", f"The authorities of the server cannot be read: {error}. Enrol this device again."
        ) from error
    if pair is None:
        return context
    try:
        context.load_cert_chain(*pair, password="")
    except (OSError, ValueError) as error:
        raise StemmaError(
            "CERTIFICATE_REFUSED",
            f"The certificate in {pair[0]} cannot be used: {error}. Put a certificate there that fits the key in "
            f"{pair[1]}, which must not be encrypted.",
        ) from error
    return context
