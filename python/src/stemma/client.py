"""A client of one fleet on a server: save and recover models, compare and measure them, roll them out."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import secrets
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast, overload

from stemma.answers import check_answer, parse_json
from stemma.calls import path_of
from stemma.contexts import NamedServer, named_server
from stemma.errors import StemmaError
from stemma.generated.operations import Operations
from stemma.identities import version_id_of
from stemma.operation import Operation
from stemma.progress import Bar, Progress, counted
from stemma.tensor_files import PIECE_BYTES, Metrics, TensorStream, load, root_of_file, stream_of, tensors_of
from stemma.transport import MAX_ANSWER_BYTES, SILENCE_SECONDS, Answer, Request, Transport

if TYPE_CHECKING:
    import numpy.typing as npt

    from stemma.generated.types import (
        CreateRolloutPolicy,
        EvaluationReport,
        ImportReport,
        ModelDescription,
        ModelDiff,
        RolloutDetail,
        VersionSummary,
    )

IMPORT_TYPE = "application/vnd.stemma.import"
MESSAGE = "commit.message"
"""The member of a version's metadata that `stemma commit` writes its message to."""


@dataclass(frozen=True)
class Version:
    """A saved version. As text it is `name:version`, which every operation takes."""

    name: str
    number: int
    id: str
    """The hash of its save record: a `recover` by it proves that the tensors are those that were saved."""
    report: ImportReport

    def __str__(self) -> str:
        return f"{self.name}:{self.number}"


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    authority: str | os.PathLike[str] | None = None,
    fleet: str | None = None,
    context: str | None = None,
    silence_seconds: float = SILENCE_SECONDS,
) -> Client:
    """
    Name a server; nothing is sent yet.

    Without a URL it is the one in STEMMA_SERVER, else the current one of `stemma context`. `authority` is the file
    with the certificate of the server's authority (`authority.pem` in its home).
    """
    server = named_server(url, token=token, authority=authority, fleet=fleet, context=context)
    return Client(server, silence_seconds)


