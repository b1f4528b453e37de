"""torch.neuron: devices, their properties, torch.accelerator, the generated methods, default device."""

import copy
import pickle

import pytest
import torch


def test_identity():
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.is_available() and torch.neuron.is_available()
    assert torch.get_device_module("neuron") is torch.neuron
    assert torch._C._get_privateuse1_backend_name() == "neuron"
    assert torch.neuron.device_count() == torch.accelerator.device_count() == 1


def test_submodules_import_under_both_names():
    import torch.neuron.amp  # noqa: F401
    import torch.neuron.memory as by_torch
    import torch_neuronx
    from torch.neuron import random, streams  # noqa: F401

    assert by_torch is torch.neuron.memory
    assert torch_neuronx.Stream is torch.neuron.Stream and torch_neuronx.empty_cache is torch.neuron.empty_cache
    assert torch.neuron._utils._get_device_index("neuron:0") == 0


def test_current_device():
    assert torch.neuron.current_device() == 0
    for device in (0, "neuron", "neuron:0", torch.device("neuron", 0)):
        torch.neuron.set_device(device)
        with torch.neuron.device(device):
            assert torch.neuron.current_device() == 0
    torch.neuron.set_device(-1)
    with torch.neuron.device(None), torch.neuron.device(-1):
        assert torch.neuron.current_device() == 0


@pytest.mark.parametrize("use", [
    lambda: torch.neuron.set_device(7), lambda: torch.empty(2, device="neuron:7"), lambda: torch.ones(2).to("neuron:3"),
    lambda: torch.neuron.get_device_properties(5), lambda: torch.neuron.synchronize(4), lambda: torch.neuron.Stream(3),
    lambda: torch.accelerator.set_device_index(9), lambda: torch.neuron.memory_stats(2), lambda: torch.neuron.get_rng_state(6)])
def test_absent_device(use):
    with pytest.raises(RuntimeError, match="neuron"):
        use()
    assert torch.ones(2, device="neuron").add(1).cpu().tolist() == [2, 2]


def test_device_argument_types():
    with pytest.raises(ValueError, match="cpu"):
        torch.neuron.set_device("cpu")
    with pytest.raises(TypeError, match="float"):
        torch.neuron.set_device(1.0)


def test_int_is_a_device():
    assert torch.empty(2, device=0).device == torch.device("neuron:0")
    assert torch.ones(2).to(torch.neuron.current_device()).device.type == "neuron"
    assert torch.device(0) == torch.device("neuron", 0)


def test_properties():
    properties = torch.neuron.get_device_properties()
    assert properties.name == "trn2" and (properties.major, properties.minor) == torch.neuron.get_device_capability()
    assert properties.total_memory == torch.neuron.mem_get_info()[1] > 0
    assert properties.multi_processor_count >= 1 and properties.host_cpu and properties.isa
    assert "trn2" in repr(properties)
    assert torch.neuron.get_device_name() == torch.neuron.get_device_name(None) == "neuron:0"
    assert torch.neuron.can_device_access_peer(0, 0) is False


def test_capability_lists_what_can_be_allocated():
    dtypes = torch.accelerator.get_device_capability("neuron:0")["supported_dtypes"]
    assert {torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn} <= dtypes
    for dtype in dtypes:
        assert torch.empty(3, dtype=dtype, device="neuron").dtype == dtype


def test_generated_methods():
    x = torch.arange(4.0)
    assert x.neuron().is_neuron and not x.is_neuron
    module = torch.nn.Linear(2, 2).neuron()
    assert module.weight.is_neuron
    assert x.untyped_storage().neuron().device.type == "neuron"
    assert x.neuron().untyped_storage().cpu().tolist() == x.untyped_storage().tolist()
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 3), torch.ones(1, 3)]).neuron()
    assert packed.data.is_neuron


def test_type_names():
    x = torch.ones(2, device="neuron")
    assert x.type() == "torch.neuron.FloatTensor" and repr(x).endswith("device='neuron:0')")
    assert x.type(torch.int32).dtype == torch.int32


def test_default_device():
    with torch.device("neuron"):
        assert torch.zeros(2).is_neuron and torch.nn.Linear(2, 2).weight.is_neuron
    torch.set_default_device("neuron")
    try:
        assert torch.zeros(2).is_neuron
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


def test_parameter_identity():
    model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    before = list(model.parameters())
    model.to("neuron")
    assert [p is q for p, q in zip(before, model.parameters())] == [True]
    assert model[0].weight is model[1].weight and model[0].weight.is_neuron
    model(torch.tensor([1, 2], device="neuron")).sum().backward()
    old = model[0].weight.detach().cpu().clone()
    optimizer.step()
    assert not torch.equal(old, model[0].weight.detach().cpu())
    model.cpu()
    assert before[0] is model[0].weight and model[0].weight.device.type == "cpu" and model[0].weight.grad.device.type == "cpu"


