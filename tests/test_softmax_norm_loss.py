"""softmax, log_softmax, layer norm and negative log likelihood against CPU torch, with their gradients."""

import pytest
import torch
from torch.nn import functional as F

NEURON = torch.device("neuron", 0)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 4e-3}
DTYPES = list(TOLERANCE)


def compare(function, inputs, dtype):
    """Runs function(*inputs) on both devices, forward and backward; bf16 and fp16 against the CPU in fp64."""
    results = []
    for device in ("cpu", NEURON):
        exact = device == "cpu" and dtype in (torch.bfloat16, torch.float16)
        leaves = [(x.double() if exact else x.detach().clone()).to(device).requires_grad_() for x in inputs]
        torch.neuron.clear_op_tracking()
        out = function(*leaves)
        torch.manual_seed(0)
        out.backward(torch.randn(out.shape, dtype=torch.float64).to(dtype).to(out))
        results.append([out.detach().cpu().double()] + [x.grad.cpu().double() for x in leaves if x.grad is not None])
    assert not list(torch.neuron.get_fallback_ops())
    tolerance = TOLERANCE[dtype]
    for want, got in zip(*results):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((5,), 0), ((3, 17), 1), ((3, 17), 0), ((2, 33, 4), 1), ((4, 1000), -1), ((), 0)])
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax(function, shape, dim, dtype):
    torch.manual_seed(1)
    compare(lambda x: function(x, dim), [torch.randn(shape, dtype=torch.float64).mul(3).to(dtype)], dtype)


def test_softmax_of_extreme_rows():
    x = torch.tensor([[1e30, -1e30, 0.0], [float("-inf"), 0.0, 1.0], [float("nan"), 0.0, 1.0],
                      [float("-inf")] * 3, [float("inf"), 0.0, 0.0]])
    for function in (F.softmax, F.log_softmax):
        torch.testing.assert_close(function(x.to(NEURON), 1).cpu(), function(x, 1), equal_nan=True)


def test_softmax_dtype_strides_and_out():
    x = torch.randn(6, 8).t()
    out = torch.empty(8, 6).t().to(NEURON).t()
    torch.softmax(x.to(NEURON), 0, out=out)
    torch.testing.assert_close(out.cpu(), torch.softmax(x, 0))
    half = x.bfloat16()
    torch.testing.assert_close(F.softmax(half.to(NEURON), 1, dtype=torch.float32).cpu(), F.softmax(half, 1, dtype=torch.float32))
    with pytest.raises(IndexError):
        F.softmax(x.to(NEURON), 5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, normalized", [((4, 16), (16,)), ((2, 3, 5, 7), (5, 7)), ((300, 33), (33,)), ((1, 1), (1,))])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(shape, normalized, affine, dtype):
    torch.manual_seed(2)
    inputs = [torch.randn(shape, dtype=torch.float64).add(1).to(dtype)]
    if affine:
        inputs += [torch.randn(normalized, dtype=torch.float64).to(dtype) for _ in range(2)]
    if dtype in (torch.bfloat16, torch.float16) and shape[0] == 300:
        inputs[0] = inputs[0][:20]
    compare(lambda x, *wb: F.layer_norm(x, normalized, *wb), inputs, dtype)


def test_layer_norm_gradcheck_and_errors():
    torch.manual_seed(3)
    x = torch.randn(5, 7, dtype=torch.float64, device="cpu").to(NEURON).requires_grad_()
    w = torch.randn(7, dtype=torch.float64).to(NEURON).requires_grad_()
    b = torch.randn(7, dtype=torch.float64).to(NEURON).requires_grad_()
    assert torch.autograd.gradcheck(lambda *a: F.layer_norm(a[0], (7,), a[1], a[2]), (x, w, b))
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, (6,))
    assert F.layer_norm(torch.empty(0, 7, device=NEURON), (7,)).shape == (0, 7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_entropy(reduction, weighted, dtype):
    torch.manual_seed(4)
    for shape in ((9,), (6, 9), (2, 9, 3, 4)):
        x = torch.randn(shape, dtype=torch.float64).to(dtype)
        positions = shape[:1] + shape[2:] if len(shape) > 1 else ()
        target = torch.randint(0, 9, positions)
        weight = torch.rand(9, dtype=torch.float64).add(0.5).to(dtype) if weighted else None
        compare(lambda y: F.cross_entropy(y, target.to(y.device), weight=None if weight is None else weight.to(y),
                                          reduction=reduction, ignore_index=3), [x], dtype)


def test_target_out_of_range_is_an_index_error():
    x = torch.randn(3, 4).to(NEURON)
    for bad in (4, -1):
        with pytest.raises(IndexError, match="out of bounds"):
            F.nll_loss(x, torch.tensor([0, bad, 1]).to(NEURON)).item()
    assert F.nll_loss(x, torch.tensor([0, 1, 2]).to(NEURON)).isfinite()


def test_same_bits_for_any_thread_count():
    torch.manual_seed(5)
    x = torch.randn(257, 513)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            y = x.to(NEURON).requires_grad_()
            w = torch.ones(513).to(NEURON).requires_grad_()
            F.layer_norm(F.softmax(y, 1), (513,), w).square().sum().backward()
            results.append((y.grad.cpu(), w.grad.cpu()))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))
