"""Group norm, RMS norm, weight norm and renorm against CPU torch, with their gradients."""

import host_reference
import pytest
import torch
from host_reference import NEURON, compare, on_device, same_error
from host_reference import spread as values
from torch import nn
from torch.nn import functional as F
from torch_neuronx import _C

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2, torch.float16: 4e-3}
DTYPES = list(TOLERANCE)
NARROW = (torch.bfloat16, torch.float16)


def near(actual, expected, dtype, at_least=0.0):
    host_reference.near(actual, expected, TOLERANCE[dtype], at_least)


@pytest.fixture(autouse=True)
def nothing_on_the_host():
    _C.clear_fallback_rows()
    yield
    assert not _C.fallback_rows()


def gradients(function, inputs, device, dtype=None):
    """The output of function(*inputs) and the inputs' gradients."""
    leaves = [t.detach().clone().to(device).to(dtype or t.dtype).requires_grad_() for t in inputs]
    y = function(*leaves)
    y.backward(values(*y.shape, seed=5).to(y))
    return [y.detach()] + [t.grad for t in leaves]


def check(function, inputs):
    """Forward and backward agree: results are as near to the exact ones as the CPU's, or within the tolerance."""
    dtype = inputs[0].dtype
    actual, theirs = gradients(function, inputs, NEURON), gradients(function, inputs, "cpu")
    exact = gradients(function, inputs, "cpu", torch.float64)
    for got, own, want in zip(actual, theirs, exact, strict=True):
        assert got.dtype == own.dtype and got.shape == own.shape
        near(got, want, dtype, at_least=(own.double() - want).abs().max())


# ---- group norm -----------------------------------------------------------------------------------

GROUPS = [((3, 6), 2), ((2, 4, 5), 4), ((2, 6, 3, 5), 3), ((1, 4, 1, 1), 1), ((2, 64, 7, 7), 8), ((2, 4, 2, 3, 4), 2)]
LARGE = ((2, 3, 200, 190), 3)  # the sums of its gradients leave fp16's range


