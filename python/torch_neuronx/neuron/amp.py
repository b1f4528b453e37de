"""Mixed precision. The op lists are those of torch's other accelerators; the default dtype is bfloat16."""

import torch


def get_amp_supported_dtype():
    return [torch.float32, torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation=True):
    return True


class autocast(torch.amp.autocast):
    """torch.autocast("neuron", ...)."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("neuron", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("neuron", ...)."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("neuron", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
