"""What `torch.neuron` is: devices, memory, streams, random numbers, mixed precision and what ran where."""

from torch_neuronx.neuron import _utils, amp, device as _device, memory, profiler, random, streams, tracking
from torch_neuronx.neuron._utils import _get_device_index
from torch_neuronx.neuron.amp import get_amp_supported_dtype, is_bf16_supported
from torch_neuronx.neuron.config import config
from torch_neuronx.neuron.device import (
    _exchange_device, _is_in_bad_fork, _lazy_init, _maybe_exchange_device, _sleep, can_device_access_peer, current_device, device,
    device_count, device_of, get_device_capability, get_device_name, get_device_properties, init, is_available, is_initialized,
    reset_device, set_device, synchronize)
from torch_neuronx.neuron.memory import (
    empty_cache, max_memory_allocated, max_memory_reserved, mem_get_info, memory_allocated, memory_reserved, memory_snapshot,
    memory_stats, memory_stats_as_nested_dict, memory_summary, reset_accumulated_memory_stats, reset_peak_memory_stats,
    set_per_process_memory_fraction)
from torch_neuronx.neuron.random import (
    _get_generator, default_generators, get_rng_state, get_rng_state_all, initial_seed, manual_seed, manual_seed_all, seed, seed_all,
    set_rng_state, set_rng_state_all)
from torch_neuronx.neuron.streams import (
    Event, ExternalStream, Stream, StreamContext, current_stream, default_stream, set_stream, stream, _set_stream_by_id)
from torch_neuronx.neuron.tracking import (
    clear_op_tracking, expect_no_fallback, fallback_report, get_executed_ops, get_fallback_ops)

SUBMODULES = {"_utils": _utils, "amp": amp, "memory": memory, "profiler": profiler, "random": random, "streams": streams}


def get_dynamo_metrics():
    """One row per graph that `torch.compile(backend="neuron")` has built."""
    from torch_neuronx.neuron_dynamo_backend import metrics

    return metrics.get_dynamo_metrics()


def reset_dynamo_metrics():
    from torch_neuronx.neuron_dynamo_backend import metrics

    metrics.reset_dynamo_metrics()


def __getattr__(name):
    # torch.utils.checkpoint reads it to know whether there is a random state to keep.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'torch.neuron' has no attribute {name!r}")
