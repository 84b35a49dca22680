"""
What each layer of a PyTorch model gives on fixed inputs, forward and backward, to compare two machines.

`probe` writes a summary that `stemma probe diff` compares (docs/probe.md). It needs neither Node nor a server.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from stemma.errors import StemmaError
from stemma.identities import canonical_json, leaf_hash, root_of, tensor_hasher
from stemma.tensor_files import described, written_bytes

_MAX_LAYERS = 20_000
_MAX_INPUTS = 1000
_MAX_OUTPUTS = 1000
_MAX_WEIGHTS = 20_000
_MAX_OPERATIONS = 256
_SAMPLE = 8
_PIECE = 1 << 20
_PHASES = ("evaluation", "training", "backward")


def probe(
    model: Any,
    inputs: Any,
    file: str | os.PathLike[str] | None = None,
    *,
    seed: int = 1,
    loss: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """
    Evaluate the model and run one step of training without the update, and keep figures of every layer.

    `inputs` is a tensor, or a tuple of the model's arguments. `loss` takes the model's outputs and gives a tensor of
    one number; absent, it is the sum of all floating-point outputs, each times a fixed number. `seed` is set before
    each pass. Buffers, gradients, hooks, modes and the random state are afterwards as before. The summary goes into
    `file`; absent, into `probe.json` in the folder that STEMMA_RUN names, where `stemma probe --exec` looks for it.
    """
    path = _path_of(file)
    found = _Probe(model, inputs if isinstance(inputs, tuple) else (inputs,), seed)
    with _undisturbed(model, _tensors(found.inputs)):
        found.run(loss or _fixed_loss)
    summary = found.summary()
    summary["sum"] = hashlib.sha256(b"stemma-probe-1\0" + canonical_json(summary)).hexdigest()
    path.write_bytes(canonical_json(summary))
    return summary


def _path_of(file: str | os.PathLike[str] | None) -> Path:
    if file is not None:
        return Path(file)
    folder = os.environ.get("STEMMA_RUN")
    if not folder:
        raise StemmaError("USAGE", "Name the file of the summary, or run the program with `stemma probe --exec`.")
    return Path(folder) / "probe.json"


@dataclass
class _Pass:
    outputs: list[dict[str, Any] | None] = field(default_factory=list)
    operations: list[dict[str, str]] = field(default_factory=list)
    unlisted: int = 0

    def written(self) -> dict[str, Any]:
        return {"outputs": self.outputs, "operations": self.operations, "unlisted": self.unlisted}


@dataclass(eq=False)
class _Layer:
    """One call of a module; a module that is called again is another layer."""

    name: str
    module: Any
    call: int
    inputs: list[tuple[_Layer, int]] = field(default_factory=list)
    passes: dict[str, _Pass] = field(default_factory=dict)

    def has_modules(self) -> bool:
        """Tell whether there are modules in it."""
        return any(True for _ in self.module.children())

    def is_own(self) -> bool:
        """Tell whether it computes something besides what the modules in it do."""
        return not self.has_modules() or any(each.operations or each.unlisted for each in self.passes.values())


class _Probe:
    def __init__(self, model: Any, inputs: tuple[Any, ...], seed: int) -> None:
        if not 0 <= seed < 2**64:
            raise StemmaError("USAGE", "A seed is a whole number below 2^64.")
        self._model = model
        self.inputs = inputs
        self._seed = seed
        self._names = {module: name for name, module in model.named_modules()}
        self._layers: dict[tuple[str, int], _Layer] = {}
        """In the order in which they ended first: a module after those in it."""
        self._calls: dict[str, int] = {}
        self._active: list[_Layer] = []
        self._hooks: list[Any] = []
        self._is_looking = False
        """True while figures are computed, by operations that are not the model's."""
        self._phase = ""
        self._loss: dict[str, Any] | None = None
        self._gradients: dict[str, dict[str, Any] | None] = {}

    def run(self, loss: Callable[[Any], Any]) -> None:
        with self._watched():
            self._evaluate()
            value = self._train(loss)
            self._loss = self._look(value)
            self._phase = "backward"
            if value.requires_grad:
                value.backward()
        for name, parameter in self._model.named_parameters():
            self._gradients[name] = None if parameter.grad is None else _figures(parameter.grad)

    def _evaluate(self) -> None:
        import torch

        self._begin("evaluation")
        with torch.no_grad():
            self._model.eval()(*self.inputs)

    def _train(self, loss: Callable[[Any], Any]) -> Any:
        self._begin("training")
        value = loss(self._model.train()(*self.inputs))
        if getattr(value, "numel", lambda: 0)() != 1:
            raise StemmaError("USAGE", "The loss is not a tensor of one number. Sum or average it.")
        return value

    def _begin(self, phase: str) -> None:
        import torch

        torch.manual_seed(self._seed)
        self._phase = phase
        self._calls = {}
        # A module may give what it gets, so that the tensors that are there before a pass have places of the last one.
        for tensor in (*self._model.parameters(), *self._model.buffers(), *_tensors(self.inputs)):
            vars(tensor).pop("_stemma_place", None)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        for module in self._names:
            self._hooks.append(module.register_forward_pre_hook(self._enter))
            self._hooks.append(module.register_forward_hook(self._leave))
        try:
            with _operations(self._keep_operation):
                yield
        finally:
            for hook in self._hooks:
                hook.remove()
            self._begin("")

    def _enter(self, module: Any, arguments: Any) -> None:
        if self._phase == "backward":  # A checkpoint computes its modules once more; these are no gradients.
            return
        name = self._names[module]
        call = self._calls.get(name, 0)
        self._calls[name] = call + 1
        layer = self._layers.get((name, call)) or _Layer(name, module, call)
        layer.passes[self._phase] = _Pass()
        if not layer.inputs:
            places = [getattr(tensor, "_stemma_place", None) for tensor in _tensors(arguments)[:_MAX_INPUTS]]
            layer.inputs = [place for place in places if place is not None]
        self._active.append(layer)

    def _leave(self, module: Any, _arguments: Any, result: Any) -> None:
        if self._phase == "backward":
            return
        layer = self._active.pop()
        while layer.module is not module:
            # One that raised an error, which the modules around it took, has not ended.
            layer = self._active.pop()
        self._layers.setdefault((layer.name, layer.call), layer)
        if len(self._layers) > _MAX_LAYERS:
            raise StemmaError("USAGE", f"It calls more than {_MAX_LAYERS} modules. Probe a part of it.")
        outputs = _tensors(result)
        if len(outputs) > _MAX_OUTPUTS:
            raise StemmaError(
                "USAGE", f"{_word(layer.name or 'model')} gives more than {_MAX_OUTPUTS} tensors. Probe a part of it."
            )
        for output, tensor in enumerate(outputs):
            layer.passes[self._phase].outputs.append(self._look(tensor))
            if not layer.has_modules() or getattr(tensor, "_stemma_place", None) is None:
                tensor._stemma_place = (layer, output)
            if self._phase == "training" and tensor.requires_grad:
                backward = layer.passes.setdefault("backward", _Pass())
                backward.outputs += [None] * (output + 1 - len(backward.outputs))
                self._hooks.append(tensor.register_hook(self._keeper(backward, output)))

    def _look(self, tensor: Any) -> dict[str, Any]:
        self._is_looking = True
        try:
            return _figures(tensor)
        finally:
            self._is_looking = False

    def _keeper(self, backward: _Pass, output: int) -> Callable[[Any], None]:
        def keep(gradient: Any) -> None:
            backward.outputs[output] = self._look(gradient)

        return keep

    def _keep_operation(self, name: str, results: Any) -> None:
        # Nobody tells for which module PyTorch runs an operation of the backward pass.
        if self._is_looking or not self._active or self._phase == "backward":
            return
        # What is not initialised, and the bytes that some kernels leave for the backward pass, may be anything.
        tensors = [tensor for tensor in _tensors(results) if str(tensor.dtype) != "torch.uint8"]
        if "empty" in name or not tensors:
            return
        done = self._active[-1].passes[self._phase]
        if len(done.operations) >= _MAX_OPERATIONS:
            done.unlisted += 1
            return
        digest = hashlib.sha256()
        for tensor in tensors:
            digest.update(_values(tensor)[1].tobytes())
        kernel = f"{tensors[0].device.type} torch"
        done.operations.append({"name": name, "kernel": kernel, "digest": digest.hexdigest()[:16]})

    def summary(self) -> dict[str, Any]:
        """Give all that was found, as docs/formats.md describes it, without its sum."""
        kept = [layer for layer in self._layers.values() if layer.is_own()]
        if not kept:
            raise StemmaError("USAGE", "The model computes nothing in its modules, so nothing was probed.")
        places = {layer: index for index, layer in enumerate(kept)}
        weights = self._weights_by_layer(kept)
        return {
            "format": 1,
            "kind": "stemma-probe",
            "model": self._described(),
            "inputs": {
                "seed": str(self._seed),
                "batch": _batch_of(self.inputs),
                "tensors": [_figures(tensor) for tensor in _tensors(self.inputs)],
            },
            "environment": _environment(_tensors(self.inputs)),
            "layers": [self._written(layer, places, weights.get(layer, [])) for layer in kept],
            "loss": self._loss,
            "refused": None,
            "runs": {"count": 1, "differing": 0},
        }

    def _described(self) -> dict[str, Any]:
        modules = [
            [
                name,
                type(module).__name__,
                {key: list(each.shape) for key, each in module.named_parameters(recurse=False)},
            ]
            for module, name in self._names.items()
        ]
        return {
            "architecture": hashlib.sha256(b"stemma-probe-modules-1\0" + canonical_json(modules)).hexdigest(),
            "root": _root_of(self._model.state_dict()),
            "weights": "own",
            "parameters": sum(parameter.numel() for parameter in self._model.parameters()),
        }

    def _weights_by_layer(self, kept: Sequence[_Layer]) -> dict[_Layer, list[dict[str, Any]]]:
        """Give each gradient of a weight to the module that has it, else to the nearest one around it that ran."""
        owners = {layer.name: layer for layer in kept if layer.call == 0}
        weights: dict[_Layer, list[dict[str, Any]]] = {}
        if len(self._gradients) > _MAX_WEIGHTS:
            raise StemmaError("USAGE", f"It has more than {_MAX_WEIGHTS} weights. Probe a part of it.")
        for name, gradient in self._gradients.items():
            owner = name.rpartition(".")[0]
            while owner and owner not in owners:
                owner = owner.rpartition(".")[0]
            layer = owners.get(owner, kept[-1])
            short = name.removeprefix(f"{layer.name}.") if layer.name else name
            others = weights.setdefault(layer, [])
            others.append({"name": _unlike(_word(short), len(others), others), "gradient": gradient})
        return weights

    def _written(
        self, layer: _Layer, places: Mapping[_Layer, int], weights: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        passes = {name: layer.passes.get(name) for name in _PHASES}
        written = {name: None if each is None else each.written() for name, each in passes.items()}
        if weights or written["backward"] is not None:
            written["backward"] = {
                **(written["backward"] or _Pass().written()),
                "weights": list(weights),
            }
        first = places.get(self._layers[layer.name, 0])
        return {
            "name": _word(layer.name or "model"),
            "className": _word(type(layer.module).__name__),
            "inputs": [{"layer": places[of], "output": output} for of, output in layer.inputs if of in places],
            **({} if layer.call == 0 or first is None else {"sharedWith": first}),
            **written,
        }


def _root_of(tensors: Mapping[str, Any]) -> str:
    """Compute the Merkle root that the tensors have as a version of a model without an architecture."""
    leaves = []
    for name in sorted(tensors, key=lambda name: name.encode("utf-8")):
        dtype, shape, _ = described(name, tensors[name])
        hasher = tensor_hasher(dtype, shape)
        hasher.update(written_bytes(tensors[name]))
        leaves.append(leaf_hash(name, hasher.digest()))
    return root_of(leaves).hex()


def _unlike(name: str, number: int, others: Sequence[Mapping[str, Any]]) -> str:
    """Give a name that none of the others has: two long ones may be the same where they are cut."""
    return f"{name[:70]}:{number}" if any(other["name"] == name for other in others) else name


def _word(text: str) -> str:
    return "".join(each if each.isascii() and (each.isalnum() or each in "_.:+-") else "_" for each in text)[:80]


@contextmanager
def _operations(keep: Callable[[str, Any], None]) -> Iterator[None]:
    """Tell of each operation with its results, as PyTorch dispatches it to a kernel."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(_mode: Any, operation: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        keep(_word(str(operation)), result)
        return result

    watch: Any = type("Watch", (TorchDispatchMode,), {"__torch_dispatch__": dispatch})
    with watch():
        yield


@contextmanager
def _undisturbed(model: Any, inputs: Sequence[Any]) -> Iterator[None]:
    """Put back what a pass changes in the model and the gradients of its inputs, and the random state."""
    torch: Any = import_module("torch")

    modes = [(module, module.training) for module in model.modules()]
    named = [(module, dict(module._buffers)) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    leaves = [tensor for tensor in (*model.parameters(), *inputs) if tensor.is_leaf]
    gradients = [(tensor, tensor.grad) for tensor in leaves]
    # A seed is set on every GPU that was begun with, whether the model is there or not.
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        for tensor, _ in gradients:
            tensor.grad = None
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for module, own in named:
                module._buffers.update(own)
            with torch.no_grad():
                for buffer, values in buffers:
                    buffer.copy_(values)
            for tensor, gradient in gradients:
                tensor.grad = gradient


def _fixed_loss(outputs: Any) -> Any:
    import torch

    total = None
    for tensor in _tensors(outputs):
        tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        if tensor.is_floating_point():
            weights = (torch.arange(tensor.numel(), device=tensor.device) % 7 + 1) / 8
            term = (tensor * weights.to(tensor.dtype).reshape(tensor.shape)).sum()
            total = term if total is None else total + term
    if total is None:
        raise StemmaError("USAGE", "The model gives no floating-point tensor. Name the loss: probe(…, loss=…).")
    return total


def _tensors(value: Any) -> list[Any]:
    """Give the tensors in what a module takes or gives, in their order."""
    if hasattr(value, "detach") and hasattr(value, "numel"):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for each in value.values() for tensor in _tensors(each)]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


def _batch_of(inputs: tuple[Any, ...]) -> int:
    first = next(iter(_tensors(inputs)), None)
    return int(first.shape[0]) if first is not None and first.dim() > 0 else 1


def _values(tensor: Any) -> tuple[str, np.ndarray[Any, Any]]:
    """Give an element type of summaries, and the values: those of 16 bits and less as float32, which is exact."""
    import torch

    plain = _plain(tensor).cpu()
    if plain.dtype == torch.bool:
        return "BOOL", plain.numpy().astype(np.uint8).reshape(-1)
    if plain.dtype == torch.float64:
        name, values = "F64", plain.contiguous().numpy().reshape(-1)
    elif plain.is_floating_point():
        name = {torch.float16: "F16", torch.bfloat16: "BF16"}.get(plain.dtype, "F32")
        values = plain.float().contiguous().numpy().reshape(-1)
    else:
        name, dtype = ("I64", torch.int64) if plain.element_size() > 4 else ("I32", torch.int32)
        values = plain.to(dtype).contiguous().numpy().reshape(-1)
    if values.dtype.kind == "f" and np.isnan(values).any():
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return name, values


def _plain(tensor: Any) -> Any:
    """Give the tensor without its history: a sparse one in full, a complex one with its two parts as the last axis."""
    import torch

    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    return torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain


def _figures(tensor: Any) -> dict[str, Any]:
    """Give what is kept of a tensor (docs/formats.md, "Probe"): equal values have equal figures on every machine."""
    dtype, values = _values(tensor)
    numbers = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    square = 0.0
    for begin in range(0, len(values), _PIECE):
        piece = values[begin : begin + _PIECE].astype(np.float64)
        # A cumulative sum adds in order, where a sum adds in pairs.
        squares = piece[np.isfinite(piece)] ** 2
        square = float(np.cumsum(np.concatenate(([square], squares)))[-1])
    positions = list(range(len(values)))
    if len(values) > _SAMPLE:
        positions = [index * (len(values) - 1) // (_SAMPLE - 1) for index in range(_SAMPLE)]
    return {
        "dtype": dtype,
        "shape": list(_plain(tensor).shape),
        "digest": hashlib.sha256(values.tobytes()).hexdigest(),
        "min": _number(numbers.min()) if len(numbers) else None,
        "max": _number(numbers.max()) if len(numbers) else None,
        "norm": _number(math.sqrt(square)),
        "nan": len(values) - len(numbers),
        "infinite": int(np.isinf(numbers).sum()) if values.dtype.kind == "f" else 0,
        "sample": [_number(values[position]) for position in positions],
    }


def _number(value: Any) -> float | int:
    """Give a number as canonical JSON writes it: whole ones as such."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 and str(number) != "-0.0" else number


def _environment(inputs: Sequence[Any]) -> dict[str, str]:
    torch: Any = import_module("torch")
    device = inputs[0].device if inputs else torch.device("cpu")
    facts: dict[str, Any] = {
        "backend": device.type,
        "threads": torch.get_num_threads(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "library.torch": torch.__version__,
        "library.numpy": np.__version__,
        "torch.deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch.mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        "torch.precision": torch.get_float32_matmul_precision(),
        "torch.instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["library.cuda"] = torch.version.cuda
        facts["library.cudnn"] = torch.backends.cudnn.version()
        facts["torch.cudnn.benchmark"] = torch.backends.cudnn.benchmark
    return {name: str(value)[:200] for name, value in facts.items()}
