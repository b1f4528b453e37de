"""Matrix products against fp64 on the host, at sizes around the edges of tiles and blocks."""

import itertools

import pytest
import torch

import torch_neuronx  # noqa: F401

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Of the sum (relative to the number of terms) and of the store; the reference for fp64 has roundings of its own.
SUM_ERROR = {torch.float32: 3e-7, torch.float64: 1e-15, torch.bfloat16: 3e-7, torch.float16: 3e-7}
STORE_ERROR = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 2**-8, torch.float16: 2**-11}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(actual, exact, dtype, terms):
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.cpu().double(), exact, rtol=STORE_ERROR[dtype], atol=SUM_ERROR[dtype] * (terms + 8))


def make(rows, columns, dtype, transposed=False):
    return torch.randn(columns, rows).to(dtype).t() if transposed else torch.randn(rows, columns).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("left,right", list(itertools.product((False, True), repeat=2)))
def test_mm_around_tile_edges(dtype, left, right):
    sizes = (1, 5, 6, 7, 13, 14, 15, 16, 17, 31, 32, 33, 65)
    for i, m in enumerate(sizes):
        n, k = sizes[(5 * i + 3) % len(sizes)], sizes[(3 * i + 1) % len(sizes)]
        a, b = make(m, k, dtype, left), make(k, n, dtype, right)
        close(a.to("neuron") @ b.to("neuron"), a.double() @ b.double(), dtype, k)


