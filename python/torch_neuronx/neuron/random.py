"""The random numbers of the device: one Philox generator per device, whose state is 16 bytes (seed, offset)."""

import torch

from torch_neuronx import _C
from torch_neuronx.neuron._utils import _checked_index

default_generators = tuple(_C.default_generator(index) for index in range(_C.device_count()))


def _get_generator(device):
    return _C.default_generator(_checked_index(device))


def get_rng_state(device="neuron"):
    """The state of a device's generator: a uint8 tensor of 16 bytes on the CPU."""
    return _get_generator(device).get_state()


def get_rng_state_all():
    return [get_rng_state(index) for index in range(_C.device_count())]


def set_rng_state(new_state, device="neuron"):
    if new_state.device.type != "cpu":
        new_state = new_state.cpu()
    _get_generator(device).set_state(new_state.contiguous())


def set_rng_state_all(new_states):
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed):
    """Seeds the current device."""
    _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed):
    seed = int(seed)
    for index in range(_C.device_count()):
        _C.default_generator(index).manual_seed(seed)


def seed():
    """Seeds the current device from the system's entropy and returns the seed."""
    return _get_generator(None).seed()


def seed_all():
    """Seeds every device with the same fresh seed."""
    value = seed() if _C.device_count() else torch.random.initial_seed()
    manual_seed_all(value)


def initial_seed():
    return _get_generator(None).initial_seed()
