"""What Dynamo asks of a device, and the functions of torch.neuron that it may trace through."""

import torch
from torch._dynamo import device_interface

from torch_neuronx import neuron


class NeuronInterface(device_interface.DeviceInterface):
    device = neuron.device
    Event = neuron.Event
    Stream = neuron.Stream

    class Worker:
        """Worker processes know what their parent recorded; they open no device."""

        @staticmethod
        def set_device(device):
            device_interface.caching_worker_current_devices["neuron"] = device

        @staticmethod
        def current_device():
            return device_interface.caching_worker_current_devices.get("neuron", neuron.current_device())

        @staticmethod
        def get_device_properties(device=None):
            cached = device_interface.caching_worker_device_properties
            if "neuron" not in cached:
                cached["neuron"] = [neuron.get_device_properties(index) for index in range(neuron.device_count())]
            if device is None:
                return cached["neuron"][NeuronInterface.Worker.current_device()]
            return cached["neuron"][neuron._get_device_index(device, optional=True)]

    current_device = staticmethod(neuron.current_device)
    set_device = staticmethod(neuron.set_device)
    device_count = staticmethod(neuron.device_count)
    is_available = staticmethod(neuron.is_available)
    stream = staticmethod(neuron.stream)
    current_stream = staticmethod(neuron.current_stream)
    set_stream = staticmethod(neuron.set_stream)
    _set_stream_by_id = staticmethod(neuron._set_stream_by_id)
    synchronize = staticmethod(neuron.synchronize)
    get_device_properties = staticmethod(neuron.get_device_properties)
    memory_allocated = staticmethod(neuron.memory_allocated)
    exchange_device = staticmethod(neuron._exchange_device)
    maybe_exchange_device = staticmethod(neuron._maybe_exchange_device)
    get_compute_capability = staticmethod(neuron.get_device_capability)

    @staticmethod
    def get_raw_stream(device_idx):
        return neuron.current_stream(device_idx).native_handle

    @staticmethod
    def is_bf16_supported(including_emulation=False):
        return True

    @staticmethod
    def is_triton_capable(device=None):
        return False

    @staticmethod
    def raise_if_triton_unavailable(device=None):
        raise RuntimeError("neuron has no Triton; use torch.compile(backend='neuron')")


def register():
    """Called when Dynamo has been imported."""
    device_interface.register_interface_for_device("neuron", NeuronInterface)
    for index in range(neuron.device_count()):
        device_interface.register_interface_for_device(f"neuron:{index}", NeuronInterface)
    _trace_like_the_accelerator()


def _trace_like_the_accelerator():
    """Dynamo knows current_stream() and synchronize() of the devices it has heard of by the functions' identity."""
    from torch._dynamo import trace_rules
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    handlers = TorchInGraphFunctionVariable._get_handlers()
    for name in ("current_stream", "synchronize"):
        ours = getattr(neuron, name)
        handlers[ours] = handlers[getattr(torch.accelerator, name)]
        trace_rules.get_torch_obj_rule_map()[ours] = TorchInGraphFunctionVariable