@pytest.mark.parametrize("shape", ((97, 513, 129), (2049, 17, 33), (35, 1025, 2049), (511, 511, 257), (16, 700, 900)), ids=str)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_mm_around_block_edges(shape, dtype):
    m, k, n = shape
    for left, right in ((False, False), (False, True), (True, False)):
        a, b = make(m, k, dtype, left), make(k, n, dtype, right)
        close(a.to("neuron") @ b.to("neuron"), a.double() @ b.double(), dtype, k)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_around(dtype):
    info = torch.iinfo(dtype)
    a = torch.randint(info.min // 2, info.max // 2, (9, 40)).to(dtype)
    b = torch.randint(info.min // 2, info.max // 2, (40, 300)).to(dtype)
    c = torch.randint(0, 9, (300,)).to(dtype)
    assert torch.equal((a.to("neuron") @ b.to("neuron")).cpu(), a @ b)
    assert torch.equal(torch.addmm(c.to("neuron"), a.to("neuron"), b.to("neuron"), beta=2, alpha=3).cpu(),
                       torch.addmm(c, a, b, beta=2, alpha=3))


def test_strided_views_and_results():
    base, other = torch.randn(60, 90), torch.randn(90, 80)
    a, b = base[::2, ::3], other[::3, 1::2]
    device_a, device_b = base.to("neuron")[::2, ::3], other.to("neuron")[::3, 1::2]
    close(device_a @ device_b, a.double() @ b.double(), torch.float32, 30)
    out = torch.zeros(40, 60, device="neuron").t()[::2, :]
    torch.mm(device_a, device_b, out=out)
    close(out, a.double() @ b.double(), torch.float32, 30)


def test_out_resizes_and_may_alias_an_input():
    a, b = torch.randn(20, 20), torch.randn(20, 20)
    x, y = a.to("neuron"), b.to("neuron")
    out = torch.empty(0, device="neuron")
    assert torch.mm(x, y, out=out) is out
    close(out, a.double() @ b.double(), torch.float32, 20)
    torch.mm(x, y, out=x)
    close(x, a.double() @ b.double(), torch.float32, 20)
    y.addmm_(y, y)
    close(y, b.double() + b.double() @ b.double(), torch.float32, 20)


@pytest.mark.parametrize("shape", ((7, 9), (9,), (1, 9), (7, 1), (1,), ()), ids=str)
def test_addmm_broadcasts_its_addend(shape):
    c, a, b = torch.randn(shape), torch.randn(7, 30), torch.randn(30, 9)
    exact = torch.addmm(c.double(), a.double(), b.double(), beta=0.5, alpha=-2)
    close(torch.addmm(c.to("neuron"), a.to("neuron"), b.to("neuron"), beta=0.5, alpha=-2), exact, torch.float32, 60)


def test_beta_zero_ignores_what_is_there():
    a, b = torch.randn(5, 3), torch.randn(3, 4)
    c = torch.full((5, 4), float("nan"), device="neuron")
    close(torch.addmm(c, a.to("neuron"), b.to("neuron"), beta=0), a.double() @ b.double(), torch.float32, 3)


def test_empty_dimensions():
    x = torch.empty(3, 0, device="neuron")
    assert torch.equal((x @ torch.empty(0, 4, device="neuron")).cpu(), torch.zeros(3, 4))
    assert (torch.empty(0, 5, device="neuron") @ torch.ones(5, 2, device="neuron")).shape == (0, 2)
    c = torch.ones(3, 4, device="neuron")
    assert torch.equal(torch.addmm(c, x, torch.empty(0, 4, device="neuron"), beta=2).cpu(), torch.full((3, 4), 2.0))
    assert torch.dot(torch.empty(0, device="neuron"), torch.empty(0, device="neuron")).item() == 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batches(dtype):
    for batch, m, k, n in ((1, 3, 4, 5), (40, 8, 8, 8), (3, 65, 33, 70), (2, 1, 64, 130)):
        a, b, c = torch.randn(batch, m, k).to(dtype), torch.randn(batch, k, n).to(dtype), torch.randn(batch, m, n).to(dtype)
        x, y, z = a.to("neuron"), b.to("neuron"), c.to("neuron")
        close(torch.bmm(x, y), a.double() @ b.double(), dtype, k)
        close(torch.baddbmm(z, x, y, beta=2, alpha=3), 2 * c.double() + 3 * (a.double() @ b.double()), dtype, 3 * k)
        close(torch.bmm(y.transpose(1, 2), x.transpose(1, 2)), (a.double() @ b.double()).mT, dtype, k)
        close(torch.bmm(x, y[:1].expand(batch, k, n)), a.double() @ b[:1].double(), dtype, k)
    a, b, c = torch.randn(4, 5, 6).to(dtype), torch.randn(4, 6, 7).to(dtype), torch.randn(5, 7).to(dtype)
    close(torch.addbmm(c.to("neuron"), a.to("neuron"), b.to("neuron")), c.double() + (a.double() @ b.double()).sum(0), dtype, 24)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_vectors(dtype):
    for m, k in ((1, 1), (7, 33), (300, 1025), (3, 20000)):
        a, x, y = torch.randn(m, k).to(dtype), torch.randn(k).to(dtype), torch.randn(m).to(dtype)
        d, u, v = a.to("neuron"), x.to("neuron"), y.to("neuron")
        close(d @ u, a.double() @ x.double(), dtype, k)
        close(v @ d, y.double() @ a.double(), dtype, m)
        close(torch.addmv(v, d, u, beta=2, alpha=3), 2 * y.double() + 3 * (a.double() @ x.double()), dtype, 3 * k)
        close(torch.dot(u, u.flip(0)), x.double() @ x.double().flip(0), dtype, k)
        close(u[::2].dot(u[::2]), x[::2].double().dot(x[::2].double()), dtype, k)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_wide_results_of_narrow_factors(dtype):
    a, b, c = torch.randn(20, 600).to(dtype), torch.randn(600, 30).to(dtype), torch.randn(20, 30)
    x, y = a.to("neuron"), b.to("neuron")
    exact = a.double() @ b.double()
    close(torch.mm(x, y, out_dtype=torch.float32), exact, torch.float32, 600)
    close(torch.addmm(c.to("neuron"), x, y, out_dtype=torch.float32), c.double() + exact, torch.float32, 600)
    close(torch.bmm(x[None], y[None], out_dtype=torch.float32)[0], exact, torch.float32, 600)


def test_int_mm():
    a, b = torch.randint(-128, 128, (20, 300)).to(torch.int8), torch.randint(-128, 128, (300, 24)).to(torch.int8)
    assert torch.equal(torch._int_mm(a.to("neuron"), b.to("neuron")).cpu(), torch._int_mm(a, b))


def test_same_bits_for_any_number_of_threads():
    before = torch.get_num_threads()
    a, b = torch.randn(300, 700).to("neuron"), torch.randn(700, 130).to("neuron")
    try:
        results = []
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            results.append(((a @ b).cpu(), (a.t() @ a).cpu(), (a @ b[:, 0]).cpu()))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], other))


@pytest.mark.parametrize("call", (
    lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    lambda d: torch.mm(torch.ones(2, device=d), torch.ones(4, 5, device=d)),
    lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 5, device=d, dtype=torch.float64)),
    lambda d: torch.addmm(torch.ones(4, device=d), torch.ones(2, 3, device=d), torch.ones(3, 5, device=d)),
    lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(3, 4, 5, device=d)),
    lambda d: torch.dot(torch.ones(3, device=d), torch.ones(4, device=d)),
    lambda d: torch.mv(torch.ones(3, 4, device=d), torch.ones(3, device=d)),
), ids=str)
def test_errors_are_those_of_the_host(call):
    with pytest.raises(Exception) as expected:
        call("cpu")
    with pytest.raises(type(expected.value)):
        call("neuron")


