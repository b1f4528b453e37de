"""torch.compile(backend="neuron"). Importing this package does not import Dynamo."""

from torch_neuronx.neuron_dynamo_backend import config, metrics


def __getattr__(name):
    if name in ("backend", "device_interface", "host_inputs"):
        import importlib

        return importlib.import_module(f"torch_neuronx.neuron_dynamo_backend.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["config", "metrics"]