class Client:
    """One fleet on one server."""

    def __init__(self, server: NamedServer, silence_seconds: float = SILENCE_SECONDS) -> None:
        self.fleet = server.fleet
        self._server = Transport(server, silence_seconds)
        self.api = Operations(self._server.exchange, server.fleet)
        """Every operation of docs/http-api.md whose answer is JSON."""

    def save(
        self,
        name: str,
        model: Any,
        *,
        base: str | Version | None = None,
        line: str | None = None,
        metrics: Metrics | None = None,
        message: str | None = None,
        attachments: Mapping[str, bytes] | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Version:
        """
        Save a model as the next version of `name`; the tensors come back bit for bit.

        `model` is a state dict, a dict of numpy arrays, a module of PyTorch, or the path of a .safetensors, .pt or
        .keras file. `base` is the version that it was trained from: only what changed is stored.
        """
        described = _split_metrics(metrics or {})
        if message is not None:
            described["metadata"][MESSAGE] = message
        options: dict[str, Any] = {"name": name, **described}
        options |= {} if base is None else {"base": str(base)}
        options |= {} if line is None else {"line": line}
        options |= {"force": True} if force else {}
        if attachments:
            options["attachments"] = [
                {"name": each, "base64": base64.b64encode(content).decode("ascii")}
                for each, content in attachments.items()
            ]
        with _opened(model) as (pieces, length, file_name):
            options |= {} if file_name is None else {"fileName": file_name}
            frame = _frame(options)
            total = len(frame) + length
            body = counted(_joined(frame, pieces), total, progress or Bar(f"save {name}"))
            report = self._import(body, total)
        summary = report.get("summary")
        if summary is None:
            raise StemmaError("INTERNAL", f"{self._server.name} saved {name} and did not say as what. Look at its log.")
        return Version(summary["name"], summary["version"], summary["versionId"], report)

    def _import(self, body: Iterator[bytes], length: int) -> ImportReport:
        path = path_of("/v1/fleets/{fleet}/import", {"fleet": self.fleet}, self.fleet)
        headers = {"content-type": IMPORT_TYPE}
        with self._server.open(Request("POST", path, headers, body, length, is_long=True, is_stream=True)) as answer:
            value = parse_json(answer.read_all(MAX_ANSWER_BYTES), self._server.name)
        return cast("ImportReport", check_answer("import", value, self._server.name))

    @overload
    def recover(
        self, version: str | Version, *, into: Literal["numpy"] = ..., progress: Progress | None = ...
    ) -> dict[str, npt.NDArray[Any]]: ...
    @overload
    def recover(
        self, version: str | Version, *, into: Literal["torch"], progress: Progress | None = ...
    ) -> dict[str, Any]: ...
    @overload
    def recover(
        self, version: str | Version, *, file: str | os.PathLike[str], progress: Progress | None = ...
    ) -> Path: ...
    def recover(
        self,
        version: str | Version,
        *,
        into: Literal["numpy", "torch"] = "numpy",
        file: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any] | Path:
        """
        Recover a version's tensors as a dict of arrays, a state dict of PyTorch, or a safetensors file.

        They are streamed to the disk and hashed: their Merkle root has to be that of the save record, and the
        record's hash the version id. By a version id (`Version.id`) the result depends on no word of the server;
        by a name, it says which version the name means. With an architecture it also says which name each tensor has.
        """
        if into not in ("numpy", "torch"):
            raise StemmaError("USAGE", f'Tensors are recovered into "numpy" or "torch", not {into!r}.')
        wanted = version.id if isinstance(version, Version) else version
        described = self.api.model(wanted)
        _check_description(described, wanted, self._server.name)
        target = None if file is None else Path(file)
        folder = None if target is None else target.absolute().parent
        with _temporary_file(folder) as (handle, path):
            with os.fdopen(handle, "wb") as written:
                self._fetch(described, written, progress or Bar(f"recover {described['name']}"))
                written.flush()
                os.fsync(written.fileno())
            leaves = [(leaf["path"], leaf["name"]) for leaf in described["leaves"]]
            if root_of_file(path, leaves) != described["record"]["root"]:
                raise StemmaError(
                    "ROOT_MISMATCH",
                    f"The tensors of {_name_of(described)} that came are not those that were saved; none is returned. "
                    "Recover it again, and examine the server with `stemma model verify`.",
                )
            if target is None:
                return load(path, into)
            path.replace(target)
            _sync_folder(target.absolute().parent)
            return target

    def _fetch(self, described: ModelDescription, written: Any, progress: Progress) -> None:
        parts = {"fleet": self.fleet, "model": described["versionId"]}
        path = path_of("/v1/fleets/{fleet}/models/{model}/tensors", parts, self.fleet)
        request = Request("GET", path + "?story=omit", is_long=True, is_stream=True)
        with self._server.open(request) as answer:
            length = self._checked_length(answer, described)
            done = 0
            try:
                for piece in answer.pieces():
                    done += len(piece)
                    if done > length:
                        break
                    written.write(piece)
                    progress(done, length)
            except OSError as error:
                raise StemmaError(
                    "FILE_FAILED", f"The recovered tensors cannot be written: {error}. Free some space and try again."
                ) from error
        if done != length:
            raise StemmaError(
                "RECOVERY_INCOMPLETE",
                f"The recovery of {_name_of(described)} broke off after {done} of {length} bytes; nothing of it is "
                "used. `stemma model verify` shows whether the stored model is damaged.",
            )

    def _checked_length(self, answer: Answer, described: ModelDescription) -> int:
        length = answer.length()
        tensors = sum(leaf["bytes"] for leaf in described["leaves"])
        if answer.header("stemma-version-id") != described["versionId"] or length < tensors:
            raise StemmaError(
                "SERVER_UNREACHABLE",
                f"{self._server.name} answered with another model than {_name_of(described)}. "
                "Check that a Stemma server of this version listens there.",
            )
        return length

    def log(self, model: str | Version, limit: int | None = None) -> list[VersionSummary]:
        """List the versions that a model was trained from, newest first."""
        return self.api.log(str(model), limit=limit)

    def diff(self, a: str | Version, b: str | Version) -> ModelDiff:
        """Find the tensors that differ between two versions."""
        return self.api.diff(a=str(a), b=str(b))

    def evaluate(
        self, model: str | Version, data: str, *, top: int | None = None, limit: int | None = None
    ) -> EvaluationReport:
        """Measure a version with an architecture on the held-out part of registered data; waits for the result."""
        return self.api.evaluate(str(model), data=data, top=top, limit=limit)

    def rollout(
        self,
        model: str | Version,
        *,
        line: str,
        select: str,
        name: str | None = None,
        policy: CreateRolloutPolicy | None = None,
        start: bool = True,
    ) -> Operation[RolloutDetail]:
        """
        Bring a version to the devices of a selection, wave by wave (docs/rollouts.md).

        The rollout is over when it is done, undone or aborted, or paused for a person; its state says which and why.
        """
        name = name or f"{re.sub('[^A-Za-z0-9_-]', '-', str(model))[:40]}-{secrets.token_hex(4)}"
        self.api.create_rollout(name=name, model=str(model), line=line, select=select, policy=policy, start=start)
        return self.rollout_named(name)

    def rollout_named(self, name: str) -> Operation[RolloutDetail]:
        """Watch a rollout that exists."""
        return Operation(f"The rollout {name}", lambda: self.api.rollout(name), _is_rollout_over)

    def __repr__(self) -> str:
        return f"<stemma.Client of the fleet {self.fleet}: {self._server.name}>"


def _is_rollout_over(state: RolloutDetail) -> bool:
    return state["phase"] not in ("created", "running")


def _name_of(described: ModelDescription) -> str:
    return f"{described['name']}:{described['version']}"


def _check_description(described: ModelDescription, wanted: str, whose: str) -> None:
    """Check that a description is of the version wanted, and its record the one that the version id names."""
    try:
        found = version_id_of(cast("Mapping[str, Any]", described["record"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StemmaError("RECORD_INVALID", f"{whose} sent a save record that cannot be read ({error}).") from error
    is_id = re.fullmatch("[0-9a-f]{64}", wanted) is not None
    # The record's hash covers its objects, and not the member `kind` that follows from them.
    opaque = "architecture" not in described["record"]["objects"]
    misnamed = opaque and any(leaf["path"] != leaf["name"] for leaf in described["leaves"])
    if found != described["versionId"] or (is_id and found != wanted) or misnamed:
        raise StemmaError(
            "RECORD_INVALID",
            f"{whose} described another version than {wanted}: the hash of its save record is {found[:12]}. "
            "Examine the server with `stemma storage check`.",
        )


def _split_metrics(metrics: Metrics) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for name, value in metrics.items():
        if name == "measurements":
            continue
        if isinstance(value, (bool, str)):
            metadata[name] = value
        elif hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
            metadata[name] = _finite(name, value.item())
        elif isinstance(value, (int, float)):
            metadata[name] = _finite(name, value)
        else:
            raise StemmaError(
                "USAGE", f"The metric {name} is a {type(value).__name__}: give a text, number or boolean."
            )
    measurements: Sequence[Any] | None = metrics.get("measurements")
    return {"metadata": metadata} | ({} if not measurements else {"measurements": list(measurements)})


def _finite(name: str, value: float) -> float:
    if math.isfinite(value):
        return value
    raise StemmaError("NOT_A_NUMBER", f"The metric {name} is {value}. Leave it out, or give it as text.")


def _frame(options: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(options, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise StemmaError("USAGE", f"The metrics cannot be written as JSON: {error}. Correct them.") from error
    return struct.pack("<I", len(text)) + text


def _joined(frame: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield frame
    yield from pieces


@contextmanager
def _opened(model: Any) -> Iterator[tuple[Iterator[bytes], int, str | None]]:
    """Give a model's bytes, their number, and the name of its file."""
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            file = path.open("rb")
        except OSError as error:
            raise StemmaError("FILE_MISSING", f"{path} cannot be read: {error}. Name another file.") from error
        with file:
            length = os.fstat(file.fileno()).st_size
            yield _file_pieces(file, path, length), length, os.fspath(path)
        return
    stream: TensorStream = stream_of(tensors_of(model))
    yield stream.pieces(), stream.length, None


def _file_pieces(file: BinaryIO, path: Path, length: int) -> Iterator[bytes]:
    left = length
    while left > 0:
        try:
            piece = file.read(min(left, PIECE_BYTES))
        except OSError as error:
            raise StemmaError("FILE_FAILED", f"{path} cannot be read: {error}. Nothing was saved.") from error
        if piece == b"":
            raise StemmaError("FILE_CHANGED", f"{path} became shorter while it was read. Nothing was saved; try again.")
        left -= len(piece)
        yield piece


@contextmanager
def _temporary_file(folder: Path | None) -> Iterator[tuple[int, Path]]:
    path = (folder or Path(tempfile.gettempdir())) / f".stemma-{secrets.token_hex(8)}.safetensors"
    try:
        # A file that the caller named has the mode of any new file; another is this user's alone.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if folder is None else 0o666)
    except OSError as error:
        raise StemmaError("FILE_FAILED", f"No file can be made there: {error}. Name another folder.") from error
    try:
        yield handle, path
    finally:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
