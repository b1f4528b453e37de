"""Registers the device with torch, in the one order that works; everything that happens at import is here.

Nothing opens the device or starts a thread, and neither Dynamo nor Inductor is imported.
"""

import atexit
import logging
import os
import sys

import torch

from torch_neuronx import _settings

BUILT_FOR = "2.13"
logger = logging.getLogger("torch_neuronx")


def register():
    _settings.validate()
    _configure_logging()
    if _settings.get("TORCH_NEURONX_DYNAMO_BACKEND_ONLY"):
        return
    _check_torch()
    # The C++ registries match the device by its final name, so the name comes first.
    torch.utils.rename_privateuse1_backend("neuron")
    _load_glue()
    from torch_neuronx import neuron

    torch._register_device_module("neuron", neuron)
    for name, module in neuron.SUBMODULES.items():
        sys.modules[f"torch.neuron.{name}"] = module
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True,
        unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8])
    torch.set_autocast_dtype("neuron", torch.bfloat16)
    from torch_neuronx import _patches

    _patches.apply()
    neuron.config.apply()
    _register_process_group()
    from torch_neuronx import _exit

    atexit.register(_exit.quiesce)


def _check_torch():
    version = torch.__version__.split("+")[0]
    if version.split(".")[:2] != BUILT_FOR.split("."):
        raise ImportError(f"this build of torch_neuronx is for torch {BUILT_FOR}.x, but torch {torch.__version__} is installed. "
                          f"Install torch=={BUILT_FOR}.0 or rebuild open-torchneuron for your version; "
                          "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps `import torch` from loading it.")
    owner = torch._C._get_privateuse1_backend_name()
    registered = getattr(torch._C, "_accelerator_getAccelerator", lambda: None)()
    if owner not in ("privateuseone", "neuron") or (registered is not None and registered.type not in ("neuron", "cpu")):
        taken = owner if owner not in ("privateuseone", "neuron") else registered.type
        raise RuntimeError(f"torch_neuronx cannot register the device 'neuron': this process already has the accelerator "
                           f"'{taken}' from another library, and torch allows one. Uninstall that library or set "
                           "TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only the one you need.")


def _load_glue():
    try:
        from torch_neuronx import _C  # noqa: F401
    except ImportError as error:
        raise ImportError(f"torch_neuronx's extension does not load into torch {torch.__version__}: {error}. It was built for "
                          f"another torch or Python; rebuild open-torchneuron against the installed ones.") from error


def _configure_logging():
    own = [name for name in ("TORCH_NEURONX_LOG_LEVEL", "TORCH_NEURONX_LOG_FILE", "NEURON_RT_LOG_LEVEL") if os.environ.get(name)]
    if not own or "neuron" in os.environ.get("TORCH_LOGS", ""):
        # torch configures the loggers that it knows, and takes their handlers away.
        torch._logging._internal.register_log("neuron", "torch_neuronx")
        return
    path = _settings.get("TORCH_NEURONX_LOG_FILE")
    handler = logging.FileHandler(path) if path else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    level = "NEURON_RT_LOG_LEVEL" if own == ["NEURON_RT_LOG_LEVEL"] else "TORCH_NEURONX_LOG_LEVEL"
    logger.setLevel(_settings.get(level))


def _register_process_group():
    """init_process_group("neuron") says what is missing instead of "unknown backend"."""
    if not torch.distributed.is_available():
        return

    def refuse(*_args):
        raise NotImplementedError("init_process_group('neuron'): collectives are not implemented on the neuron device yet; "
                                  "init_process_group('gloo') serves CPU tensors")

    torch.distributed.Backend.register_backend("neuron", refuse, extended_api=True, devices=["neuron"])
