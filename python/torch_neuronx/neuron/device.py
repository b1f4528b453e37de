"""Devices: how many, which is current, what they are. Counting never opens one."""

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import _checked_index, _get_device_index, current_device


def is_available():
    return _C.device_count() > 0


def device_count():
    return _C.device_count()


def is_initialized():
    """Whether the device has been opened in this process; False in a forked child."""
    return _C.is_initialized()


def init():
    """Opens the device; the first use does it as well."""
    _C.init()


def _lazy_init():
    _C.init()


def _is_in_bad_fork():
    return _C.in_bad_fork()


def set_device(device):
    """Makes a device the current one of this thread: an int, a str or a torch.device. A negative index does nothing."""
    index = _get_device_index(device)
    if index >= 0:
        torch._C._accelerator_setDeviceIndex(index)


def _exchange_device(index):
    return torch._C._accelerator_exchangeDevice(index) if index >= 0 else -1


def _maybe_exchange_device(index):
    return torch._C._accelerator_maybeExchangeDevice(index) if index >= 0 else -1


class device:
    """Context in which a device is the current one; None or a negative index changes nothing."""

    def __init__(self, device):
        self.idx = -1 if device is None else _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exc_info):
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context in which the device of a tensor or storage is the current one; nothing happens for a host tensor."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "is_neuron", False) else -1)


def synchronize(device=None):
    """Waits for everything queued on all streams of a device; raises the error that is pending there."""
    index = _checked_index(device)
    if _C.in_bad_fork():
        _C.init()  # raises
    if _C.is_initialized():
        torch._C._accelerator_synchronizeDevice(index)


def reset_device(device=None):
    """Waits for a device, drops errors pending there, gives cached memory back and starts its statistics anew."""
    index = _checked_index(device)
    if not _C.is_initialized():
        return
    _C.drain(index)
    torch._C._accelerator_emptyCache()
    torch._C._accelerator_resetAccumulatedStats(index)
    torch._C._accelerator_resetPeakStats(index)


class DeviceProperties:
    """The chip that is modelled, and the host that runs it.

    `name`, `major`, `minor` and `modelled_memory` are those of the chip; `total_memory` is what this host lets the device
    hold and `multi_processor_count` the number of host threads of one operator."""

    __slots__ = ("name", "major", "minor", "total_memory", "multi_processor_count", "modelled_memory", "host_cpu", "isa",
                 "physical_cores")

    def __init__(self, **values):
        for name in self.__slots__:
            setattr(self, name, values[name])

    def __repr__(self):
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"NeuronDeviceProperties({values})"


def get_device_properties(device=None):
    return DeviceProperties(**_C.device_properties(_checked_index(device)))


def get_device_name(device=None):
    """`neuron:<index>`; the chip's name is get_device_properties().name."""
    return f"neuron:{_checked_index(device)}"


def get_device_capability(device=None):
    """The generation of the modelled NeuronCore as (major, minor)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device, peer_device):
    return _checked_index(device) != _checked_index(peer_device)


def _sleep(cycles):
    """Keeps the current stream busy for `cycles` of a 1.4 GHz clock."""
    _C.sleep(cycles)
