"""torch.save and torch.load with every form of map_location."""

import io

import pytest
import torch


def saved(obj, **options):
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


@pytest.fixture
def state():
    weight = torch.arange(12.0).view(3, 4).to("neuron")
    return {"w": weight, "view": weight[1:, ::2], "i": torch.arange(3, device="neuron"), "b": torch.ones(2, dtype=torch.bfloat16)}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zip_format", [True, False])
@pytest.mark.parametrize("where, device", [
    (None, "neuron"), ("neuron", "neuron"), ("neuron:0", "neuron"), (torch.device("neuron"), "neuron"), ("cpu", "cpu"),
    (torch.device("cpu"), "cpu"), ({"neuron:0": "cpu"}, "cpu"), (lambda storage, tag: storage, "cpu"),
    (lambda storage, tag: storage.neuron() if tag.startswith("neuron") else storage, "neuron")])
def test_map_location(state, where, device, zip_format, weights_only):
    loaded = torch.load(saved(state, _use_new_zipfile_serialization=zip_format), map_location=where, weights_only=weights_only)
    assert loaded["w"].device.type == loaded["i"].device.type == device
    for name, value in state.items():
        assert loaded[name].dtype == value.dtype and torch.equal(loaded[name].cpu(), value.cpu())
    loaded["w"][1, 2] = -1
    assert loaded["view"][0, 1].item() == -1, "views share storage after loading"


def test_from_cpu_to_device():
    loaded = torch.load(saved(torch.nn.Linear(2, 3).state_dict()), map_location="neuron")
    assert all(value.is_neuron for value in loaded.values())


def test_absent_device_is_named(state):
    with pytest.raises(RuntimeError, match="neuron"):
        torch.load(saved(state), map_location="neuron:9")


def test_file_with_mmap(tmp_path, state):
    path = tmp_path / "state.pt"
    torch.save(state, path)
    loaded = torch.load(path, map_location="cpu", mmap=True)
    assert torch.equal(loaded["w"], state["w"].cpu())
    assert torch.load(path).get("w").is_neuron


def test_location_tag():
    assert torch.serialization.location_tag(torch.UntypedStorage(4, device="neuron")) == "neuron:0"


def test_module_and_optimizer_state():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).to("neuron")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x = torch.randn(8, 4).to("neuron")

    def step(model, optimizer):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step(model, optimizer)
    buffer = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    twin = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).to("neuron")
    twin_optimizer = torch.optim.Adam(twin.parameters(), lr=0.1)
    loaded = torch.load(buffer)
    twin.load_state_dict(loaded["model"])
    twin_optimizer.load_state_dict(loaded["optimizer"])
    step(model, optimizer)
    step(twin, twin_optimizer)
    for one, two in zip(model.parameters(), twin.parameters()):
        assert torch.equal(one.cpu(), two.cpu())


def test_whole_module():
    module = torch.nn.Linear(2, 2).to("neuron")
    loaded = torch.load(saved(module), weights_only=False, map_location="cpu")
    assert torch.equal(loaded.weight, module.weight.cpu())


def test_generator_state_in_a_checkpoint():
    torch.neuron.manual_seed(4)
    loaded = torch.load(saved(torch.neuron.get_rng_state_all()), map_location="neuron")
    torch.neuron.set_rng_state_all(loaded)
    assert torch.neuron.initial_seed() == 4
