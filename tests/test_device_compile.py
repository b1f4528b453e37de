"""torch.compile with the backends eager, aot_eager and neuron; FakeTensor; Dynamo's view of the device."""

import pytest
import torch
from fresh import run

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.neuron.get_dynamo_metrics and torch.neuron.reset_dynamo_metrics()
    yield
    torch._dynamo.reset()


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def trained(model, x, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "neuron"])
@pytest.mark.parametrize("dynamic", [None, False, True])
def test_training_agrees_with_cpu(backend, dynamic):
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    expected = trained(mlp(), x)
    compiled = torch.compile(mlp().to("neuron"), backend=backend, dynamic=dynamic, fullgraph=True)
    torch.testing.assert_close(trained(compiled, x.to("neuron")), expected)


def test_default_backend_is_untouched():
    assert run("import torch, torch._dynamo; print(torch.compiler.get_default_backend())").stdout.strip() in ("inductor", "None")


def test_backend_is_listed():
    assert "neuron" in torch._dynamo.list_backends()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes(mode):
    double = torch.compile(lambda x: x + x, backend="neuron", mode=mode)
    assert double(torch.ones(3, device="neuron")).cpu().tolist() == [2, 2, 2]


def test_options():
    options = {"model_name": "doubler", "fallback_execution": False}
    double = torch.compile(lambda x: x + x, backend="neuron", options=options)
    assert double(torch.ones(3, device="neuron")).cpu().tolist() == [2, 2, 2]
    assert options == {"model_name": "doubler", "fallback_execution": False}
    rows = torch.neuron.get_dynamo_metrics()
    assert len(rows) == 1 and rows[0]["name"].startswith("doubler") and rows[0]["nodes"] == 1
    assert rows[0]["kind"] == "inference" and rows[0]["collectives"] == 0 and rows[0]["compile_us"] >= 0
    torch.neuron.reset_dynamo_metrics()
    assert torch.neuron.get_dynamo_metrics() == []


@pytest.mark.parametrize("options, name", [({"speed": 3}, "speed"), ({"model_name": 3}, "model_name")])
def test_bad_options(options, name):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=name):
        torch.compile(lambda x: x + x, backend="neuron", options=options)(torch.ones(3, device="neuron"))


def test_model_name():
    from torch_neuronx.neuron_dynamo_backend import config

    config.set_model_name("named")
    try:
        torch.compile(lambda x: x + x, backend="neuron")(torch.ones(3, device="neuron"))
        assert torch.neuron.get_dynamo_metrics()[0]["name"].startswith("named")
        with pytest.raises(TypeError):
            config.set_model_name(3)
    finally:
        config.set_model_name(None)


def test_forward_and_backward_graphs():
    x = torch.ones(3, device="neuron", requires_grad=True)
    torch.compile(lambda x: (x * x).relu(), backend="neuron")(x).sum().backward()
    assert x.grad.cpu().tolist() == [2, 2, 2]
    assert [row["kind"] for row in torch.neuron.get_dynamo_metrics()] == ["forward", "backward"]


def test_one_graph_for_many_sizes():
    double = torch.compile(lambda x: x + x, backend="neuron", dynamic=True)
    for size in (3, 5, 9):
        assert double(torch.ones(size, device="neuron")).shape == (size,)
    assert len(torch.neuron.get_dynamo_metrics()) == 1


def test_graph_break():
    def program(x):
        y = x + x
        torch._dynamo.graph_break()
        return y + 1

    compiled = torch.compile(program, backend="neuron")
    assert compiled(torch.ones(3, device="neuron")).cpu().tolist() == [3, 3, 3]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(program, backend="neuron", fullgraph=True)(torch.ones(3, device="neuron"))


def test_input_mutation():
    cache = torch.zeros(4, 2, device="neuron")

    def write(cache, row, value):
        cache[row].add_(value)
        return cache.view(-1)

    compiled = torch.compile(write, backend="neuron")
    flat = compiled(cache, 2, torch.ones(2, device="neuron"))
    assert cache.cpu()[2].tolist() == [1, 1] and flat.data_ptr() == cache.data_ptr()


@pytest.mark.parametrize("training", [False, True])
def test_host_inputs_are_moved(training):
    model, x = mlp(), torch.randn(6, 8)
    expected = trained(mlp(), x) if training else mlp()(x)
    torch.neuron.clear_op_tracking()
    compiled = torch.compile(model, backend="neuron")
    if training:
        torch.testing.assert_close(trained(compiled, x), expected)
        assert next(model.parameters()).grad.device.type == "cpu"
    else:
        with torch.no_grad():
            result = compiled(x)
        assert result.device.type == "cpu"
        torch.testing.assert_close(result, expected.detach())
    assert torch.neuron.get_executed_ops() or torch.neuron.get_fallback_ops(), "nothing ran on the device"


