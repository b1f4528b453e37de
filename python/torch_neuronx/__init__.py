"""PyTorch's `neuron` device: a software NeuronCore on the host CPU."""

import atexit
import os
import types

_loaded = False


def _autoload():
    """Entry point of the group torch.backends: registers the device once."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    import torch
    torch.utils.rename_privateuse1_backend("neuron")
    from torch_neuronx import _C
    module = types.ModuleType("torch.neuron")
    module.is_available = lambda: _C.device_count() > 0
    module.device_count = _C.device_count
    module.is_initialized = _C.is_initialized
    module.current_device = torch.accelerator.current_device_index
    module._is_in_bad_fork = lambda: False
    module.fallback_report = _C.fallback_rows
    torch._register_device_module("neuron", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.set_autocast_dtype("neuron", torch.bfloat16)
    atexit.register(_C.quiesce)


_previous = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch as _torch  # noqa: E402  (its own autoload would re-enter this module)
if _previous is None:
    del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
else:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = _previous
_autoload()
