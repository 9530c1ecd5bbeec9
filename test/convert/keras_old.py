"""Rewrites .h5 files of Keras 3 in the form of Keras 2, before version 2.3, for keras_models.py.

Calls are lists, inputs say `batch_input_shape`, sequential models are plain lists without an input layer, functional
ones have the class Model, and weights have the number of a result behind their names.
"""
import json

import h5py


class NotOld(Exception):
    """The model has something that Keras 2 did not write so."""


def is_tensor(value):
    return isinstance(value, dict) and value.get("class_name") == "__keras_tensor__"


def tensors(value):
    if is_tensor(value):
        return [value["config"]["keras_history"]]
    if isinstance(value, list):
        return [tensor for item in value for tensor in tensors(item)]
    raise NotOld("an argument that is no tensor")


def settings(value):
    """The configuration of a layer that is no model, or a part of it."""
    if isinstance(value, list):
        return [settings(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") == "DTypePolicy":
        return value["config"]["name"]
    names = {"batch_shape": "batch_input_shape"}
    unknown = ("module", "registered_name", "build_config", "optional")
    return {names.get(key, key): settings(item) for key, item in value.items() if key not in unknown}


def bidirectional(config):
    """Both layers had one configuration, with the name that the layer had before."""
    forward, backward = config["layer"], config.pop("backward_layer")
    name = forward["config"]["name"].removeprefix("forward_")
    if "backward_" + name != backward["config"]["name"]:
        raise NotOld("two layers of different types")
    forward["config"]["name"] = name
    return config


def call(keras_3, models):
    """One of a layer's calls. Models within the model count their calls from 1 on."""
    def reference(history):
        return [history[0], history[1] + (history[0] in models), history[2]]

    ignored = ("mask", "training")
    if "__keras_tensor__" in json.dumps(keras_3["kwargs"].get("mask")):
        raise NotOld("a mask among the arguments")
    keywords = {name: value for name, value in keras_3["kwargs"].items() if value is not None and name not in ignored}
    inputs = tensors(keywords.pop("query", [])) + tensors(keras_3["args"]) + tensors(keywords.pop("initial_state", []))
    keywords = {name: reference(tensors(value)[0]) if is_tensor(value) else value for name, value in keywords.items()}
    return [[*reference(history), keywords] for history in inputs]


def functional(config):
    def names(*types):
        return {layer["config"]["name"] for layer in config["layers"] if layer["class_name"] in types}

    models, from_0 = names("Functional", "Sequential"), names("Sequential")  # Keras 3 counts outputs of others from 1 on
    layers = [{**old_layer(layer), "name": layer["name"],
               "inbound_nodes": [call(node, models) for node in layer["inbound_nodes"]]} for layer in config["layers"]]

    def ends(ports):
        ports = [ports] if isinstance(ports[0], str) else ports
        return [[name, number + (name in from_0), result] for name, number, result in ports]

    return {"name": config["name"], "layers": layers, "input_layers": ends(config["input_layers"]),
            "output_layers": ends(config["output_layers"])}


def sequential(config):
    layers = [old_layer(layer) for layer in config["layers"]]
    types = [layer["class_name"] for layer in layers]
    if types[0] != "InputLayer" or "Model" in types or "Sequential" in types:
        raise NotOld("a model without a shape, or models without names")
    shape, dtype = (layers[0]["config"][field] for field in ("batch_input_shape", "dtype"))
    layers[1]["config"].update(batch_input_shape=shape, dtype=dtype)
    return layers[1:]


def old_layer(layer):
    kind, config = layer["class_name"], layer["config"]
    if kind == "Functional":
        return {"class_name": "Model", "config": functional(config)}
    if kind == "Sequential":
        return {"class_name": kind, "config": sequential(config)}
    inner = {"layer": old_layer(config["layer"])} if kind == "TimeDistributed" else {}
    config = {**settings(config), **inner}
    return {"class_name": kind, "config": bidirectional(config) if kind == "Bidirectional" else config}


def rewrite(path):
    """Rewrites the file in place; raises NotOld where Keras 2 had no such model."""
    with h5py.File(path, "r+") as file:
        model = json.loads(file.attrs["model_config"])
        text = json.dumps(model)
        if "hard_sigmoid" in text:
            raise NotOld("hard_sigmoid was another function")
        if model["class_name"] != "Sequential" and ("Masking" in text or '"mask_zero": true' in text):
            raise NotOld("masks of several inputs, and masks beside states, had other meanings")
        file.attrs["model_config"] = json.dumps(old_layer(model))
        file.attrs["keras_version"] = "2.2.0"
        weights, names = file["model_weights"], []
        weights.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in names:
            weights.move(name, name + ":0")
