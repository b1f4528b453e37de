"""Device arguments: None, an index, a string or a torch.device."""

import torch

from torch_neuronx import _C


def current_device():
    """The current device of this thread. Asking torch would open the device; setting another one than 0 has opened it."""
    return torch._C._accelerator_getDeviceIndex() if _C.is_initialized() else 0


def _get_device_index(device, optional=False, allow_cpu=False):
    """The index that `device` names. Without an index it names the current device; None does so where `optional`."""
    if device is None:
        if not optional:
            raise ValueError("expected a neuron device, but got None")
        return current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "neuron":
            raise ValueError(f"expected a neuron device, but got {device}")
        return current_device() if device.index is None else device.index
    if isinstance(device, bool) or not hasattr(device, "__index__"):
        raise TypeError(f"expected None, an int, a str or a torch.device, but got {type(device).__name__}")
    return device.__index__()


def _checked_index(device):
    """The index, which must name a device of this process; None is the current one."""
    index = _get_device_index(device, optional=True)
    count = _C.device_count()
    if not 0 <= index < count:
        raise RuntimeError(f"invalid device ordinal: neuron:{index} does not exist, this process has {count} neuron device(s)")
    return index