@pytest.mark.parametrize("shape, groups, dtype", [(*case, dtype) for case in GROUPS for dtype in DTYPES] +
                         [(*LARGE, torch.float32), (*LARGE, torch.float64)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(shape, groups, affine, dtype):
    inputs = [values(*shape, dtype=dtype)]
    if affine:
        inputs += [values(shape[1], dtype=dtype, seed=s) for s in (1, 2)]
    check(lambda x, *wb: F.group_norm(x, groups, *wb), inputs)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_group_norm_of_a_narrow_input_beside_wide_parameters(dtype):
    x, weight, bias = values(2, 6, 4, 5, dtype=dtype), values(6, seed=1), values(6, seed=2)
    results = []
    for x, weight, bias in ((x, weight, bias), on_device((x, weight, bias))):
        y, mean, rstd = torch.native_group_norm(x, weight, bias, 2, 6, 20, 3, 1e-5)
        results.append([y, mean, rstd, *torch.ops.aten.native_group_norm_backward(y, x, mean, rstd, weight, 2, 6, 20, 3,
                                                                                  [True] * 3)])
    for got, want in zip(results[1], results[0]):
        assert got.dtype == want.dtype
        near(got, want, dtype)


@pytest.mark.parametrize("arrange", [lambda x: x.to(memory_format=torch.channels_last), lambda x: x.transpose(2, 3),
                                     lambda x: x[:, :, ::2], lambda x: x[..., :1, :1]])
def test_group_norm_layouts(arrange):
    x, weight, bias = arrange(values(4, 6, 6, 7)), values(6, seed=1), values(6, seed=2)
    results = []
    for x, weight, bias in ((x, weight, bias), on_device((x, weight, bias))):
        if x.device.type == "cpu" and not x.is_contiguous(memory_format=torch.channels_last):
            x = x.contiguous()  # the CPU's operator asks for it
        y, mean, rstd = torch.native_group_norm(x, weight, bias, 4, 6, x[0, 0].numel(), 2, 1e-5)
        results.append([y, mean, rstd, *torch.ops.aten.native_group_norm_backward(
            y.cos(), x, mean, rstd, weight, 4, 6, x[0, 0].numel(), 2, [True] * 3)])
    for got, want in zip(results[1], results[0]):
        assert got.stride() == want.stride()
        near(got, want, torch.float32)


def test_group_norm_masks_and_empty_inputs():
    x, weight = values(2, 4, 5), values(4, seed=1)
    for mask in ([True, False, False], [False, True, False], [False, False, True], [False] * 3):
        results = []
        for t, w in ((x, weight), on_device((x, weight))):
            y, mean, rstd = torch.native_group_norm(t, w, w, 2, 4, 5, 2, 1e-5)
            results.append(torch.ops.aten.native_group_norm_backward(y, t, mean, rstd, w, 2, 4, 5, 2, mask))
        for got, want, asked in zip(results[1], results[0], mask):
            assert (got is not None) == asked
            if asked:
                near(got, want, torch.float32)
    for shape in ((0, 4, 3), (2, 4, 0)):
        x, results = torch.empty(shape), []
        for t, w in ((x, weight), on_device((x, weight))):
            y, mean, rstd = torch.native_group_norm(t, w, w, shape[0], 4, shape[2], 2, 1e-5)
            results.append([y, mean, rstd, *torch.ops.aten.native_group_norm_backward(y, t, mean, rstd, w, shape[0], 4, shape[2],
                                                                                      2, [True] * 3)])
        for got, want in zip(results[1], results[0]):
            assert got.shape == want.shape
            near(got, want, torch.float32)


def test_group_norm_far_from_zero():
    x = (torch.randn(2, 4, 50, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1e4).float()
    y, mean, rstd = torch.native_group_norm(x.to(NEURON), None, None, 2, 4, 2500, 2, 0.0)
    wide = x.double().view(4, -1)
    torch.testing.assert_close(mean.cpu().double().view(-1), wide.mean(1), rtol=1e-7, atol=0)
    torch.testing.assert_close(rstd.cpu().double().view(-1), wide.var(1, correction=0).rsqrt(), rtol=1e-6, atol=0)


def test_group_norm_errors():
    x, ones = values(2, 4, 5), torch.ones(4)
    same_error(lambda t: F.group_norm(t, 3), x)
    same_error(lambda t: torch.native_group_norm(t, None, None, 2, 4, 5, 0, 1e-5), x)
    same_error(lambda t: torch.native_group_norm(t, None, None, 2, 4, 6, 2, 1e-5), x)
    same_error(lambda t, w: F.group_norm(t, 2, w), x, torch.ones(3))
    same_error(lambda t, w: F.group_norm(t, 2, None, w), x, torch.ones(3))
    same_error(lambda t, w: F.group_norm(t, 2, w), x, ones.bfloat16())
    same_error(lambda t, w: F.group_norm(t, 2, w), x.double(), ones)
    same_error(lambda t: F.group_norm(t, 2), x.long())
    with pytest.raises(RuntimeError, match="same device"):
        F.group_norm(x.to(NEURON), 2, ones)


def test_group_norm_gradcheck():
    x = values(2, 4, 3, dtype=torch.float64).to(NEURON).requires_grad_()
    weight, bias = [values(4, dtype=torch.float64, seed=s).to(NEURON).requires_grad_() for s in (1, 2)]
    assert torch.autograd.gradcheck(lambda *t: F.group_norm(t[0], 2, *t[1:]), (x, weight, bias))
    assert torch.autograd.gradgradcheck(lambda *t: F.group_norm(t[0], 2, *t[1:]), (x, weight, bias))


# ---- RMS norm -------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, normalized", [((4, 16), (16,)), ((2, 3, 5, 7), (5, 7)), ((30, 33), (33,)), ((1, 1), (1,))],
                         ids=str)
@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(shape, normalized, affine, eps, dtype):
    inputs = [values(*shape, dtype=dtype)] + [values(*normalized, dtype=dtype, seed=1)] * affine
    check(lambda x, *w: F.rms_norm(x, normalized, *w, eps=eps), inputs)


def test_rms_norm_is_one_launch():
    x, weight = values(4, 16).to(NEURON).requires_grad_(), values(16, seed=1).to(NEURON).requires_grad_()
    torch.neuron.clear_op_tracking()
    F.rms_norm(x, (16,), weight).sum().backward()
    executed = torch.neuron.get_executed_ops()
    assert "aten::_fused_rms_norm" in executed and "aten::_fused_rms_norm_backward" in executed
    assert not any("rsqrt" in op for op in executed)


def test_rms_norm_small_values_and_default_eps():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = (values(3, 8) * 1e-6).to(dtype)
        near(F.rms_norm(x.to(NEURON), (8,)), F.rms_norm(x, (8,)), dtype)


def test_rms_norm_errors_and_empty_inputs():
    x = values(3, 4)
    same_error(lambda t: F.rms_norm(t, (3,)), x)
    same_error(lambda t: F.rms_norm(t, ()), x)
    same_error(lambda t, w: F.rms_norm(t, (4,), w), x, torch.ones(3))
    same_error(lambda t: F.rms_norm(t, (4,)), x.long())
    for shape in ((0, 4), (2, 0)):
        leaf, weight = torch.empty(shape).to(NEURON).requires_grad_(), torch.ones(shape[1:]).to(NEURON).requires_grad_()
        F.rms_norm(leaf, shape[1:], weight).sum().backward()
        assert leaf.grad.shape == shape and weight.grad.cpu().tolist() == [0] * shape[1]


def test_rms_norm_gradcheck():
    x = values(3, 5, dtype=torch.float64).to(NEURON).requires_grad_()
    weight = values(5, dtype=torch.float64, seed=1).to(NEURON).requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: F.rms_norm(t[0], (5,), t[1]), (x, weight))
    assert torch.autograd.gradgradcheck(lambda *t: F.rms_norm(t[0], (5,), t[1]), (x, weight))


# ---- weight norm, renorm --------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, dim", [((3, 4), 0), ((3, 4), 1), ((5, 2, 3), 0), ((5, 2, 3), 2), ((7, 600), 1), ((2, 3, 4), 1)])
def test_weight_norm(shape, dim, dtype):
    sizes = [shape[d] if d == dim else 1 for d in range(len(shape))]
    check(lambda v, g: torch._weight_norm(v, g, dim), [values(*shape, dtype=dtype), values(*sizes, dtype=dtype, seed=1)])


def test_weight_norm_interface():
    v, g = values(4, 6), values(4, 1, seed=1)
    for dtype in (torch.float32, torch.bfloat16):
        got = compare(torch._weight_norm_interface, v.to(dtype), g.to(dtype), exact=False, rtol=1e-2, atol=1e-2)
        assert got[1].dtype == torch.float32
    assert torch._weight_norm(torch.zeros(2, 3).to(NEURON), torch.ones(2, 1).to(NEURON)).isnan().all()
    for bad in ((v, g.double()), (v.long(), g.long())):
        same_error(torch._weight_norm_interface, *bad)
    with pytest.raises(RuntimeError, match="one per slice"):
        torch._weight_norm_interface(v.to(NEURON), torch.ones(3, 1).to(NEURON))
    with pytest.raises(RuntimeError, match="first or the last"):
        torch._weight_norm_interface(values(2, 3, 4).to(NEURON), torch.ones(3).to(NEURON), 1)


def test_weight_norm_gradcheck():
    v = values(3, 4, dtype=torch.float64).to(NEURON).requires_grad_()
    g = values(3, 1, dtype=torch.float64, seed=1).to(NEURON).requires_grad_()
    assert torch.autograd.gradcheck(torch._weight_norm, (v, g))


def test_weight_norm_parametrization_trains():
    results = []
    for device in ("cpu", NEURON):
        torch.manual_seed(0)
        layer = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3)).to(device)
        layer(values(2, 3, 9).to(device)).square().sum().backward()
        results.append([p.grad for p in layer.parameters()])
    for got, want in zip(results[1], results[0], strict=True):
        near(got, want, torch.float32)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64], ids=str)
