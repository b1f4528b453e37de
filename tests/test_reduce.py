"""Reductions against CPU torch and fp64."""

import pytest
import torch

NEURON = torch.device("neuron", 0)
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.float64: (1e-12, 1e-12), torch.bfloat16: (8e-3, 8e-3),
             torch.float16: (1e-3, 1e-3)}


def make(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 5, shape, generator=generator).to(dtype)


def native(function, *args, **kwargs):
    """Runs it and fails if anything ran on the host."""
    torch.neuron.clear_op_tracking()
    result = function(*args, **kwargs)
    assert not torch.neuron.get_fallback_ops(), torch.neuron.get_fallback_ops()
    return result


def compare(function, x, exact=False):
    want = function(x)
    got = native(function, x.to(NEURON))
    pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
        if exact or not b.dtype.is_floating_point:
            assert torch.equal(a.cpu(), b)
        else:
            rtol, atol = TOLERANCE[x.dtype if x.dtype.is_floating_point else torch.float32]
            torch.testing.assert_close(a.cpu(), b, rtol=rtol, atol=atol * max(1, b.abs().nan_to_num(0, 0, 0).max().item() if b.numel() else 1), equal_nan=True)


SHAPES = [((), None), ((1,), None), ((7,), 0), ((64,), None), ((1000,), 0), ((5, 7), 0), ((5, 7), 1), ((5, 7), (0, 1)),
          ((3, 1, 65), (0, 2)), ((3, 40, 65), 1), ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 5), (0, 2)), ((70, 33), 0),
          ((300, 9), 0), ((9, 300), 1), ((2, 3000), 1), ((3000, 2), 0), ((0,), 0), ((0, 3), 0), ((0, 3), 1), ((3, 0), 0)]
REDUCTIONS = {
    "sum": lambda x, d, k: x.sum(d, k), "mean": lambda x, d, k: x.mean(d, k), "nansum": lambda x, d, k: x.nansum(d, k),
    "var": lambda x, d, k: x.var(d, keepdim=k, correction=0), "std": lambda x, d, k: x.std(d, keepdim=k, correction=0),
    "var_mean": lambda x, d, k: torch.var_mean(x, d, keepdim=k, correction=0),
    "std_mean": lambda x, d, k: torch.std_mean(x, d, keepdim=k, correction=0),
    "norm1": lambda x, d, k: torch.linalg.vector_norm(x, 1, d, k), "norm2": lambda x, d, k: torch.linalg.vector_norm(x, 2, d, k),
    "norm3": lambda x, d, k: torch.linalg.vector_norm(x, 3, d, k), "norm0": lambda x, d, k: torch.linalg.vector_norm(x, 0, d, k),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_floats(name, dtype):
    for shape, dims in SHAPES:
        for keepdim in (False, True):
            x = make(shape, dtype)
            compare(lambda t: REDUCTIONS[name](t, dims, keepdim), x)
            if len(shape) == 2:
                compare(lambda t: REDUCTIONS[name](t.t(), dims, keepdim), x)
                compare(lambda t: REDUCTIONS[name](t[::2, 1:], dims, keepdim), x)


EXTREMA = {"amax": lambda x, d, k: x.amax(d if d is not None else (), k), "amin": lambda x, d, k: x.amin(d if d is not None else (), k),
           "inf": lambda x, d, k: torch.linalg.vector_norm(x.float(), float("inf"), d, k),
           "-inf": lambda x, d, k: torch.linalg.vector_norm(x.float(), -float("inf"), d, k)}


@pytest.mark.parametrize("name", EXTREMA)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_extrema(name, dtype):
    for shape, dims in SHAPES:
        if 0 in shape:
            continue
        compare(lambda t: EXTREMA[name](t, dims, True), make(shape, dtype), exact=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    for shape, dims in SHAPES:
        x = make(shape, dtype)
        compare(lambda t: t.sum(dims), x)
        compare(lambda t: t.sum(dims, dtype=torch.float32), x)
        compare(lambda t: t.sum(dims, dtype=torch.int32), x)
        compare(lambda t: t.nansum(dims), x)
        compare(lambda t: t.prod(), x)
        if isinstance(dims, int):
            compare(lambda t: t.prod(dims), x)
        if x.numel():
            compare(lambda t: t.max(), x)
            compare(lambda t: t.min(), x)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.complex64])
def test_tests(dtype):
    for shape, dims in SHAPES:
        x = make(shape, torch.int64).bool().to(dtype)
        for f in (torch.any, torch.all):
            compare(lambda t: f(t), x)
            if isinstance(dims, int):
                compare(lambda t: f(t, dims), x)
            if dims is not None:
                compare(lambda t: f(t, (dims,) if isinstance(dims, int) else dims, keepdim=True), x)
        compare(lambda t: torch.count_nonzero(t, dims), x)
        compare(lambda t: torch.count_nonzero(t), x)


