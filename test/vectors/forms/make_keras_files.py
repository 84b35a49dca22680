"""Writes the Keras files of this folder and what Keras predicts. No test runs it.

Run once each with Keras 3.15.1 (argument 3) and tf-keras 2.21 (argument 2), on TensorFlow 2.21. Further arguments are
names of models: only they are made, and their predictions added. So `grus` was, on PyTorch 2.15.
"""
import json
import sys

import numpy as np

version = sys.argv[1]
if version == "3":
    import keras
else:
    import tf_keras as keras
layers, Input = keras.layers, keras.Input
random = np.random.default_rng(35)


def two_inputs():
    left, right = Input((4,), name="left"), Input((3,), name="right")
    # The layer "same" is in the nested model and outside of it.
    encoder = keras.Sequential([Input((4,)), layers.Dense(3, "swish", name="same")], name="encoder")
    joined = layers.Concatenate()([layers.Add()([encoder(left), right]), right])
    joined = layers.LayerNormalization()(layers.Dense(3, name="same")(joined))
    return keras.Model([left, right], [layers.Dense(2, name="one")(joined), layers.Dense(1, name="two")(joined)])


def chain(*parts):
    return keras.Sequential(list(parts))


models = {
    "cnn": chain(
        Input((5, 5, 2)),
        layers.Conv2D(3, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(2),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(2, activation="softmax"),
    ),
    "two": two_inputs(),
    "lstm": chain(
        Input((4, 2)),
        layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
        layers.TimeDistributed(layers.Dense(3)),
        layers.LSTM(2),
        layers.Dense(1),
    ),
    "gru": chain(Input((4, 2)), layers.GRU(2), layers.Dense(1)),
    "grus": chain(
        Input((4, 2)),
        layers.Bidirectional(layers.GRU(2, return_sequences=True)),
        layers.GRU(3, go_backwards=True, use_bias=False),
        layers.Dense(1),
    ),
}
only = sys.argv[2:]
models = {name: model for name, model in models.items() if not only or name in only}
wanted = {
    "3": ["cnn.keras", "two.keras", "two.h5", "lstm.keras", "gru.keras", "gru.weights.h5", "grus.keras", "grus.h5"],
    "2": ["cnn.h5", "two.keras", "two.h5", "lstm.h5"],
}[version]
if "cnn" in models:
    models["cnn"].compile("adam", "mse")
predicted = {}
if only:
    with open(f"keras-{version}.json") as source:
        predicted = json.load(source)
for name, model in models.items():
    for weight in model.weights:
        values = random.normal(size=weight.shape) * 0.5
        weight.assign(np.abs(values) + 0.5 if "variance" in weight.name else values)
    inputs = [random.normal(size=(2, *each.shape[1:])).astype("float32") for each in model.inputs]
    outputs = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    predicted[name] = {
        "inputs": [{"shape": each.shape, "values": each.ravel().tolist()} for each in inputs],
        "outputs": [each.ravel().tolist() for each in outputs],
    }
for file in wanted:
    name, ending = file.split(".", 1)
    if name not in models:
        continue
    path = f"{name}-{version}.{ending}"
    if ending == "weights.h5":
        models[name].save_weights(path)
    else:
        models[name].save(path)
with open(f"keras-{version}.json", "w") as target:
    json.dump(predicted, target)
