"""A model of Keras: trained with a recorder, saved with its layers, and run by a device that makes a child of it."""

import json
import secrets

import numpy as np
import pytest

import stemma
from stemma.training import keras_recorder


def test_a_model_of_keras_keeps_its_layers_up_to_a_device_and_back(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    device_module = pytest.importorskip("stemma.device")
    fleet = stemma.connect()
    name = f"keras-{secrets.token_hex(4)}"
    inputs = np.arange(12, dtype=np.float32).reshape(6, 2)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = keras_recorder(fleet, name, message="two epochs")
    data = callback.shuffled(inputs / 12, inputs.sum(1) / 12, batch_size=4, seed=1)
    model.fit(data, epochs=2, shuffle=False, verbose=0, callbacks=[callback])
    described = fleet.api.model(str(callback.saved))
    assert described["record"]["kind"] == "architecture"
    assert described["metadata"]["commit.message"] == "two epochs"
    assert [point["iteration"] for point in described["measurements"]] == [2, 4]
    order = fleet.api.attachment(str(callback.saved), "sample-order.json")
    assert order["byteLength"] > 10
    recovered = fleet.recover(callback.saved)
    assert sorted(each.tobytes() for each in recovered.values()) == sorted(
        np.asarray(each).tobytes() for each in model.get_weights()
    )

    invitation = fleet.api.invite(device=name, lines=["net"], initial={"net": str(callback.saved)}, force=True)
    (tmp_path / "invitation.json").write_text(json.dumps(invitation))
    device_module.enrol(tmp_path / "home", tmp_path / "invitation.json")
    device = device_module.Device(tmp_path / "home")
    device.connect()
    device.wait(lambda: device.current("net") is not None, 30)
    from safetensors.numpy import load_file

    tensors = load_file(device.current("net") / "model.safetensors")
    child = device.save("net", {path: tensor + 1 for path, tensor in tensors.items()})
    device.wait(lambda: device.standing(child) == "released", 30)
    device.close()
    assert fleet.api.model(child)["record"]["kind"] == "architecture"
    assert {name: (each + 1).tobytes() for name, each in recovered.items()} == {
        name: each.tobytes() for name, each in fleet.recover(child).items()
    }