def test_prod_and_dtypes():
    x = make((4, 6), torch.float32)
    compare(lambda t: t.prod(), x)
    compare(lambda t: t.prod(1, keepdim=True), x)
    compare(lambda t: t.prod(0, dtype=torch.float64), x)
    compare(lambda t: t.sum(1, dtype=torch.float64), x)
    compare(lambda t: t.mean(dtype=torch.float64), x)
    compare(lambda t: t.trace(), make((5, 7), torch.float32))
    compare(lambda t: t.trace(), make((5, 7), torch.int32))
    compare(lambda t: torch.linalg.vector_norm(t, dtype=torch.float64), x)
    compare(lambda t: t.norm(), x)
    compare(lambda t: t.norm(p=2, dim=1), x)


def test_special_values():
    nan, inf = float("nan"), float("inf")
    for values in ([1, nan, 2], [inf, 1, -inf], [nan, nan, nan], [inf, inf, 0]):
        x = torch.tensor(values * 30)
        for f in (torch.sum, torch.nansum, torch.mean, torch.amax, torch.amin, torch.max, torch.min, torch.prod,
                  torch.var, torch.any, torch.all, torch.linalg.vector_norm):
            compare(f, x)
        compare(lambda t: t.reshape(30, 3).amax(0), x)
        compare(lambda t: t.reshape(30, 3).expand(16, 30, 3).amax(1), x)
        compare(lambda t: t.reshape(30, 3).t().contiguous().amin(1), x)


def test_large_sum_is_accurate():
    x = torch.rand(10_000_000, generator=torch.Generator().manual_seed(3))
    exact = x.double().sum().item()
    got = native(torch.sum, x.to(NEURON)).item()
    assert abs(got - exact) <= 1e-6 * exact
    columns = x.reshape(-1, 16)
    torch.testing.assert_close(native(torch.sum, columns.to(NEURON), 0).cpu().double(), columns.double().sum(0), rtol=1e-6, atol=0)


def test_variance_far_from_zero():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(4)) + 1e5
    torch.testing.assert_close(native(torch.var, x.to(NEURON)).cpu().double(), x.double().var(), rtol=1e-6, atol=0)


def test_same_bits_for_any_thread_count():
    inputs = [make((200_001,), torch.float32), make((3, 70_000), torch.float32), make((70_000, 33), torch.float32),
              make((5000, 40), torch.bfloat16), make((40, 300, 33), torch.float32)]
    threads = torch.get_num_threads()
    try:
        for x in inputs:
            d = x.to(NEURON)
            results = []
            for count in (1, 2, 4):
                torch.set_num_threads(count)
                results.append([f(d, dim).cpu() for dim in range(x.dim()) for f in (torch.sum, torch.var, torch.amax)] + [d.sum().cpu()])
            for other in results[1:]:
                assert all(torch.equal(a, b) for a, b in zip(results[0], other))
    finally:
        torch.set_num_threads(threads)


def test_out_and_errors():
    x = make((4, 6), torch.float32)
    d = x.to(NEURON)
    out = torch.empty(0, device=NEURON)
    assert torch.sum(d, 1, out=out) is out and torch.allclose(out.cpu(), x.sum(1))
    strided = torch.empty(8, device=NEURON)[::2]
    torch.mean(d, 1, out=strided)
    torch.testing.assert_close(strided.cpu(), x.mean(1))
    whole = torch.empty(4, dtype=torch.int64)
    assert torch.equal(torch.sum(d, 1, out=whole.to(NEURON)).cpu(), torch.sum(x, 1, out=whole))
    for f in (lambda t: t.sum(5), lambda t: t.sum((0, 0)), lambda t: t.long().mean(), lambda t: t[:0].max(), lambda t: t[:0].amax(0),
              lambda t: t.long().var()):
        with pytest.raises(Exception) as want:
            f(x)
        with pytest.raises(want.type) as got:
            f(d)
        assert str(got.value).split("neuron")[0][:30] == str(want.value).split("cpu")[0][:30]


@pytest.mark.parametrize("f", [lambda t: t.sum(1), lambda t: t.mean(0), lambda t: t.var(1), lambda t: t.std(), lambda t: t.amax(1), lambda t: t.norm(dim=1),
                               lambda t: t.prod(1), lambda t: t.logsumexp(0), lambda t: t.max()])
def test_gradients(f):
    x = make((4, 5), torch.float64).to(NEURON).requires_grad_()
    assert torch.autograd.gradcheck(f, x)