@pytest.mark.parametrize("p, dim", [(2, 0), (1, 1), (3.5, -1), (float("inf"), 0)])
def test_renorm(p, dim, dtype):
    x = values(4, 3, 5).to(dtype)
    tolerance = {"rtol": TOLERANCE.get(dtype, 1e-5), "atol": TOLERANCE.get(dtype, 1e-5)}
    compare(lambda t: torch.renorm(t, p, dim, 2.5), x, exact=False, **tolerance)
    compare(lambda t: t.clone().renorm_(p, dim, 2.5), x.transpose(0, 2), exact=False, strides=False, **tolerance)
    compare(lambda t: torch.renorm(t, p, dim, 2.5, out=torch.empty_like(t)), x, exact=False, **tolerance)


def test_renorm_errors_and_odd_values():
    x = values(3, 2)
    for arguments in ((-1, 0, 1.0), (0, 0, 1.0), (2, 0, -1.0), (2, 5, 1.0), (2 + 1j, 0, 1.0)):
        same_error(lambda t: torch.renorm(t, *arguments), x)
    same_error(lambda t: torch.renorm(t, 2, 0, 1.0), x[0])
    same_error(lambda t: torch.renorm(t, 2, 0, 1.0), x.long())
    odd = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0]])
    compare(lambda t: torch.renorm(t, 2, 0, 0.5), odd)
    compare(lambda t: torch.renorm(t, 2, 0, 0.5), torch.empty(3, 0))


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_embedding_renorm(dtype, norm_type):
    table, indices = values(9, 5, dtype=dtype), torch.tensor([[1, 4], [4, 8]])
    results = [(F.embedding(i, t, max_norm=2.0, norm_type=norm_type), t)
               for t, i in ((table.clone(), indices), on_device((table, indices)))]
    for got, want in zip(results[1], results[0]):
        near(got, want, dtype)
    assert torch.equal(results[1][1][0].cpu(), table[0])
    strided = torch.zeros(5, 9, dtype=dtype).to(NEURON).t().copy_(table)
    torch.embedding_renorm_(strided, indices.to(NEURON), 2.0, norm_type)
    near(strided, results[0][1], dtype)


