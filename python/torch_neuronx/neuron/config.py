"""`torch.neuron.config()`: every setting with its value, where the value comes from and what it does here."""

import os

from torch_neuronx import _C, _settings


class Config(dict):
    """Setting name -> dict of value, source ("environment" or "default"), effect and note."""

    def __str__(self):
        lines = [f"{name} = {row['value']!r} ({row['source']}; {row['effect']}{': ' + row['note'] if row['note'] else ''})"
                 for name, row in self.items()]
        return "\n".join(lines)


class _ConfigFunction:
    def __call__(self):
        return Config({
            name: {
                "value": _settings.get(name),
                "source": "environment" if os.environ.get(name) else "default",
                "effect": row.effect,
                "note": row.note,
            }
            for name, row in _settings.SETTINGS.items()
        })

    def reload(self):
        """Reads launch blocking, strict mode and the log level again from the environment."""
        import logging

        _settings.validate()
        _apply_switches()
        logging.getLogger("torch_neuronx").setLevel(_settings.get("TORCH_NEURONX_LOG_LEVEL"))

    def apply(self):
        """What the core does not read itself; at import. Opens nothing."""
        _apply_switches()
        _apply_allocator_settings()


def _apply_switches():
    _C.set_launch_blocking(_settings.get("NEURON_LAUNCH_BLOCKING") or not _settings.get("TORCH_NEURONX_ENABLE_ASYNC_NRT"))
    _C.set_strict_mode(_settings.get("TORCH_NEURONX_STRICT") or not _settings.get("NEURON_FALLBACK_ENABLED"))


def _apply_allocator_settings():
    pairs = _settings.get("TORCH_NEURONX_SEGMENT_ALLOCATOR_CONFIG") or {}
    try:
        _C.follow_allocator_settings(pairs.get("kMaxSplitSizeBytes", 0))
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"PYTORCH_ALLOC_CONF={os.environ.get('PYTORCH_ALLOC_CONF')!r}: {error}") from None


config = _ConfigFunction()
