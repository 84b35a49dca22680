import hashlib
import struct

import numpy as np
import pytest

from stemma.errors import StemmaError
from stemma.operation import Operation
from stemma.training import MAX_MEASUREMENTS, MAX_ORDER, Recorder, TorchRecorder, keras_recorder


def digest_of(batches):
    return hashlib.sha256(b"".join(struct.pack(f"<Q{len(b)}q", len(b), *b) for b in batches)).hexdigest()


def test_the_order_is_a_digest_and_itself_only_where_it_is_small():
    recorder = Recorder()
    assert recorder.metrics()["samples.order"] == "not recorded"
    recorder.batch(np.array([2, 0]))
    recorder.batch([1])
    assert recorder.metrics()["samples.order"] == digest_of([[2, 0], [1]])
    assert recorder.attachments() == {"sample-order.json": b"[[2, 0], [1]]"}
    recorder.batch(range(MAX_ORDER))
    assert recorder.attachments() == {}
    assert recorder.metrics()["samples.count"] == MAX_ORDER + 3


def test_measurements_are_bounded_and_what_is_not_finite_is_not_known():
    recorder = Recorder()
    recorder.measure(float("nan"), 0.1, float("inf"), {"a": float("nan")})
    assert recorder.metrics()["measurements"] == [
        {"iteration": 0, "epoch": 0, "loss": None, "learningRate": 0.1, "validation": None, "metrics": {"a": None}}
    ]
    for _ in range(MAX_MEASUREMENTS + 5):
        recorder.measure(1.0)
    assert len(recorder.metrics()["measurements"]) == MAX_MEASUREMENTS


def test_the_random_state_is_recorded():
    np.random.seed(1)
    one = Recorder().metrics()["random.numpy"]
    np.random.seed(2)
    assert Recorder().metrics()["random.numpy"] != one


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_of_pytorch_is_recorded_and_gets_the_same_batches(workers):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(10, dtype=torch.float32).reshape(10, 1), torch.arange(10))

    def run(watched):
        torch.manual_seed(7)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        recorder = TorchRecorder(optimizer, scheduler)
        loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
        seen = []
        for _ in range(2):
            for inputs, numbers in recorder.watch(loader) if watched else loader:
                seen.append(numbers.tolist())
                optimizer.zero_grad()
                loss = model(inputs).square().mean()
                loss.backward()
                optimizer.step()
                recorder.step(loss)
            scheduler.step()
            recorder.end_epoch()
        return seen, recorder, model.state_dict()

    seen, recorder, state = run(watched=True)
    plain, _, plain_state = run(watched=False)
    assert seen == plain
    assert all(torch.equal(state[name], plain_state[name]) for name in state)
    metrics = recorder.metrics()
    assert metrics["samples.order"] == digest_of(seen)
    assert (metrics["optimizer.class"], metrics["optimizer.lr"], metrics["optimizer.momentum"]) == ("SGD", 0.01, 0.9)
    assert (metrics["schedule.class"], metrics["schedule.gamma"], metrics["seed.torch"]) == ("StepLR", 0.5, "7")
    assert [point["learningRate"] for point in metrics["measurements"]] == [0.005, 0.0025]
    assert [(point["iteration"], point["epoch"]) for point in metrics["measurements"]] == [(3, 1), (6, 2)]


def test_a_loop_that_ends_early_records_the_batches_that_it_got():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, IterableDataset

    recorder = TorchRecorder(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0))
    loader = recorder.watch(DataLoader(list(range(8)), batch_size=2, num_workers=2))
    seen = []
    for batch in loader:
        seen.append(batch.tolist())
        if len(seen) == 2:
            break
    seen.extend(batch.tolist() for batch in loader)
    assert len(loader) == 4
    assert recorder.metrics()["samples.order"] == digest_of(seen)

    class Endless(IterableDataset):
        def __iter__(self):
            return iter([1])

    with pytest.raises(StemmaError) as raised:
        recorder.watch(DataLoader(Endless()))
    assert raised.value.code == "USAGE"


@pytest.mark.parametrize("steps", [1, 3])
def test_a_fit_of_keras_is_recorded(monkeypatch, steps):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    seen = []
    inputs = np.arange(10, dtype=np.float32).reshape(10, 1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    model.compile(keras.optimizers.SGD(schedule), "mse", steps_per_execution=steps)
    callback = keras_recorder(seeds={"keras": 3})
    dataset = callback.shuffled(inputs, inputs, batch_size=4, seed=5)
    take = dataset.__class__.__getitem__
    monkeypatch.setattr(dataset.__class__, "__getitem__", lambda self, i: seen.append(self.numbers(i)) or take(self, i))
    model.fit(dataset, epochs=2, shuffle=False, verbose=0, callbacks=[callback])
    metrics = callback.recorder.metrics()
    # Keras looks at the first batch once more, to learn its shape.
    assert metrics["samples.order"] in (digest_of(seen), digest_of(seen[1:]))
    assert metrics["samples.count"] == 20
    assert (metrics["schedule.class"], metrics["schedule.decay_rate"]) == ("ExponentialDecay", 0.5)
    assert metrics["optimizer.class"] == "SGD"
    assert [point["iteration"] for point in metrics["measurements"]] == [3, 6]
    assert all(point["loss"] > 0 for point in metrics["measurements"])


def test_waiting_ends_with_the_operation_or_in_time():
    states = iter(["a", "b", "done"])
    told = []
    work = Operation("The work", lambda: next(states), lambda state: state == "done")
    assert work.wait(on_progress=told.append, poll_seconds=0) == "done"
    assert told == ["a", "b", "done"]
    with pytest.raises(StemmaError) as raised:
        Operation("The work", lambda: "a", lambda _: False).wait(timeout=0.01, poll_seconds=0.005)
    assert raised.value.code == "TIMED_OUT"