def test_embedding_renorm_errors():
    table = values(4, 3)
    same_error(lambda t, i: torch.embedding_renorm_(t, i, 1.0, 2.0), table, torch.tensor([0.5]))
    same_error(lambda t, i: torch.embedding_renorm_(t, i, 1.0, 2.0), table[0], torch.tensor([0]))
    for bad in (4, -1):
        with pytest.raises(IndexError):
            torch.embedding_renorm_(table.to(NEURON), torch.tensor([1, bad]).to(NEURON), 1.0, 2.0)
            torch.neuron.synchronize()


def test_same_bits_for_any_thread_count():
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            bits = []
            for shape in ((3, 8, 61, 60), (40, 512)):
                x = values(*shape).to(NEURON)
                inner = x[0, 0].numel()
                y, mean, rstd = torch.native_group_norm(x, None, None, shape[0], shape[1], inner, 4, 1e-5)
                bits += [y, mean, rstd, *torch.ops.aten.native_group_norm_backward(
                    y, x, mean, rstd, None, shape[0], shape[1], inner, 4, [True] * 3)]
            v = values(300, 200).to(NEURON)
            for dim in (0, 1):
                bits += torch._weight_norm_interface(v, torch.ones(v.shape[dim], device=NEURON), dim)
            results.append([t.cpu() for t in bits])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results))
