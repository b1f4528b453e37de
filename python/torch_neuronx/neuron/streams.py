"""Streams and events. They are torch.Stream and torch.Event with the constructors of an accelerator's own module."""

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import _checked_index


class _OfNeuron(type):
    """Whatever torch hands out for this device counts as an instance: torch.accelerator.current_stream() is a
    torch.neuron.Stream."""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        base = cls.__dict__.get("_torch_class")
        return base is not None and isinstance(instance, base) and instance.device.type == "neuron"


class Stream(torch.Stream, metaclass=_OfNeuron):
    """An in-order queue of a device. Streams run independently of each other; a lower `priority` runs first."""

    _torch_class = torch.Stream

    def __new__(cls, device=None, priority=0, **identity):
        if identity:  # stream_id, device_index, device_type: an existing stream
            return super().__new__(cls, **identity)
        return super().__new__(cls, device=torch.device("neuron", _checked_index(device)), priority=priority)

    @property
    def priority(self):
        return _C.stream_priority(self.device_index, self.stream_id)

    def __repr__(self):
        return f"torch.neuron.Stream(device={self.device}, stream_id={self.stream_id})"


class ExternalStream(Stream):
    """The stream whose `native_handle` is `stream_ptr`."""

    def __new__(cls, stream_ptr, device=None):
        index = _checked_index(device)
        stream_id = _C.stream_id_of_handle(index, int(stream_ptr))
        if stream_id < 0:
            raise ValueError(f"{stream_ptr:#x} is not the native handle of a stream of neuron:{index}")
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_device_type())


class Event(torch.Event, metaclass=_OfNeuron):
    """A point in a stream's order. With `enable_timing`, elapsed_time() is the measured time in milliseconds between the
    moments at which the streams reached two events.

    The constructor returns a plain torch.Event of this device, because torch.Event.elapsed_time() takes no other."""

    _torch_class = torch.Event

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("torch.neuron.Event: events cannot be shared between processes")
        return torch.Event(device="neuron", enable_timing=enable_timing, blocking=blocking)


def _device_type():
    return int(torch._C._autograd.DeviceType.PrivateUse1)


def current_stream(device=None):
    """The stream that this thread's work on `device` goes to."""
    return torch._C._accelerator_getStream(_checked_index(device))


def default_stream(device=None):
    return Stream(stream_id=0, device_index=_checked_index(device), device_type=_device_type())


def set_stream(stream):
    """Sends this thread's work to a stream and makes the stream's device current; None does nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


def _set_stream_by_id(stream_id, device_index, device_type):
    set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


class StreamContext:
    """Context in which a stream, and its device, is the current one; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            index = self.stream.device_index
            self._outer_device = torch._C._accelerator_getDeviceIndex()
            self._outer_stream = torch._C._accelerator_getStream(index)
            torch._C._accelerator_setStream(self.stream)

    def __exit__(self, *exc_info):
        if self.stream is not None:
            torch._C._accelerator_setStream(self._outer_stream)
            torch._C._accelerator_setDeviceIndex(self._outer_device)
        return False


def stream(stream):
    return StreamContext(stream)
