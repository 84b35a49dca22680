"""The callback of `stemma.training.keras_recorder`; Keras is imported when one is made."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stemma.training import Recorder

Save = Callable[["Recorder", str], Any]


def make_callback(recorder: Recorder, save: Save) -> Any:
    """Make the callback for `fit`."""
    import keras

    class StemmaCallback(keras.callbacks.Callback):  # type: ignore[misc]
        """Records a training, and saves the model when it ends."""

        def __init__(self) -> None:
            super().__init__()
            self.recorder = recorder
            self.saved: Any = None
            self._dataset: Any = None
            self._seen = 0

        def shuffled(self, inputs: Any, targets: Any, *, batch_size: int = 32, seed: int = 0) -> Any:
            """Give a dataset whose order is recorded: shuffled by the seed alone, and anew in each epoch."""
            recorder.settings("samples", {"seed": seed, "batchSize": batch_size})
            self._dataset = _shuffled(keras, inputs, targets, batch_size, seed)
            return self._dataset

        def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
            optimizer = self.model.optimizer
            recorder.settings("keras", {"version": keras.__version__, "backend": keras.backend.backend()})
            recorder.settings("optimizer", {"class": type(optimizer).__name__, **optimizer.get_config()})
            rate = optimizer.get_config().get("learning_rate")
            if isinstance(rate, dict):
                recorder.settings("schedule", {"class": rate.get("class_name"), **rate.get("config", {})})

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            self._seen = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            # With steps_per_execution, one call stands for several batches.
            for each in range(self._seen, batch + 1):
                recorder.iteration += 1
                if self._dataset is not None:
                    recorder.batch(self._dataset.numbers(each))
            self._seen = batch + 1

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            recorder.epoch = epoch + 1
            values = dict(logs or {})
            rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
            loss, validation = values.pop("loss", None), values.pop("val_loss", None)
            recorder.measure(loss, rate, validation, values)

        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
            with tempfile.TemporaryDirectory(prefix="stemma-") as folder:
                path = str(Path(folder) / "model.keras")
                self.model.save(path)
                self.saved = save(recorder, path)

    return StemmaCallback()


def _shuffled(keras: Any, inputs: Any, targets: Any, batch_size: int, seed: int) -> Any:
    class Shuffled(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._epoch = 0
            self._order = self._drawn()

        def _drawn(self) -> Any:
            return np.random.default_rng([seed, self._epoch]).permutation(len(inputs))

        def __len__(self) -> int:
            return -(-len(inputs) // batch_size)

        def numbers(self, batch: int) -> list[int]:
            return [int(each) for each in self._order[batch * batch_size : (batch + 1) * batch_size]]

        def __getitem__(self, batch: int) -> Any:
            numbers = self.numbers(batch)
            return inputs[numbers], targets[numbers]

        def on_epoch_end(self) -> None:
            self._epoch += 1
            self._order = self._drawn()

    return Shuffled()
