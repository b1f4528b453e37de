"""Cumulative sums, products, extrema and log-sum-exps against CPU torch."""

import pytest
import torch

from host_reference import FLOATS, INTS, NEURON, compare, compare_gradients, normal, same_error, sample

DTYPES = FLOATS + INTS
SHAPES = [(1,), (9,), (600,), (5, 7), (40, 65), (9, 300), (70, 9), (3, 4, 20), (20, 1, 3)]
NAN = float("nan")
# fp64 sums of rows that were cut differ from one chain by roundings of the chain.
CLOSE = {torch.float32: (1e-6, 1e-5), torch.float64: (1e-13, 1e-11), torch.bfloat16: (8e-3, 1e-2), torch.float16: (1e-3, 1e-2)}


def layouts(x):
    yield x
    if x.dim() > 1:
        yield x.transpose(0, -1)
        yield x[::2, 1:] if x.shape[1] > 1 else x[::2]


def every_dim(function, dtype, values=sample, **options):
    for shape in SHAPES:
        for x in layouts(values(*shape, dtype=dtype)):
            for dim in range(-x.dim(), x.dim()):
                compare(lambda t: function(t, dim), x, strides=False, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cumsum(dtype):
    every_dim(torch.cumsum, dtype)


def near_one(*shape, dtype):
    return 1 + normal(*shape).to(dtype) / 32 if dtype in FLOATS else sample(*shape, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cumprod(dtype):
    every_dim(torch.cumprod, dtype, near_one)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extrema(name, dtype):
    every_dim(getattr(torch, name), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logcumsumexp(dtype):
    rtol, atol = CLOSE[dtype]
    every_dim(torch.logcumsumexp, dtype, normal, exact=False, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity(dtype):
    row = torch.tensor([1, 3, 3, -torch.inf, 2, torch.inf, NAN, 5, NAN, -torch.inf, 7], dtype=dtype)
    for x, dim in [(row, 0), (row.flip(0), 0), (row.repeat(9, 1), 1), (row.repeat(9, 1).t().contiguous(), 0),
                   (torch.full((4,), -torch.inf, dtype=dtype), 0), (row[:6], 0)]:
        for function in (torch.cumsum, torch.cumprod, torch.cummax, torch.cummin):
            compare(lambda t: function(t, dim), x)
        compare(lambda t: torch.logcumsumexp(t, dim), x, exact=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows_in_segments(dtype):
    x = sample(50_003, dtype=dtype)
    compare(lambda t: torch.cumsum(t, 0), x)
    compare(lambda t: torch.cummax(t, 0), x)
    compare(lambda t: torch.cummin(t, 0), x)
    compare(lambda t: torch.cumprod(t, 0), x)
    compare(lambda t: torch.cumsum(t, 1), x[:50_000].view(25_000, 2).t(), strides=False)


def test_long_rows_of_any_values():
    x = normal(100_000, dtype=torch.float64)
    compare(lambda t: torch.cumsum(t, 0), x, exact=False, rtol=1e-12, atol=1e-11)
    compare(lambda t: torch.logcumsumexp(t, 0), x, exact=False, rtol=1e-12, atol=1e-12)
    compare(lambda t: torch.cumprod(t, 0), 1 + x / 1000, exact=False, rtol=1e-11, atol=1e-11)
    x[70_000] = NAN
    compare(lambda t: (torch.cummax(t, 0), torch.cummin(t, 0)), x)


def test_integers_wrap():
    big = torch.tensor([2**62, 2**62, 2**62, -5, 3])
    compare(lambda t: (t.cumsum(0), t.cumprod(0), t.cummax(0), t.cummin(0)), big)
    compare(lambda t: t.cumsum(0, dtype=torch.int8), torch.full((20,), 100, dtype=torch.int32))


def test_dtype_argument():
    x = torch.tensor([[0.5, 1.5, 2.5], [1e3, -7.25, 0.1]])
    for dtype in (torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.complex64):
        compare(lambda t: (t.cumsum(1, dtype=dtype), t.cumprod(0, dtype=dtype)), x)
    compare(lambda t: t.cumsum(0, dtype=torch.float32), sample(4, 5, dtype=torch.bool))
    compare(lambda t: t.cumsum(0, dtype=torch.float32), torch.tensor([2**24 + 1, 1]))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex(dtype):
    x = torch.complex(sample(6, 9, dtype=torch.float64), sample(6, 9, dtype=torch.float64, seed=1)).to(dtype)
    for dim in (0, 1, -1):
        compare(lambda t: t.cumsum(dim), x)
        compare(lambda t: (t / 32).cumprod(dim), x, exact=False)
    compare(lambda t: t.conj().cumsum(0), x, strides=False)
    compare(lambda t: (t.cumsum(0), t.cumprod(0)), x[0, 0])
    for dim in (0, 1):
        compare(lambda t: (t / 32).logcumsumexp(dim), x, exact=False)
    compare(lambda t: t.logcumsumexp(0), torch.tensor([complex(-torch.inf, 0), 1, complex(300, 1), complex(-torch.inf, 2), 2]).to(dtype), exact=False)


def test_in_place_and_out():
    x = sample(5, 600)

    def in_place(t):
        a, b, c = t.clone(), t.t().clone(), t.int()
        return a.cumsum_(1), b.cumsum_(1), c.cumprod_(0)
    compare(in_place, x)

    def out(t):
        strided = torch.empty(600, 5, device=t.device).t()
        torch.cumsum(t, 1, out=strided)
        values, indices = t.new_empty(0), torch.empty(0, dtype=torch.long, device=t.device)
        torch.cummax(t, 0, out=(values, indices))
        logs = t.new_empty(5, 600)
        torch.logcumsumexp(t * 0, 1, out=logs)
        return strided, values, indices
    compare(out, x)
    same_error(lambda t: t.int().cumsum_(0, dtype=torch.float32), x)
    same_error(lambda t: torch.cumsum(t, 0, dtype=torch.int, out=torch.empty(5, 600, device=t.device)), x)


def test_scalars_and_empty():
    for x in (torch.tensor(3.0), torch.empty(0), torch.empty(0, 3), torch.empty(3, 0)):
        compare(lambda t: (t.cumsum(0), t.cumprod(-1), t.cummax(0), t.cummin(0), torch.logcumsumexp(t, 0)), x)


def test_bad_input():
    for function in (torch.cumsum, torch.cumprod, torch.cummax, torch.logcumsumexp):
        same_error(lambda t: function(t, 2), sample(3, 4))
        same_error(lambda t: function(t, -3), sample(3, 4))
    same_error(lambda t: t.cumsum(0, dtype=torch.bool), sample(3, 4))
    same_error(lambda t: t.cummax(0), torch.ones(3, dtype=torch.complex64))
    same_error(lambda t: t.cummax(0), torch.ones(3, dtype=torch.uint16))
    same_error(lambda t: t.logcumsumexp(0), torch.ones(3, dtype=torch.int))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients(dtype):
    x = normal(4, 6, dtype=dtype)
    for function in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
        compare_gradients(lambda t: function(t, 1), x)
        compare_gradients(lambda t: function(t.t(), 1), x)
    compare_gradients(lambda t: t.cummax(0)[0] + t.cummin(0)[0], x)
    x[1, 2] = x[2, 3] = x[2, 5] = 0
    compare_gradients(lambda t: torch.cumprod(t, 1), x)


def test_same_bits_for_any_number_of_threads():
    row, many = normal(200_000).to(NEURON), normal(300, 400).to(NEURON)
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            tensors = [row.cumsum(0), row.double().cumsum(0), row.logcumsumexp(0), many.cumsum(0), many.cumsum(1), *row.cummax(0)]
            results.append([t.cpu() for t in tensors])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results))
