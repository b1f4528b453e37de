"""Device memory: statistics in the schema of torch's other accelerators, limits, the snapshot and the history."""

from collections import OrderedDict

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import _checked_index
from torch_neuronx.neuron.snapshot import _dump_snapshot, _record_memory_history, _snapshot, memory_snapshot  # noqa: F401


def empty_cache():
    """Gives cached memory that no tensor uses back to the system."""
    if _C.is_initialized():
        torch._C._accelerator_emptyCache()


def memory_stats_as_nested_dict(device=None):
    """The allocator's counters; empty before the device has been opened. Work that is still queued may hold memory:
    synchronize() first for exact numbers."""
    index = _checked_index(device)
    if not _C.is_initialized():
        return {}
    stats = dict(torch._C._accelerator_getDeviceStats(index))
    stats["num_tensor_frees"] = _C.memory_tensor_frees(index)
    stats["allocation_requests"] = stats["allocation"]["all"]["allocated"]
    return stats


def memory_stats(device=None):
    """The counters under flat names such as "allocated_bytes.all.current"."""
    rows = []

    def flatten(prefix, value):
        if isinstance(value, dict):
            for name, inner in value.items():
                flatten(f"{prefix}.{name}" if prefix else name, inner)
        else:
            rows.append((prefix, value))

    flatten("", memory_stats_as_nested_dict(device))
    return OrderedDict(sorted(rows))


def _stat(name, device):
    return memory_stats(device).get(name, 0)


def memory_allocated(device=None):
    """Bytes that tensors hold."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device=None):
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device=None):
    """Bytes taken from the system: tensors and cache."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device=None):
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device=None):
    """Sets every peak to its present value."""
    index = _checked_index(device)
    if _C.is_initialized():
        torch._C._accelerator_resetPeakStats(index)


def reset_accumulated_memory_stats(device=None):
    """Sets the running totals to zero."""
    index = _checked_index(device)
    if _C.is_initialized():
        torch._C._accelerator_resetAccumulatedStats(index)


def mem_get_info(device=None):
    """(free, total) bytes: what tensors may still take, and the limit of the device on this host."""
    return torch._C._accelerator_getMemoryInfo(_checked_index(device))


def set_per_process_memory_fraction(fraction, device=None):
    """Limits this process to a fraction, in (0, 1], of the device's memory."""
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 < fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: (0, 1]")
    _C.set_memory_fraction(_checked_index(device), float(fraction))


def _format_bytes(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 10240 or unit == "GiB":
            return f"{size:.0f} {unit}"
        size /= 1024


_SUMMARY_ROWS = (
    ("Allocated memory", "allocated_bytes", _format_bytes), ("Active memory", "active_bytes", _format_bytes),
    ("Requested memory", "requested_bytes", _format_bytes), ("Reserved memory", "reserved_bytes", _format_bytes),
    ("Non-releasable memory", "inactive_split_bytes", _format_bytes), ("Allocations", "allocation", str),
    ("Active allocations", "active", str), ("Segments", "segment", str), ("Non-releasable allocations", "inactive_split", str))


def memory_summary(device=None, abbreviated=False):
    """The statistics as a table; `abbreviated` leaves the two pools out."""
    index = _checked_index(device)
    stats = memory_stats(index)
    line = "|" + "-" * 27 + ("|" + "-" * 13) * 4 + "|"
    title = f"torch.neuron memory summary, device {index}: {stats.get('num_ooms', 0)} OOMs, {stats.get('num_alloc_retries', 0)} retries"
    lines = [title, line, f"| {'Metric':26}|{'Current':>12} |{'Peak':>12} |{'Total alloc':>12} |{'Total freed':>12} |", line]
    for label, name, form in _SUMMARY_ROWS:
        for pool in ("all",) if abbreviated else ("all", "large_pool", "small_pool"):
            cells = [form(stats.get(f"{name}.{pool}.{metric}", 0)) for metric in ("current", "peak", "allocated", "freed")]
            head = label if pool == "all" else f"    from {pool.replace('_', ' ')}"
            lines.append(f"| {head:26}|" + "".join(f"{cell:>12} |" for cell in cells))
        lines.append(line)
    return "\n".join(lines)
