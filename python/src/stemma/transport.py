"""Requests to a server by the standard library's `http.client`: bounded in bytes and time, without redirects."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from stemma.answers import check_answer, parse_json
from stemma.contexts import NamedServer
from stemma.errors import StemmaError

MAX_ANSWER_BYTES = 256 * 1024 * 1024
MAX_ERROR_BYTES = 1024 * 1024
PIECE_BYTES = 1024 * 1024
SILENCE_SECONDS = 60.0
LONG_SECONDS = 30 * 60.0
"""The longest time for an answer of JSON, and the longest silence where the server works for its answer."""

_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,63}\Z")
_MAX_MESSAGE = 64 * 1024


@dataclass(frozen=True)
class Request:
    """One request; its body is sent as it is made."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Iterable[bytes] = ()
    length: int = 0
    is_long: bool = False
    """Whether the server may be silent for minutes, as where it works before it answers."""
    is_stream: bool = False
    """Whether only silence is bounded, and not the time in all."""


class Transport:
    """One server. Each request has a connection of its own, so that an instance may be used by several threads."""

    def __init__(
        self, server: NamedServer, silence_seconds: float = SILENCE_SECONDS, context: ssl.SSLContext | None = None
    ) -> None:
        self.name = f"The server at {server.url}"
        self._server = server
        self._url = _checked_url(server.url)
        self._silence = silence_seconds
        self._context = (context or _tls_context(server.authority)) if self._url.scheme == "https" else None

    def exchange(
        self, operation: str, method: str, path: str, body: Mapping[str, object] | None, *, is_long: bool
    ) -> Any:
        """Send a request of JSON, and check the answer."""
        content = b"" if body is None else _json_of(body)
        headers = {} if body is None else {"content-type": "application/json"}
        request = Request(method, path, headers, [content], len(content), is_long=is_long)
        with self.open(request) as answer:
            text = answer.read_all(MAX_ANSWER_BYTES)
        return None if text == b"" else check_answer(operation, parse_json(text, self.name), self.name)

    @contextmanager
    def open(self, request: Request) -> Iterator[Answer]:
        """Send a request and give its answer, whose status is good; the block may read its body."""
        connection = self._connection(request)
        try:
            try:
                response = self._sent(connection, request)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._failure(error) from error
            answer = Answer(response, self.name)
            with response:
                if not 200 <= response.status < 300:
                    raise self._refusal(response.status, answer)
                yield answer
        finally:
            connection.close()

    def _connection(self, request: Request) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        silence = max(self._silence, LONG_SECONDS) if request.is_long else self._silence
        deadline = None if request.is_stream else time.monotonic() + LONG_SECONDS

        class Bounded(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                self.sock = _BoundedSocket(self.sock, silence, deadline)

        class BoundedTls(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                self.sock = _BoundedSocket(self.sock, silence, deadline)

        if self._context is None:
            return Bounded(host, port, timeout=silence)
        proxy = _proxy_of(self._url)
        if proxy is None:
            return BoundedTls(host, port, timeout=silence, context=self._context)
        connection = BoundedTls(proxy.hostname or "", proxy.port, timeout=silence, context=self._context)
        connection.set_tunnel(host, port or 443)
        return connection

    def _sent(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        connection.putrequest(request.method, self._url.path.rstrip("/") + request.path, skip_accept_encoding=True)
        for name, value in {"accept": "application/json", "connection": "close", **request.headers}.items():
            connection.putheader(name, value)
        if self._server.token is not None:
            connection.putheader("authorization", f"Bearer {self._server.token}")
        if request.method != "GET":
            connection.putheader("content-length", str(request.length))
        connection.endheaders()
        try:
            for piece in request.body:
                connection.send(piece)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError) as error:
            # A server that refuses answers before it has taken the complete body.
            try:
                return connection.getresponse()
            except (OSError, http.client.HTTPException):
                raise error from None
        return connection.getresponse()

    def _refusal(self, status: int, answer: Answer) -> StemmaError:
        if 300 <= status < 400:
            return _not_stemma(self.name, f"answered with a redirect (status {status}), which is not followed")
        try:
            value = parse_json(answer.read_all(MAX_ERROR_BYTES), self.name)
        except StemmaError:
            value = None
        if isinstance(value, dict):
            code, message, details = value.get("code"), value.get("message"), value.get("details")
            if isinstance(code, str) and _CODE.match(code) and isinstance(message, str):
                return StemmaError(code, message[:_MAX_MESSAGE], details if isinstance(details, dict) else {})
        return _not_stemma(self.name, f"answered with status {status} and no error that Stemma knows")

    def _failure(self, error: Exception) -> StemmaError:
        if isinstance(error, TimeoutError):
            return _too_slow(self.name)
        if isinstance(error, ssl.SSLCertVerificationError):
            return StemmaError(
                "SERVER_UNREACHABLE",
                f"{self.name} has a certificate that is not trusted here ({error.verify_message}); nothing was sent "
                "to it. A server with its own authority has the file authority.pem in its home: copy it here and "
                "name it as authority=.",
            )
        if isinstance(error, http.client.HTTPException):
            return _not_stemma(self.name, f"does not answer in HTTP ({type(error).__name__})")
        if isinstance(error, OSError):
            return StemmaError(
                "SERVER_UNREACHABLE",
                f"{self.name} cannot be reached: {error}. Start it, or correct the address.",
            )
        return StemmaError("USAGE", f"The request cannot be sent: {error}. Correct its token or its arguments.")


class Answer:
    """An answer whose head has come."""

    def __init__(self, response: http.client.HTTPResponse, whose: str) -> None:
        self._response = response
        self._whose = whose

    def header(self, name: str) -> str | None:
        """Give a header's value."""
        return self._response.getheader(name)

    def length(self) -> int:
        """Give the declared length of the body."""
        text = self.header("content-length") or ""
        if not re.fullmatch(r"[0-9]{1,15}", text):
            raise _not_stemma(self._whose, "answered without the length of its body")
        return int(text)

    def pieces(self) -> Iterator[bytes]:
        """Read the body as it comes; the caller compares its length."""
        try:
            while piece := self._response.read1(PIECE_BYTES):
                yield piece
        except TimeoutError as error:
            raise _too_slow(self._whose) from error
        except (OSError, http.client.HTTPException) as error:
            raise StemmaError(
                "SERVER_UNREACHABLE",
                f"The answer of {self._whose[0].lower()}{self._whose[1:]} broke off. Look at its log and try again.",
            ) from error

    def read_all(self, max_bytes: int) -> bytes:
        """Read a body of bounded length."""
        parts: list[bytes] = []
        total = 0
        for piece in self.pieces():
            total += len(piece)
            if total > max_bytes:
                raise StemmaError(
                    "SIZE_OVER_LIMIT",
                    f"{self._whose} answered with more than {max_bytes} bytes. Ask for less at a time.",
                )
            parts.append(piece)
        declared = self.header("content-length")
        if declared is not None and declared != str(total):
            raise StemmaError(
                "SERVER_UNREACHABLE",
                f"{self._whose} sent {total} of {declared[:20]} bytes. Look at its log and try again.",
            )
        return b"".join(parts)


class _BoundedSocket:
    """A socket as `http.client` uses it: every wait is bounded by the silence allowed and by what is left in all."""

    def __init__(self, sock: socket.socket, silence: float, deadline: float | None) -> None:
        self._sock = sock
        self._silence = silence
        self._deadline = deadline

    def _bound(self) -> None:
        left = self._silence if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time is left")
        self._sock.settimeout(min(self._silence, left))

    def sendall(self, data: bytes) -> None:
        self._bound()
        self._sock.sendall(data)

    def makefile(self, mode: Literal["rb"]) -> io.BufferedReader:
        bound, raw = self._bound, self._sock.makefile(mode, buffering=0)

        class Reader(io.RawIOBase):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int | None:
                bound()
                return raw.readinto(buffer)

            def close(self) -> None:
                raw.close()
                super().close()

        return io.BufferedReader(Reader(), PIECE_BYTES)

    def close(self) -> None:
        self._sock.close()


def _checked_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        valid = url.scheme in ("http", "https") and url.hostname is not None and (url.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or url.query or url.fragment or url.username is not None:
        raise StemmaError("USAGE", f"{text!r} is not a valid URL of a server. Write it as https://HOST:PORT.")
    return url


def _tls_context(authority: str | None) -> ssl.SSLContext:
    try:
        # With an authority of its own, those of the system are not trusted.
        return ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise StemmaError(
            "USAGE", f"The certificate of the authority cannot be read: {error}. Name another."
        ) from error


def _proxy_of(url: SplitResult) -> SplitResult | None:
    proxy = getproxies().get("https")
    if proxy is None or proxy_bypass(url.netloc):
        return None
    return _checked_url(proxy if "://" in proxy else f"http://{proxy}")


def _json_of(body: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        raise StemmaError("USAGE", f"The arguments cannot be written as JSON: {error}. Correct them.") from error


def _too_slow(whose: str) -> StemmaError:
    return StemmaError(
        "TIMED_OUT",
        f"{whose} was silent for too long. It may be busy: examine it with `stemma doctor` and try again.",
    )


def _not_stemma(whose: str, how: str) -> StemmaError:
    return StemmaError(
        "SERVER_UNREACHABLE", f"{whose} {how}. Check that a Stemma server of this version listens there."
    )
