"""Which server is meant: the servers that `stemma context add` remembers, and the variables that commands read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stemma.errors import StemmaError

MAX_FILE_BYTES = 16 * 1024 * 1024
_PEM = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True)
class NamedServer:
    """A server with what is needed to reach it."""

    url: str
    token: str | None = None
    authority: str | None = None
    """PEM of the authority that its certificate is judged by; None: those of the system."""
    fleet: str = "local"


def named_server(
    url: str | None,
    *,
    token: str | None = None,
    authority: str | os.PathLike[str] | None = None,
    fleet: str | None = None,
    context: str | None = None,
) -> NamedServer:
    """Find the server as the commands do: the one named, else STEMMA_SERVER, else the current context."""
    if url is not None and context is not None:
        raise StemmaError("USAGE", "Name either a context or the URL of a server.")
    environment = os.environ
    if url is None and context is None:
        url = environment.get("STEMMA_SERVER") or None
    remembered = {} if url is not None else _context_named(context or environment.get("STEMMA_CONTEXT"))
    return NamedServer(
        url=url if url is not None else str(remembered["server"]),
        token=token or remembered.get("token") or environment.get("STEMMA_TOKEN"),
        authority=(
            read_authority(authority)
            if authority is not None
            else remembered.get("authority") or read_authority(environment.get("STEMMA_CA"))
        ),
        fleet=fleet or environment.get("STEMMA_FLEET") or remembered.get("fleet") or "local",
    )


def read_authority(file: str | os.PathLike[str] | None) -> str | None:
    """Read the PEM of an authority from its file."""
    if not file:
        return None
    text = _read_text(Path(file), "FILE_MISSING", "Name another file.")
    if _PEM not in text:
        raise StemmaError(
            "USAGE",
            f"{os.fspath(file)} does not contain a certificate in PEM. "
            "The one of a server is authority.pem in its home.",
        )
    return text


def contexts_path() -> Path:
    """Name the file in which `stemma context add` keeps servers."""
    configured = os.environ.get("XDG_CONFIG_HOME")
    return (Path(configured) if configured else Path.home() / ".config") / "stemma" / "contexts.json"


def _context_named(name: str | None) -> dict[str, Any]:
    path = contexts_path()
    if name is None and not path.exists():
        raise StemmaError(
            "USAGE", "No server is named. Give its URL, or remember one with `stemma context add NAME --at URL`."
        )
    advice = "Put it right or remove it, and add the contexts again with `stemma context add`."
    try:
        value = json.loads(_read_text(path, "NOT_FOUND", advice))
    except (ValueError, RecursionError) as error:
        raise StemmaError("CONFIG_INVALID", f"{path} is not JSON. {advice}") from error
    contexts = value.get("contexts") if isinstance(value, dict) and value.get("format") == 1 else None
    name = name or (value.get("current") if contexts is not None else None)
    found = contexts.get(name) if isinstance(contexts, dict) and isinstance(name, str) else None
    if found is None:
        raise StemmaError(
            "NOT_FOUND",
            f"There is no context {name!r} in {path}. Add it with `stemma context add NAME --at URL`.",
        )
    members = ("server", "token", "authority", "fleet")
    if not isinstance(found, dict) or not all(isinstance(found.get(each, ""), str) for each in members):
        raise StemmaError("CONFIG_INVALID", f"{path} has another form than `stemma context add` writes. {advice}")
    if "server" not in found:
        raise StemmaError("CONFIG_INVALID", f"The context {name!r} in {path} has no server. {advice}")
    return found


def _read_text(path: Path, code: str, advice: str) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise StemmaError("SIZE_OVER_LIMIT", f"{path} has more than {MAX_FILE_BYTES} bytes. {advice}")
        return text.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StemmaError(code, f"{path} cannot be read: {error}. {advice}") from error
