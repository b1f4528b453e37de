"""The places where torch 2.13 names its devices and leaves no hook. Each patch changes nothing for other devices, is
applied once, and goes when torch offers a way."""

import functools
import operator

import torch

from torch_neuronx import _C
from torch_neuronx._hooks import when_imported

_applied = False


def apply():
    global _applied
    if _applied:
        return
    _applied = True
    _patch_dlpack()
    _patch_set_num_threads()
    _patch_multiprocessing()
    when_imported("torch.nn.attention.flex_attention", _patch_flex_attention)
    when_imported("torch._dynamo", _register_with_dynamo)
    when_imported("torch._inductor.codegen.common", _refuse_inductor)


def _patch_dlpack():
    """Tensor.__dlpack_device__ compares with the literal "privateuse1", which no renamed device has."""
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self):
        if type(self) is torch.Tensor or type(self) is torch.nn.Parameter:
            device = self.device
            if device.type == "neuron":
                from torch.utils.dlpack import DLDeviceType

                return DLDeviceType.kDLExtDev, device.index or 0
        return original(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _patch_set_num_threads():
    """torch.set_num_threads() sets the threads of the device, too, unless TORCH_NEURONX_NUM_THREADS does."""
    from torch_neuronx import _settings

    original = torch.set_num_threads

    @functools.wraps(original)
    def set_num_threads(count):
        original(count)
        if _settings.get("TORCH_NEURONX_NUM_THREADS") is None and not _C.in_bad_fork():
            _C.set_num_threads(operator.index(count))

    torch.set_num_threads = set_num_threads


def _patch_multiprocessing():
    """A neuron tensor in a queue or pipe of torch.multiprocessing fails in code for CPU memory; say what to do instead."""
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    def guard(reducer, device_of):
        @functools.wraps(reducer)
        def reduce(value):
            if device_of(value) == "neuron":
                raise RuntimeError("neuron tensors cannot be sent to another process: their memory belongs to this process's device. "
                                   "Send a .cpu() copy.")
            return reducer(value)

        return reduce

    def storage_device(storage):
        return getattr(storage, "_untyped_storage", storage).device.type

    tensor_reducer = guard(reductions.reduce_tensor, lambda tensor: tensor.device.type)
    for kind in (torch.Tensor, torch.nn.parameter.Parameter, *torch._tensor_classes):
        ForkingPickler.register(kind, tensor_reducer)
    storage_reducer = guard(reductions.reduce_storage, storage_device)
    for kind in torch._storage_classes:
        if kind.__name__ == "UntypedStorage":
            ForkingPickler.register(kind, storage_reducer)
        else:
            ForkingPickler.register(kind, guard(reductions.reduce_typed_storage_child, storage_device))
    ForkingPickler.register(torch.storage.TypedStorage, guard(reductions.reduce_typed_storage, storage_device))


def _patch_flex_attention():
    """FlexAttention's own list of devices does not know this one."""
    from torch.nn.attention import flex_attention

    original = flex_attention._validate_device

    @functools.wraps(original)
    def _validate_device(query, key, value):
        if query.device.type != "neuron":
            original(query, key, value)

    flex_attention._validate_device = _validate_device


def _register_with_dynamo():
    from torch_neuronx.neuron_dynamo_backend import device_interface

    device_interface.register()


def _refuse_inductor():
    """torch.compile's default backend looks the device up in tables of its own; without an entry that is a KeyError."""
    from torch._inductor.codegen import common

    class NoWrapper:
        supports_caching = False

        @staticmethod
        def create(*args, **kwargs):
            raise NotImplementedError("torch.compile's default backend, inductor, makes no code for neuron; use "
                                      'torch.compile(..., backend="neuron")')

    common.register_device_op_overrides("neuron", common.DeviceOpOverrides())
    common.register_backend_for_device("neuron", lambda scheduler: None, NoWrapper)
