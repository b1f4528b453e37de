"""One row per compiled graph: its name and size, and the microseconds that each stage took."""

import atexit
import csv
import os
import tempfile
import threading

from torch_neuronx import _settings

COLUMNS = ("name", "kind", "nodes", "collectives", "fx_pass_us", "lowering_us", "compile_us")

_rows = []
_lock = threading.Lock()
_writes_at_exit = False


def record(**row):
    global _writes_at_exit
    with _lock:
        _rows.append({column: row[column] for column in COLUMNS})
        if not _writes_at_exit and _settings.get("TORCH_NEURONX_METRICS_ENABLED"):
            _writes_at_exit = True
            atexit.register(_write)


def get_dynamo_metrics():
    with _lock:
        return [dict(row) for row in _rows]


def reset_dynamo_metrics():
    with _lock:
        _rows.clear()


def _write():
    folder = _settings.get("TORCH_NEURONX_METRICS_DIR") or tempfile.gettempdir()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"neuron_dynamo_metrics_{os.getpid()}.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(get_dynamo_metrics())
