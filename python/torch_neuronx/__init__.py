"""PyTorch's `neuron` device: a software NeuronCore on the host CPU.

`import torch` is enough: torch finds this package by its entry point and calls `_autoload`. An explicit import works
too, before or after torch, and is what registers the device where autoloading is off.
"""

import os as _os

__version__ = "0.1.0"

_loaded = False


def _autoload():
    """Registers the device once; called at the end of `import torch`."""
    global _loaded
    if _loaded:
        return
    from torch_neuronx import _register

    _register.register()
    _loaded = True


# Names that live in the device module or wait for their first use.
_DEVICE_NAMES = frozenset("""
    Stream Event stream current_stream default_stream set_stream synchronize device_count current_device set_device
    memory_stats memory_summary memory_snapshot memory_allocated max_memory_allocated memory_reserved max_memory_reserved
    reset_peak_memory_stats reset_accumulated_memory_stats mem_get_info empty_cache get_executed_ops get_fallback_ops
    clear_op_tracking fallback_report get_dynamo_metrics reset_dynamo_metrics""".split())


def is_neuron_runtime_initialized():
    """Whether the device has been opened; never opens it."""
    from torch_neuronx import _C

    return _C.is_initialized()


def _not_built(name):
    return NotImplementedError(f"torch_neuronx.{name}: NKI kernels are not implemented in this version of the neuron device; "
                               "write the operator with torch operations or torch.library")


def nki_op(*args, **kwargs):
    raise _not_built("nki_op")


def wrap_nki(*args, **kwargs):
    raise _not_built("wrap_nki")


def __getattr__(name):
    if name in _DEVICE_NAMES:
        from torch_neuronx import neuron

        return getattr(neuron, name)
    if name == "nki":
        raise _not_built(name)
    if name in ("profiling", "distributed", "neuron_dynamo_backend"):
        import importlib

        return importlib.import_module(f"torch_neuronx.{name}")
    raise AttributeError(f"module 'torch_neuronx' has no attribute {name!r}")


def _import_torch_first():
    # torch's own autoload would come back to this half-imported module.
    previous = _os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    _os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch  # noqa: F401
    finally:
        if previous is None:
            del _os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            _os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = previous


_import_torch_first()
_autoload()