def test_gradients():
    def inputs(*shapes):
        return tuple(torch.randn(shape, dtype=torch.float64).to("neuron").requires_grad_() for shape in shapes)

    assert torch.autograd.gradcheck(torch.addmm, inputs((3, 5), (3, 4), (4, 5)))
    assert torch.autograd.gradcheck(torch.bmm, inputs((2, 3, 4), (2, 4, 5)))
    assert torch.autograd.gradcheck(torch.nn.functional.linear, inputs((2, 3, 4), (5, 4), (5,)))
    assert torch.autograd.gradcheck(torch.mv, inputs((3, 4), (4,)))


def test_nothing_falls_back(monkeypatch):
    monkeypatch.setenv("TORCH_NEURONX_STRICT", "1")
    x = torch.randn(4, 3, 8).to("neuron").requires_grad_()
    w, b = torch.randn(5, 8).to("neuron").requires_grad_(), torch.randn(5).to("neuron").requires_grad_()
    torch.nn.functional.linear(x, w, b).sum().backward()
    assert x.grad.shape == x.shape and w.grad.shape == w.shape


# ---- products of fp8 matrices with scales ----------------------------------------------------------------------------


def scaled_factors(dtype=torch.float8_e4m3fn):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(32, 48, generator=generator).to(dtype), torch.randn(16, 48, generator=generator).to(dtype).t())


@pytest.mark.parametrize("out_dtype", [None, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
@pytest.mark.parametrize("rows", [False, True])
def test_scaled_mm(out_dtype, rows):
    a, b = scaled_factors()
    generator = torch.Generator().manual_seed(1)
    scale_a = torch.rand(32, 1, generator=generator) if rows else torch.tensor(0.5)
    scale_b = torch.rand(1, 16, generator=generator) if rows else torch.tensor([1.5])
    bias = torch.arange(16.0)
    for options in ({}, {"bias": bias}, {"bias": bias.bfloat16(), "scale_result": torch.tensor(2.0)}):
        exact = a.double() @ b.double() * scale_a.double() * scale_b.double()
        exact = exact + (bias.double() if "bias" in options else 0)
        dtype = out_dtype or a.dtype
        exact = exact / (2 if "scale_result" in options and dtype == torch.float8_e4m3fn else 1)
        actual = torch._scaled_mm(a.to("neuron"), b.to("neuron"), scale_a.to("neuron"), scale_b.to("neuron"), out_dtype=out_dtype,
                                  **{name: value.to("neuron") for name, value in options.items()}).cpu()
        assert actual.dtype == dtype and actual.shape == (32, 16)
        tolerance = {torch.float32: 1e-5, torch.bfloat16: 4e-3, torch.float16: 5e-4, torch.float8_e4m3fn: 6.3e-2}[dtype]
        torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=1e-5 if dtype != torch.float8_e4m3fn else 2e-3)


def test_scaled_mm_of_other_fp8_dtypes_and_out():
    a, b = scaled_factors(torch.float8_e5m2)
    one = torch.tensor(1.0)
    out = torch.empty(0, device="neuron")
    torch._scaled_mm(a.to("neuron"), b.to("neuron"), one.to("neuron"), one.to("neuron"), out_dtype=torch.float32, out=out)
    torch.testing.assert_close(out.cpu(), (a.double() @ b.double()).float())


def test_scaled_mm_refuses_what_the_cpu_refuses():
    a, b = scaled_factors()
    one = torch.tensor(1.0)
    for args, options in (((a, b.t(), one, one), {}), ((a[0], b, one, one), {}), ((a.float(), b.float(), one, one), {}),
                          ((a, b, one.double(), one), {}), ((a, b, torch.ones(32), torch.ones(16)), {}),
                          ((a, b, torch.ones(32, 1), one), {}), ((a, b, one, one), {"bias": torch.ones(5)}),
                          ((a, b, one, one), {"scale_result": torch.ones(3)})):
        with pytest.raises(Exception) as cpu:
            torch._scaled_mm(*args, **options)
        with pytest.raises(cpu.type):
            torch._scaled_mm(*(value.to("neuron") for value in args), **{name: value.to("neuron") for name, value in options.items()})
