"""Generators of the device: state, seeding, forks, checkpoints, errors."""

import pickle

import pytest
import torch
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:aten")


def draw(n=16, **options):
    return torch.rand(n, device="neuron", **options).cpu()


def test_state_is_sixteen_bytes():
    torch.neuron.manual_seed(123)
    state = torch.neuron.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.numel() == 16
    assert int.from_bytes(bytes(state[:8].tolist()), "little") == 123
    assert int.from_bytes(bytes(state[8:].tolist()), "little") == 0
    draw()
    offset = int.from_bytes(bytes(torch.neuron.get_rng_state()[8:].tolist()), "little")
    assert offset > 0 and offset % 4 == 0
    pickle.loads(pickle.dumps(state))


def test_seeds_reach_the_device():
    torch.manual_seed(7)
    assert torch.neuron.initial_seed() == 7
    first = draw()
    torch.neuron.manual_seed_all(7)
    assert torch.equal(first, draw())
    torch.neuron.manual_seed(8)
    assert not torch.equal(first, draw())
    assert torch.neuron.seed() == torch.neuron.initial_seed()
    torch.neuron.seed_all()


def test_state_round_trip():
    torch.neuron.manual_seed(5)
    draw(3)
    state, states = torch.neuron.get_rng_state("neuron:0"), torch.neuron.get_rng_state_all()
    first = draw()
    torch.neuron.set_rng_state(state)
    assert torch.equal(first, draw())
    torch.neuron.set_rng_state_all(states)
    assert torch.equal(first, draw())
    torch.neuron.set_rng_state(state.to("neuron"), "neuron")
    assert torch.equal(first, draw())


@pytest.mark.parametrize("state", [torch.zeros(8, dtype=torch.uint8), torch.zeros(16, dtype=torch.int64),
                                   torch.tensor([1] * 16, dtype=torch.uint8)])
def test_bad_state(state):
    with pytest.raises((RuntimeError, TypeError)):
        torch.neuron.set_rng_state(state)


def test_generator_object():
    generator = torch.Generator("neuron")
    assert generator.device == torch.device("neuron:0")
    generator.manual_seed(3)
    first = draw(generator=generator)
    assert torch.equal(first, draw(generator=torch.Generator("neuron").manual_seed(3)))
    assert generator.initial_seed() == 3
    state = generator.get_state()
    copy = generator.clone_state()
    first = draw(generator=generator)
    assert torch.equal(first, draw(generator=copy))
    generator.set_state(state)
    assert torch.equal(first, draw(generator=generator))
    assert torch.neuron.default_generators[0] is not None
    assert torch.neuron.default_generators[0].device == torch.device("neuron:0")


def test_default_generator_is_the_one_in_use():
    torch.neuron.default_generators[0].manual_seed(11)
    first = draw()
    torch.neuron.manual_seed(11)
    assert torch.equal(first, draw())


def test_generator_of_another_device():
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device="neuron", generator=torch.Generator("cpu"))
    with pytest.raises(RuntimeError, match="neuron"):
        torch.rand(3, generator=torch.Generator("neuron"))


def test_fork_rng():
    torch.neuron.manual_seed(1)
    with torch.random.fork_rng(device_type="neuron"):
        inside = draw()
    assert torch.equal(inside, draw())


def test_cpu_stream_is_untouched():
    torch.manual_seed(2)
    expected = torch.rand(4)
    torch.manual_seed(2)
    draw()
    assert torch.equal(expected, torch.rand(4))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_replays_dropout(use_reentrant):
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)).to("neuron")
    x = torch.randn(4, 16).to("neuron").requires_grad_()

    def gradients(forward):
        torch.manual_seed(21)
        layer.zero_grad()
        x.grad = None
        forward(x).sum().backward()
        return [p.grad.cpu() for p in layer.parameters()] + [x.grad.cpu()]

    plain = gradients(layer)
    again = gradients(lambda value: checkpoint(layer, value, use_reentrant=use_reentrant))
    for one, two in zip(plain, again):
        torch.testing.assert_close(one, two)


def test_dropout_statistics():
    torch.manual_seed(0)
    kept = torch.nn.functional.dropout(torch.ones(100_000, device="neuron"), 0.3).ne(0).float().mean().item()
    assert abs(kept - 0.7) < 0.01
