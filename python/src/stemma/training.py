"""
Records how a training went, next to the model it made: seeds, optimiser, schedule, order of samples, losses.

`TorchRecorder` is for a plain loop of PyTorch, `keras_recorder` makes a callback of Keras. Both save at the end, with
a `Client` to a server or with an `Agent` on a device.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from stemma.agent import Agent, Saved
from stemma.client import Client, Version
from stemma.errors import StemmaError

MAX_ORDER = 100_000
"""The most sample numbers that are kept as they were; of more there is the digest alone."""
MAX_MEASUREMENTS = 10_000
ORDER_FILE = "sample-order.json"
FACTS_FILE = "training-facts.json"
_MAX_SETTINGS = 200
_MAX_MEMBERS_OF_AGENT = 98


class Recorder:
    """What was done in a training. Begin it before the first random number is drawn."""

    def __init__(self, seeds: Mapping[str, int] | None = None) -> None:
        self._facts: dict[str, Any] = {f"seed.{name}": str(seed) for name, seed in (seeds or {}).items()}
        self._facts["random.python"] = _digest_of(random.getstate())
        self._facts["random.numpy"] = _digest_of(np.random.get_state())
        self._digest = hashlib.sha256()
        self._order: list[list[int]] = []
        self._samples = 0
        self._measurements: list[dict[str, Any]] = []
        self.iteration = 0
        """Steps so far."""
        self.epoch = 0
        """Complete epochs so far."""

    def settings(self, name: str, values: Mapping[str, Any]) -> None:
        """Record settings, such as those of the optimiser: numbers, texts and booleans as they are."""
        for key, value in list(values.items())[:_MAX_SETTINGS]:
            self._facts[f"{name}.{key}"[:256]] = _plain(value)

    def batch(self, numbers: Iterable[int]) -> None:
        """Record the numbers of the samples of one batch, in their order."""
        batch = [int(number) for number in numbers]
        self._digest.update(struct.pack(f"<Q{len(batch)}q", len(batch), *batch))
        self._samples += len(batch)
        if self._samples <= MAX_ORDER:
            self._order.append(batch)
        else:
            self._order.clear()

    def measure(
        self,
        loss: float | None,
        learning_rate: float | None = None,
        validation: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Record what was measured at this point of the training; numbers that are not finite count as not known."""
        if len(self._measurements) >= MAX_MEASUREMENTS:
            return
        point: dict[str, Any] = {
            "iteration": self.iteration,
            "epoch": self.epoch,
            "loss": _known(loss),
            "learningRate": _known(learning_rate),
        }
        point |= {} if validation is None else {"validation": _known(validation)}
        point |= {} if not metrics else {"metrics": {name: _known(value) for name, value in metrics.items()}}
        self._measurements.append(point)

    def metrics(self) -> dict[str, Any]:
        """Give all that was recorded, as `save` takes it."""
        order = {"samples.order": self._digest.hexdigest(), "samples.count": self._samples}
        facts = self._facts | (order if self._samples > 0 else {"samples.order": "not recorded"})
        return {**facts, "measurements": list(self._measurements)}

    def attachments(self) -> dict[str, bytes]:
        """Give the order of the samples as a file, where there are at most `MAX_ORDER`."""
        return {ORDER_FILE: json.dumps(self._order).encode("utf-8")} if self._order else {}

    def save(
        self,
        target: Client | Agent,
        name: str,
        model: Any,
        *,
        base: str | Version | None = None,
        metrics: Mapping[str, Any] | None = None,
        message: str | None = None,
    ) -> Version | Saved:
        """Save the model with the record; `name` is a model's on a server, a line's on a device."""
        facts = {**self.metrics(), **(metrics or {})}
        attachments = self.attachments()
        if not isinstance(target, Agent):
            return target.save(name, model, base=base, metrics=facts, message=message, attachments=attachments)
        # An agent takes no metrics in a measurement, and fewer members: then they are in a file.
        points = [{key: each[key] for key in each if key != "metrics"} for each in facts.pop("measurements")]
        facts |= {} if message is None else {"message": message}
        if len(facts) > _MAX_MEMBERS_OF_AGENT:
            attachments[FACTS_FILE] = json.dumps(facts).encode("utf-8")
            facts = {**(metrics or {}), "facts": FACTS_FILE}
        named = None if base is None else str(base)
        return target.save(name, model, base=named, metrics={**facts, "measurements": points}, attachments=attachments)


