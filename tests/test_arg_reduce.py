"""argmax, argmin, extrema along a dimension, aminmax and equal against CPU torch."""

import pytest
import torch

from host_reference import FLOATS, INTS, NEURON, compare, compare_gradients, normal, same_error, sample

DTYPES = FLOATS + INTS
NUMBERS = [d for d in DTYPES if d != torch.bool]
SHAPES = [(1,), (7,), (300,), (5, 7), (40, 65), (3, 1, 20), (9, 300), (300, 9), (2, 5000), (4, 3, 5, 6)]
NAN = float("nan")


def layouts(x):
    yield x
    if x.dim() > 1:
        yield x.transpose(0, -1)
        yield x[::2, 1:] if x.shape[1] > 1 else x[::2]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_index(name, dtype):
    for shape in SHAPES:
        for x in layouts(sample(*shape, dtype=dtype)):
            compare(lambda t: getattr(t, name)(), x)
            for dim in range(-x.dim(), x.dim()):
                compare(lambda t: getattr(t, name)(dim, keepdim=dim % 2 == 0), x, strides=False)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_value_and_index(name, dtype):
    for shape in SHAPES:
        for x in layouts(sample(*shape, dtype=dtype)):
            for dim in range(-x.dim(), x.dim()):
                compare(lambda t: getattr(t, name)(dim, keepdim=dim % 2 == 0), x, strides=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_aminmax(dtype):
    for x in layouts(sample(6, 50, dtype=dtype)):
        compare(lambda t: torch.aminmax(t), x)
        compare(lambda t: torch.aminmax(t, dim=-1, keepdim=True), x)
        compare(lambda t: torch.aminmax(t, dim=0), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_first_nan_wins(dtype):
    for shape, dim in [((3000,), 0), ((4, 3000), 1), ((3000, 20), 0)]:
        x = normal(*shape, dtype=dtype)
        x.view(-1)[5::701] = NAN
        for function in (torch.argmax, torch.argmin, torch.max, torch.min):
            compare(lambda t: function(t, dim), x)
        compare(lambda t: t.argmax(), x)
    compare(lambda t: torch.aminmax(t), torch.tensor([1, NAN, 2], dtype=dtype))
    infinite = torch.tensor([[-torch.inf, -torch.inf], [torch.inf, torch.inf]], dtype=dtype)
    compare(lambda t: (t.max(1), t.min(1), t.argmax(), t.argmin()), infinite)


def test_integers_are_exact():
    big = torch.tensor([2**62, 2**62 + 1, -2**63, 2**63 - 1, 2**63 - 1])
    compare(lambda t: (t.max(0), t.min(0), t.argmax(), t[:2].argmax()), big)


def test_long_rows_in_segments():
    x = normal(300_000)
    compare(lambda t: (t.argmax(), t.max(0), t.min(0)), x)
    compare(lambda t: (t.argmin(0), t.max(0)), x.view(-1, 4)[:, :3], strides=False)
    compare(lambda t: (t.argmin(0), t.max(0)), x.view(-1, 10))
    equal = torch.zeros(200_000)
    compare(lambda t: (t.argmax(), t.argmin(), t.max(0), t.view(-1, 10).min(0)), equal)


def test_scalars_and_empty():
    compare(lambda t: (t.max(0), t.min(-1), t.argmax(), t.argmin(0), torch.aminmax(t, dim=0)), torch.tensor(3.0))
    compare(lambda t: (t.max(1), t.argmin(1), t.max(2, keepdim=True)[1]), torch.empty(0, 3, 2))
    same_error(lambda t: t.max(0), torch.empty(0, 3))
    same_error(lambda t: t.argmax(), torch.empty(0, 3))
    same_error(lambda t: torch.aminmax(t), torch.empty(0, 3))


def test_out():
    x = sample(5, 6)

    def values(t):
        out = torch.empty(0, device=t.device), torch.empty(0, dtype=torch.long, device=t.device)
        torch.max(t, 0, out=out)
        strided = torch.empty(10, dtype=torch.long, device=t.device)[::2]
        torch.argmin(t, 1, out=strided)
        return out + (strided,)
    compare(values, x)
    same_error(lambda t: torch.argmax(t, 0, out=torch.empty(6, device=t.device)), x)
    same_error(lambda t: torch.max(t, 0, out=(t.new_empty(6), t.new_empty(6))), x)


def test_bad_input():
    same_error(lambda t: t.max(2), sample(3, 4))
    same_error(lambda t: t.argmax(-3), sample(3, 4))
    same_error(lambda t: t.argmax(), sample(3, 4, dtype=torch.bool))
    for dtype in (torch.complex64, torch.uint16):
        same_error(lambda t: t.argmax(), torch.ones(3, dtype=dtype))
        same_error(lambda t: t.max(0), torch.ones(3, dtype=dtype))
        same_error(lambda t: torch.aminmax(t), torch.ones(3, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients(dtype):
    x = normal(4, 6, dtype=dtype)
    compare_gradients(lambda t: t.max(1)[0], x)
    compare_gradients(lambda t: t.min(0, keepdim=True)[0], x)
    compare_gradients(lambda t: torch.stack(torch.aminmax(t, dim=1)), x)


@pytest.mark.parametrize("dtype", DTYPES + [torch.complex64, torch.uint16])
def test_equal(dtype):
    x = sample(40, 30).to(dtype)
    y = x.clone()
    y[39, 29] = 101 if dtype != torch.bool else not y[39, 29]
    for a, b in [(x, x), (x, x.clone()), (x, y), (x.t(), x.t().contiguous()), (x.t(), y.t()), (x[:3], x[:4]), (x[:0], y[:0]), (x[0, 0], y[0, 0])]:
        assert torch.equal(a.to(NEURON), b.to(NEURON)) == torch.equal(a, b)
        assert torch.equal(a.to(NEURON), a.to(NEURON).clone())


def test_equal_of_special_values():
    for a, b in [([NAN], [NAN]), ([0.0], [-0.0]), ([torch.inf], [torch.inf])]:
        for dtype in FLOATS:
            a_, b_ = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)
            assert torch.equal(a_.to(NEURON), b_.to(NEURON)) == torch.equal(a_, b_)
    assert torch.equal(torch.ones(2, device=NEURON), torch.ones(2, device=NEURON, dtype=torch.int))
    with pytest.raises(RuntimeError):
        torch.equal(torch.ones(2), torch.ones(2, device=NEURON))


def test_same_bits_for_any_number_of_threads():
    x = normal(70, 3000).to(NEURON)
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            results.append([t.cpu() for t in (x.argmax(), *x.max(0), *x.min(1), *torch.aminmax(x))])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results))
