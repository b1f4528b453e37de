"""DLPack, custom operators, torch.func, hooks, determinism, FlexAttention, multiprocessing, and what the device refuses."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")


def test_dlpack_round_trip():
    x = torch.arange(6.0).view(2, 3).to("neuron")
    from torch.utils.dlpack import DLDeviceType

    assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.nn.Parameter(x).__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    for again in (torch.from_dlpack(x), torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)), torch.from_dlpack(x.t())):
        assert again.is_neuron and again.data_ptr() == x.data_ptr()
    view = torch.from_dlpack(x[:, 1:])
    view.fill_(7)
    assert x.cpu().tolist() == [[0, 7, 7], [3, 7, 7]]
    assert torch.ones(2).__dlpack_device__()[0] == DLDeviceType.kDLCPU
    del x
    assert view.cpu().eq(7).all()


def test_imported_memory_computes():
    x = torch.arange(4.0).to("neuron")
    imported = torch.from_dlpack(x)
    del x
    assert (imported + 1).cpu().tolist() == [1, 2, 3, 4]


def test_numpy_is_refused():
    x = torch.ones(2, device="neuron")
    with pytest.raises(TypeError, match="neuron"):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1, 1] and x.tolist() == [1, 1]


def test_custom_op():
    @torch.library.custom_op("testneuron::twice", mutates_args=(), device_types="neuron")
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    twice.register_autograd(lambda ctx, grad: twice(grad))
    x = torch.ones(3, device="neuron", requires_grad=True)
    y = torch.ops.testneuron.twice(x)
    y.backward(torch.ones(3, device="neuron"))
    assert y.detach().cpu().tolist() == x.grad.cpu().tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError):
        twice(torch.ones(2))
    compiled = torch.compile(lambda x: torch.ops.testneuron.twice(x) + 1, backend="neuron", fullgraph=True)
    assert compiled(torch.ones(2, device="neuron")).cpu().tolist() == [3, 3]
    # opcheck's fourth test knows no devices but CPU, CUDA and XPU.
    torch.library.opcheck(twice, (torch.ones(3, device="neuron", requires_grad=True),),
                          test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))


def test_library_impl():
    library = torch.library.Library("testneuron2", "DEF")
    library.define("bump(Tensor(a!) x) -> ()")
    library.impl("bump", lambda x: x.add_(1) and None, "PrivateUse1")
    try:
        x = torch.zeros(1, device="neuron")
        torch.ops.testneuron2.bump(x)
        assert x.item() == 1
    finally:
        library._destroy()


def test_torch_func():
    w = torch.randn(4, 3)
    x = torch.randn(5, 3)

    def loss(w, x):
        return torch.tanh(w @ x).sum()

    expected = torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)
    actual = torch.func.vmap(torch.func.grad(loss), (None, 0))(w.to("neuron"), x.to("neuron"))
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(torch.func.jacrev(torch.sin)(x[0].to("neuron")).cpu(), torch.func.jacrev(torch.sin)(x[0]))
    value, tangent = torch.func.jvp(torch.sin, (x.to("neuron"),), (x.to("neuron"),))
    torch.testing.assert_close(tangent.cpu(), torch.func.jvp(torch.sin, (x,), (x,))[1])
    model = torch.nn.Linear(3, 2).to("neuron")
    parameters = dict(model.named_parameters())
    assert torch.func.functional_call(model, parameters, (x.to("neuron"),)).shape == (5, 2)


def test_hooks_and_parametrizations():
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3)).to("neuron")
    seen = []
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.device.type))
    x = torch.ones(2, 3, device="neuron", requires_grad=True)
    x.register_hook(lambda grad: seen.append(grad.device.type) or grad * 2)
    layer(x).sum().backward()
    twin = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
    twin.load_state_dict({name: value.cpu() for name, value in layer.state_dict().items()})
    y = torch.ones(2, 3, requires_grad=True)
    twin(y).sum().backward()
    assert seen == ["neuron", "neuron"]
    torch.testing.assert_close(x.grad.cpu(), y.grad * 2)


def test_saved_tensor_hooks():
    x = torch.randn(4, 4).to("neuron").requires_grad_()
    with torch.autograd.graph.save_on_cpu(pin_memory=True, device_type="neuron"):
        (x * x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_detect_anomaly():
    x = torch.tensor([-1.0], device="neuron", requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="Sqrt|nan"):
        torch.sqrt(x).sum().backward()


def test_global_switches():
    precision = torch.get_float32_matmul_precision()
    a = torch.randn(16, 16)
    try:
        torch.use_deterministic_algorithms(True)
        x = torch.zeros(4, device="neuron").index_add_(0, torch.tensor([1, 1], device="neuron"), torch.ones(2, device="neuron"))
        assert x.cpu().tolist() == [0, 2, 0, 0]
        torch.set_float32_matmul_precision("medium")
        torch.testing.assert_close((a.to("neuron") @ a.to("neuron")).cpu(), a @ a)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision(precision)


def test_cpu_profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        x = torch.ones(1000, device="neuron")
        (x + x).cpu()
    names = {row.key for row in profile.key_averages()}
    assert "aten::add" in names and profile.key_averages().table()


@pytest.mark.parametrize("masked", [False, True])
def test_flex_attention(masked):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 2, 16, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))

    def score(score, batch, head, q_index, kv_index):
        return score + (q_index - kv_index) * 0.1

    def causal(batch, head, q_index, kv_index):
        return q_index >= kv_index

    def mask(device):
        return create_block_mask(causal, 1, 2, 16, 16, device=device) if masked else None

    expected = flex_attention(q, k, v, score_mod=score, block_mask=mask("cpu"))
    on_device = [t.to("neuron").requires_grad_() for t in (q, k, v)]
    actual = flex_attention(*on_device, score_mod=score, block_mask=mask("neuron"))
    torch.testing.assert_close(actual.detach().cpu(), expected, atol=1e-5, rtol=1e-5)
    actual.sum().backward()
    assert all(t.grad is not None and t.grad.isfinite().all() for t in on_device)


def test_multiprocessing_queue_is_refused():
    import torch.multiprocessing as mp

    x = torch.ones(2, device="neuron")
    from multiprocessing.reduction import ForkingPickler

    for value in (x, torch.nn.Parameter(x), x.untyped_storage(), [x]):
        with pytest.raises(RuntimeError, match=r"\.cpu\(\)"):
            ForkingPickler.dumps(value)
    ForkingPickler.dumps(3)
    queue = mp.get_context("spawn").SimpleQueue()
    with pytest.raises(RuntimeError, match="another process"):
        queue.put(x)
    queue.put(torch.ones(2))
    assert queue.get().tolist() == [1, 1]


@pytest.mark.parametrize("use", [
    lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(), lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1]]), x[0, :2], (3,), device="neuron"),
    lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2)).to("neuron"),
    lambda x: torch.eye(3).to_sparse_csr().to("neuron") @ x, lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    lambda x: torch.quantize_per_tensor(x.cpu(), 0.1, 0, torch.quint8).to("neuron"),
    lambda x: torch.empty(3, dtype=torch.qint8, device="neuron"), lambda x: torch.nested.nested_tensor([x[0], x[1]], layout=torch.strided, device="neuron").relu()])
def test_other_layouts_are_refused(use):
    x = torch.ones(3, 3, device="neuron")
    with pytest.raises((NotImplementedError, RuntimeError)) as caught:
        use(x)
    text = str(caught.value)
    assert "neuron" in text.lower() and len(text) < 600, text
    assert x.add(1).cpu().eq(2).all()


def test_process_group_is_refused(tmp_path):
    import torch.distributed as dist

    for name in ("neuron", None):
        with pytest.raises(NotImplementedError, match="gloo"):
            dist.init_process_group(name, rank=0, world_size=1, store=dist.FileStore(str(tmp_path / f"store{name}"), 1))
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.FileStore(str(tmp_path / "gloo"), 1))
    try:
        x = torch.ones(3)
        dist.all_reduce(x)
        assert x.tolist() == [1, 1, 1]
    finally:
        dist.destroy_process_group()


def test_views_beyond_storage():
    x = torch.arange(6.0).to("neuron")
    for use in (lambda: x.as_strided((4, 4), (4, 1)), lambda: torch.empty(2, device="neuron").set_(x.untyped_storage(), -1, (2,))):
        with pytest.raises(RuntimeError):
            use()
    assert x.cpu().tolist() == [0, 1, 2, 3, 4, 5]


def test_encoder_with_a_padding_mask_takes_the_dense_path():
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    x, hidden = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=hidden)
        actual = encoder.to("neuron")(x.to("neuron"), src_key_padding_mask=hidden.to("neuron")).cpu()
    torch.testing.assert_close(actual[~hidden], expected[~hidden])


def test_deterministic_algorithms_fill_new_memory():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(64, device="neuron").isnan().all()
        assert torch.empty(3, dtype=torch.int64, device="neuron").tolist() == [2 ** 63 - 1] * 3
    finally:
        torch.use_deterministic_algorithms(False)