class TorchRecorder(Recorder):
    """Records a plain training loop of PyTorch."""

    def __init__(self, optimizer: Any, scheduler: Any = None, seeds: Mapping[str, int] | None = None) -> None:
        import torch

        super().__init__({"torch": torch.initial_seed(), **(seeds or {})})
        self._facts["random.torch"] = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()
        self._facts["torch.version"] = str(torch.__version__)
        self._facts["torch.threads"] = torch.get_num_threads()
        self._facts["torch.deterministic"] = torch.are_deterministic_algorithms_enabled()
        self._optimizer = optimizer
        self._facts["optimizer.class"] = type(optimizer).__name__
        for number, group in enumerate(optimizer.param_groups):
            prefix = "optimizer" if number == 0 else f"optimizer.group{number}"
            self.settings(prefix, {key: value for key, value in group.items() if key != "params"})
        if scheduler is not None:
            self._facts["schedule.class"] = type(scheduler).__name__
            self.settings("schedule", {key: each for key, each in scheduler.state_dict().items() if key[0] != "_"})
        self._loss_sum = 0.0
        self._losses = 0

    def watch(self, loader: Any) -> Iterable[Any]:
        """Give a DataLoader's batches, in its order, and record which samples are in them."""
        from torch.utils.data import DataLoader, IterableDataset

        if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
            raise StemmaError(
                "USAGE", "The samples of this loader have no numbers. Call batch() with names of your own, or omit it."
            )
        drawn: list[list[int]] = []
        workers: dict[str, Any] = {"num_workers": loader.num_workers, "timeout": loader.timeout}
        if loader.num_workers > 0:
            workers |= {"prefetch_factor": loader.prefetch_factor, "persistent_workers": loader.persistent_workers}
            workers |= {"multiprocessing_context": loader.multiprocessing_context}
        same: DataLoader[Any] = DataLoader(
            loader.dataset,
            batch_sampler=_Drawn(loader.batch_sampler, drawn),
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            worker_init_fn=loader.worker_init_fn,
            generator=loader.generator,
            **workers,
        )
        return _Watched(same, drawn, self)

    def step(self, loss: Any) -> None:
        """Count one step of the optimiser, with its loss."""
        self.iteration += 1
        self._loss_sum += float(loss.detach()) if hasattr(loss, "detach") else float(loss)
        self._losses += 1

    def end_epoch(self, validation: float | None = None, metrics: Mapping[str, float] | None = None) -> None:
        """End an epoch: the mean loss of its steps becomes a measurement, with the learning rate at its end."""
        self.epoch += 1
        mean = self._loss_sum / self._losses if self._losses > 0 else None
        self._loss_sum, self._losses = 0.0, 0
        self.measure(mean, _known(float(self._optimizer.param_groups[0]["lr"])), validation, metrics)


class _Drawn:
    """A sampler of batches that keeps what it gave out until a batch is used."""

    def __init__(self, sampler: Any, drawn: list[list[int]]) -> None:
        self._sampler = sampler
        self._drawn = drawn

    def __iter__(self) -> Iterator[list[int]]:
        self._drawn.clear()
        for batch in self._sampler:
            self._drawn.append(list(batch))
            yield batch

    def __len__(self) -> int:
        return len(self._sampler)


class _Watched:
    """The batches of a loader; a batch counts once the loop gets it, not when a worker prepares it."""

    def __init__(self, loader: Any, drawn: list[list[int]], recorder: Recorder) -> None:
        self._loader = loader
        self._drawn = drawn
        self._recorder = recorder

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            self._recorder.batch(self._drawn.pop(0))
            yield batch

    def __len__(self) -> int:
        return len(self._loader)


def keras_recorder(
    target: Client | Agent | None = None,
    name: str | None = None,
    *,
    base: str | Version | None = None,
    message: str | None = None,
    seeds: Mapping[str, int] | None = None,
) -> Any:
    """
    Make a callback for `fit` of Keras 3 that records a training, and saves the model when it ends.

    It has the record as `recorder` and the saved version as `saved`. Keras does not tell a callback in which order it
    takes samples: give `fit` what `callback.shuffled(inputs, targets, …)` makes, and the order is recorded too.
    """
    from stemma.keras_callback import make_callback

    if target is not None and name is None:
        raise StemmaError("USAGE", "A model that is saved has a name. Give one.")

    def save(recorder: Recorder, path: str) -> Version | Saved | None:
        if target is None:
            return None
        return recorder.save(target, str(name), path, base=base, message=message)

    return make_callback(Recorder(seeds), save)


def _digest_of(state: Any) -> str:
    return hashlib.sha256(
        repr([each.tolist() if hasattr(each, "tolist") else each for each in state]).encode()
    ).hexdigest()


def _known(value: Any) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None


def _plain(value: Any) -> str | float | bool:
    """Keep what JSON has; a whole number that JSON would round, and all else, becomes text."""
    if isinstance(value, (bool, str)):
        return value[:4096] if isinstance(value, str) else value
    if isinstance(value, (int, float)) and math.isfinite(value) and abs(value) <= 2**53:
        return value
    return repr(value)[:4096]