def test_data_setter():
    p = torch.nn.Parameter(torch.ones(2))
    p.data = torch.full((3,), 2.0).to("neuron")
    assert p.is_neuron and p.shape == (3,)
    p.data = p.data.cpu()
    assert p.tolist() == [2, 2, 2]


def test_deepcopy_and_pickle():
    x = torch.arange(6.0).view(2, 3).to("neuron")
    view = x[:, 1:]
    a, b = copy.deepcopy([x, view])
    a[0, 1] = 9
    assert b[0, 0].item() == 9 and x[0, 1].item() == 1
    again = pickle.loads(pickle.dumps(view))
    assert again.is_neuron and again.stride() == view.stride() and torch.equal(again.cpu(), view.cpu())
    module = torch.nn.Linear(2, 2).to("neuron")
    assert torch.equal(copy.deepcopy(module).weight.cpu(), module.weight.cpu())
    assert copy.deepcopy(module.weight.untyped_storage()).device.type == "neuron"


def test_names_of_the_future_say_so():
    import torch_neuronx

    for use in (torch.accelerator.Graph, lambda: torch_neuronx.nki, torch_neuronx.nki_op, torch_neuronx.wrap_nki,
                lambda: torch_neuronx.profiling.NeuronProfiler, lambda: torch.neuron.profiler.start):
        with pytest.raises(NotImplementedError, match="not implemented"):
            use()


def test_num_threads():
    from torch_neuronx import _C

    host, device = torch.get_num_threads(), _C.num_threads()
    try:
        torch.set_num_threads(1)
        assert _C.num_threads() == 1 and torch.get_num_threads() == 1
        torch.set_num_threads(2)
        assert _C.num_threads() == 2
        with pytest.raises(Exception):
            torch.set_num_threads("2")
        assert _C.num_threads() == 2
    finally:
        torch.set_num_threads(host)
        _C.set_num_threads(device)


def test_op_tracking():
    x = torch.ones(3, device="neuron")
    torch.neuron.clear_op_tracking()
    assert torch.neuron.get_executed_ops() == [] and torch.neuron.get_fallback_ops() == []
    y = x + x
    torch.neuron.synchronize()
    assert "aten::add.Tensor" in torch.neuron.get_executed_ops()
    before = torch.neuron.get_fallback_ops()
    y.view(3, 1).t()[0, 1].item(), y.cpu(), y[1:].unsqueeze(0)
    assert torch.neuron.get_fallback_ops() == before, "views and copies are no fallbacks"
    torch.neuron.clear_op_tracking()
    with torch.neuron.expect_no_fallback():
        x + x
    assert torch.neuron.get_fallback_ops() == []


@pytest.mark.filterwarnings("ignore")
def test_fallback_report():
    x = torch.eye(3).to("neuron")
    torch.neuron.clear_op_tracking()
    with pytest.raises(AssertionError, match="operators ran on the host"):
        with torch.neuron.expect_no_fallback():
            torch.linalg.eigh(x)
    report = torch.neuron.fallback_report()
    assert report and [row["op"] for row in report] == torch.neuron.get_fallback_ops()
    for row in report:
        assert row["count"] >= 1 and row["nanoseconds"] > 0 and "test_device_module.py:" in row["location"]
        assert row["op"] in str(report)
    torch.neuron.clear_op_tracking()
    assert str(torch.neuron.fallback_report()) == "no operator ran on the host"


def test_ecosystem_probes():
    """The calls that released libraries make to find and describe the device."""
    import importlib.util

    assert importlib.util.find_spec("torch_neuronx")
    assert torch.neuron.is_bf16_supported() is True
    assert torch.neuron.get_amp_supported_dtype() == [torch.float32, torch.float16, torch.bfloat16]
    free, total = torch.neuron.mem_get_info(None)
    assert 0 < free <= total
    torch.neuron.reset_peak_memory_stats(None)
    assert torch.neuron.max_memory_allocated(None) >= 0
    module = torch.nn.Linear(1, 1)
    module.neuron = module.neuron  # accelerate wraps it on the instance
    torch.neuron.synchronize(None)
    torch.neuron.empty_cache()


def test_reset_device():
    x = torch.ones(1000, device="neuron")
    torch.neuron.reset_device()
    assert torch.neuron.max_memory_allocated() == torch.neuron.memory_allocated() > 0
    assert x.sum().item() == 1000
