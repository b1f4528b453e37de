"""The state and the history of device memory in the pickle schema of PyTorch's memory visualizer."""

import pickle

import torch

from torch_neuronx import _C

_recording = False


def _frames(source):
    """Frames of "file.py:12", or of the name of an autograd node."""
    if not source:
        return []
    filename, _, line = source.rpartition(":")
    if not line.isdigit():
        return [{"filename": "autograd", "line": 0, "name": source}]
    return [{"filename": filename, "line": int(line), "name": ""}]


def _history():
    return _C.memory_history() if _C.is_initialized() else []


def _segments(history):
    latest = {row["address"]: _frames(row["source"]) for row in history if row["action"] == "alloc"}
    segments = []
    for row in _C.memory_snapshot() if _C.is_initialized() else []:
        if row["is_segment"]:
            segments.append({
                "device": row["device"], "address": row["address"], "total_size": row["bytes"],
                "allocated_size": row["allocated_bytes"], "active_size": 0, "requested_size": 0, "stream": row["stream_id"],
                "segment_type": "large" if row["is_large"] else "small", "segment_pool_id": (0, 0), "is_expandable": False,
                "frames": [], "blocks": [],
            })
            continue
        segment = segments[-1]
        active = row["state"] == "active_allocated"
        segment["blocks"].append({
            "address": row["address"], "size": row["bytes"], "requested_size": row["requested_bytes"], "state": row["state"],
            "frames": latest.get(row["address"], []) if active else [],
        })
        if row["state"] != "inactive":
            segment["active_size"] += row["bytes"]
            segment["requested_size"] += row["requested_bytes"]
    return segments


def memory_snapshot(mempool_id=None, include_traces=True):
    """Every segment of every device with its blocks."""
    return _segments(_history())


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=1 << 20, device=None, **_ignored):
    """Starts recording allocations with their Python lines (`enabled` "all", "state" or True), or stops it (None or False).
    The last `max_entries` are kept."""
    global _recording
    if enabled not in ("all", "state", True, None, False):
        raise ValueError("expected enabled to be 'all', 'state', True, False or None")
    if enabled:
        _C.init()
    _recording = bool(enabled)
    _C.record_memory_history(_recording, int(max_entries))


def _traces(history):
    traces = [[] for _ in range(_C.device_count())]
    for row in history:
        entry = {"action": row["action"], "addr": row["address"], "size": row["bytes"], "stream": row["stream_id"],
                 "time_us": row["time_us"], "compile_context": "N/A", "user_metadata": "", "frames": _frames(row["source"])}
        if row["action"] == "oom":
            entry["device_free"] = torch._C._accelerator_getMemoryInfo(row["device"])[0]
        traces[row["device"]].append(entry)
    return traces


def _snapshot(device=None, augment_with_fx_traces=False):
    """Segments, history and settings; what _dump_snapshot() writes."""
    history = _history()
    return {
        "segments": _segments(history),
        "device_traces": _traces(history),
        "allocator_settings": {"PYTORCH_ALLOC_CONF": torch._C._accelerator_getAllocatorSettings()},
        "external_annotations": [],
    }


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes a pickle that https://pytorch.org/memory_viz and torch.cuda._memory_viz open."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
