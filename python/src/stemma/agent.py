"""The agent on this device, by its local sockets (docs/reference/agent.md): save models, read what a line runs."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stemma.errors import StemmaError
from stemma.tensor_files import Metrics, stream_of, tensors_of

TIMEOUT_SECONDS = 600.0
"""A save of a large model hashes it completely before it is answered."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_RUN_FILE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Saved:
    """A model that the agent has on its disk, and reports when it can."""

    line: str
    version_id: str
    sequence: int
    is_new: bool
    """False where this very model was saved already."""
    base: str | None
    answer: Mapping[str, Any]
    """All of the agent's answer."""


class Agent:
    """The agent that runs on a home of this machine."""

    def __init__(self, home: str | os.PathLike[str] | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
        self.home = Path(home or os.environ.get("STEMMA_AGENT_HOME") or Path.home() / ".stemma-agent")
        self._timeout = timeout

    def save(
        self,
        line: str,
        model: Any,
        *,
        base: str | None = None,
        metrics: Metrics | None = None,
        attachments: Mapping[str, bytes] | None = None,
        again: bool = False,
        as_file: bool = False,
        check: Any = None,
        tolerance: float | None = None,
    ) -> Saved:
        """
        Save a model of a line; returns when it is durable on this device.

        `model` is a state dict, a dict of numpy arrays, a module of PyTorch, or the path of a file. `base` is the
        version that it was trained from, by default the one that the line runs. With `as_file` the file is kept as
        it is where the line has no model yet. `check` has `inputs` and the `outputs` that the model gave for them, as
        arrays or tensors or in a file: the engine has to give the same, within `tolerance`, else nothing is saved.
        """
        if check is None and tolerance is not None:
            raise StemmaError("USAGE", "`tolerance` goes with `check`. Add it, or leave it out.")
        path = self._socket("models")
        request: dict[str, Any] = {"do": "save", "line": line, "metrics": dict(metrics or {})}
        request |= {} if base is None else {"base": base}
        request |= {"again": True} if again else {}
        request |= {"as": "file"} if as_file else {}
        with tempfile.TemporaryDirectory(prefix="stemma-") as name:
            folder = Path(name)
            request["file"] = _as_file(model, folder / "model.safetensors")
            if check is not None:
                request["check"] = {"file": _as_file(check, folder / "check.safetensors")}
                request["check"] |= {} if tolerance is None else {"tolerance": tolerance}
            if attachments:
                (folder / "attachments").mkdir()
                request["attachments"] = [
                    _written(folder / "attachments" / _file_name(each), [content])
                    for each, content in attachments.items()
                ]
            _share(folder, path)
            answer = self._ask(path, request)
        try:
            return Saved(
                line=str(answer["line"]),
                version_id=str(answer["versionId"]),
                sequence=int(answer["sequence"]),
                is_new=answer["isNew"] is True,
                base=answer.get("base"),
                answer=answer,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _unusable(path, f"its answer lacks {error}") from error

    def current(self, line: str) -> dict[str, Any]:
        """Name the folder of the model that a line runs, and its version (docs/reference/current.md)."""
        return self._ask(self._socket("models"), {"do": "current", "line": line})

    def add_samples(self, line: str, samples: Sequence[Any], batch: str | None = None) -> dict[str, Any]:
        """Submit samples to train on; a batch of a name is not taken twice."""
        named = {} if batch is None else {"batch": batch}
        return self._ask(self._socket("samples"), {"do": "samples", "line": line, "samples": list(samples), **named})

    def status(self) -> dict[str, Any]:
        """Show lines, models, link and disk; only for the agent's owner."""
        return self._ask(self._socket("control"), {"do": "status"})

    def _socket(self, name: str) -> str:
        path = self.home / "run.json"
        try:
            with path.open("rb") as file:
                run = json.loads(file.read(MAX_RUN_FILE_BYTES))
            found = run[name]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StemmaError(
                "AGENT_UNREACHABLE",
                f"{path} does not say where an agent listens ({type(error).__name__}). Start the agent with "
                "`stemma agent run`, or name its home.",
            ) from error
        if not isinstance(found, str):
            raise _unusable(os.fspath(path), f"its {name} is not a path")
        return found

    def _ask(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            line = json.dumps({"id": 1, **request}, allow_nan=False).encode("utf-8") + b"\n"
        except (TypeError, ValueError) as error:
            raise StemmaError("USAGE", f"The request cannot be written as JSON: {error}. Correct it.") from error
        if len(line) > MAX_REQUEST_BYTES:
            raise StemmaError("SIZE_OVER_LIMIT", f"The request has more than {MAX_REQUEST_BYTES} bytes. Send less.")
        text = _exchange(path, line, self._timeout)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _unusable(path, "its answer is not JSON") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
            raise _unusable(path, "its answer has another form")
        if not answer["ok"]:
            raise StemmaError(str(answer.get("code", "INTERNAL"))[:64], str(answer.get("message", "")))
        result = answer.get("result")
        if not isinstance(result, dict):
            raise _unusable(path, "its answer has no result")
        return result


def save(
    line: str,
    model: Any,
    *,
    base: str | None = None,
    metrics: Metrics | None = None,
    attachments: Mapping[str, bytes] | None = None,
    check: Any = None,
    tolerance: float | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Saved:
    """Save a model of a line by the agent of a home, by default that of STEMMA_AGENT_HOME or ~/.stemma-agent."""
    return Agent(home).save(
        line, model, base=base, metrics=metrics, attachments=attachments, check=check, tolerance=tolerance
    )


def current(line: str, *, home: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Name the folder of the model that a line runs, and its version."""
    return Agent(home).current(line)


def _exchange(path: str, line: bytes, timeout: float) -> bytes:
    deadline = time.monotonic() + timeout
    parts: list[bytes] = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.settimeout(timeout)
            agent.connect(path)
            agent.sendall(line)
            total = 0
            while not parts or not parts[-1].endswith(b"\n"):
                agent.settimeout(max(0.001, deadline - time.monotonic()))
                piece = agent.recv(64 * 1024)
                total += len(piece)
                if piece == b"" or total > MAX_ANSWER_BYTES:
                    raise _unusable(path, "its answer broke off" if piece == b"" else "its answer is too long")
                parts.append(piece)
    except TimeoutError as error:
        raise StemmaError(
            "TIMED_OUT", f"The agent at {path} did not answer within {timeout:g} s. See its log."
        ) from error
    except OSError as error:
        raise StemmaError(
            "AGENT_UNREACHABLE", f"The agent at {path} cannot be reached: {error}. Start it with `stemma agent run`."
        ) from error
    return b"".join(parts)


def _file_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise StemmaError("USAGE", f"{name!r} cannot be the name of an attached file. Give a plain file name.")
    return name


def _as_file(tensors: Any, path: Path) -> str:
    """Name the file that is given, or write the given tensors into one."""
    if isinstance(tensors, (str, os.PathLike)):
        return os.fspath(Path(tensors).absolute())
    return _written(path, stream_of(tensors_of(tensors)).pieces())


def _written(path: Path, pieces: Any) -> str:
    try:
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise StemmaError("FILE_FAILED", f"{path} cannot be written: {error}. Free some space.") from error
    return os.fspath(path)


def _share(folder: Path, path: str) -> None:
    """Let the agent read temporary files where it is another user, by the group of its socket."""
    try:
        agent = Path(path).stat()
        if agent.st_uid == os.geteuid():
            return
        for each in [folder, *folder.rglob("*")]:
            os.chown(each, -1, agent.st_gid)
            each.chmod(0o750 if each.is_dir() else 0o640)
    except OSError:
        # The agent then says that it cannot read the file.
        return


def _unusable(path: str, why: str) -> StemmaError:
    return StemmaError("AGENT_UNREACHABLE", f"{path} is not that of an agent of this version: {why}. Restart it.")