def test_host_input_mutation_and_factories():
    def program(x):
        x.add_(1)
        return x * 2 + torch.arange(3.0)

    x = torch.zeros(3)
    result = torch.compile(program, backend="neuron")(x)
    assert x.tolist() == [1, 1, 1] and result.tolist() == [2, 3, 4] and result.device.type == "cpu"


def test_autocopy_off(monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY", "1")
    torch.neuron.clear_op_tracking()
    assert torch.compile(lambda x: x + x, backend="neuron")(torch.ones(2)).tolist() == [2, 2]
    assert torch.neuron.get_executed_ops() == []


def test_compile_failure(monkeypatch):
    from torch_neuronx.neuron_dynamo_backend import host_inputs

    def fail(graph_module):
        raise RuntimeError("NCC_TEST broken pass")

    monkeypatch.setattr(host_inputs, "move_to_device", fail)
    x = torch.ones(3, device="neuron")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="NCC_TEST"):
        torch.compile(lambda x: x + x, backend="neuron")(x)
    torch._dynamo.reset()
    again = torch.compile(lambda x: x + x, backend="neuron", options={"fallback_execution": True})
    assert again(x).cpu().tolist() == [2, 2, 2]
    torch._dynamo.reset()
    monkeypatch.setenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "0")
    assert torch.compile(lambda x: x + x, backend="neuron")(x).cpu().tolist() == [2, 2, 2]


def test_dropout_in_a_graph_uses_the_device_stream():
    drop = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="neuron")
    x = torch.ones(64, device="neuron")
    torch.manual_seed(3)
    first = drop(x).cpu()
    torch.manual_seed(3)
    assert torch.equal(first, drop(x).cpu())
    assert not torch.equal(first, drop(x).cpu())


def test_streams_inside_a_graph():
    def program(x):
        stream = torch.neuron.current_stream()
        torch.neuron.synchronize()
        return x + x, stream is not None

    result, seen = torch.compile(program, backend="eager", fullgraph=True)(torch.ones(3, device="neuron"))
    assert seen and result.cpu().tolist() == [2, 2, 2]


def test_default_device_inside_a_graph():
    def program(x):
        with torch.device("neuron"):
            return x + torch.ones(3)

    result = torch.compile(program, backend="neuron")(torch.ones(3, device="neuron"))
    assert result.is_neuron and result.cpu().tolist() == [2, 2, 2]


def test_inductor_says_what_to_use():
    with pytest.raises(Exception, match='backend="neuron"'):
        torch.compile(lambda x: x + x, backend="inductor")(torch.ones(3, device="neuron"))
    assert (torch.ones(3, device="neuron") + 1).tolist() == [2, 2, 2]


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(4, 8, device="neuron")
        assert (x @ x.t()).shape == (4, 4) and x.device == torch.device("neuron:0")
        assert torch.nn.Linear(8, 3, device="neuron")(x).device.type == "neuron"
    with torch.device("meta"):
        model = torch.nn.Linear(3, 3)
    assert model.to_empty(device="neuron").weight.is_neuron


def test_device_interface():
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("neuron")
    assert interface is get_interface_for_device(torch.device("neuron:0"))
    assert interface.device_count() == 1 and interface.current_device() == 0 and interface.is_available()
    assert interface.is_bf16_supported() and not interface.is_triton_capable()
    assert interface.get_device_properties(0).name == "trn2" and interface.memory_allocated() >= 0
    assert interface.Worker.get_device_properties().name == "trn2"
    assert interface.get_raw_stream(0) == torch.neuron.current_stream().native_handle
    with pytest.raises(RuntimeError, match="Triton"):
        interface.raise_if_triton_unavailable()


def test_interface_is_registered_lazily():
    run("""
        import sys, torch
        assert "torch._dynamo" not in sys.modules
        import torch._dynamo
        from torch._dynamo.device_interface import get_interface_for_device
        assert get_interface_for_device("neuron").current_device() == 0
        assert "_Loader" not in type(torch._dynamo.__spec__.loader).__name__
    """)


def test_export():
    program = torch.export.export(mlp().to("neuron"), (torch.ones(2, 8, device="neuron"),))
    x = torch.randn(2, 8)
    torch.testing.assert_close(program.module()(x.to("neuron")).cpu(), mlp()(x))


def test_metrics_file(tmp_path):
    run("""
        import torch
        torch.compile(lambda x: x + x, backend="neuron")(torch.ones(3, device="neuron"))
    """, TORCH_NEURONX_METRICS_ENABLED="1", TORCH_NEURONX_METRICS_DIR=str(tmp_path / "m"))
    (path,) = (tmp_path / "m").iterdir()
    header, row = path.read_text().splitlines()
    assert header.startswith("name,kind,nodes") and row.startswith("graph_0,inference,1,")
