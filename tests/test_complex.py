"""Complex numbers: pointwise functions, reductions and products against the CPU, natively."""

import pytest
import torch

import torch_neuronx

DTYPES = [torch.complex64, torch.complex128]
UNARY = ["abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "conj_physical", "cos", "cosh", "exp", "exp2", "expm1",
         "log", "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin", "sinc", "sinh",
         "sqrt", "square", "tan", "tanh", "isnan", "isinf", "isfinite", "real", "imag"]
BINARY = ["add", "sub", "mul", "div", "pow", "eq", "ne", "logical_and", "logical_or", "logical_xor", "logaddexp", "isclose"]


@pytest.fixture(autouse=True)
def native():
    """A fallback to the host is an error."""
    torch_neuronx._C.set_strict_mode(True)
    yield
    torch_neuronx._C.set_strict_mode(False)


def numbers(*shape, dtype=torch.complex64, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.complex128) * scale).to(dtype)


def device(value):
    return value.to("neuron") if isinstance(value, torch.Tensor) else value


def check(function, *args, **tolerance):
    expected = function(*args)
    actual = function(*map(device, args))
    assert actual.device.type == "neuron"
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    function = getattr(torch, name)
    x = numbers(30, 40, dtype=dtype)
    for value in (x, x.t(), x[::2, 1::3], x[:, :1].expand(30, 5), x[:0], x[3, 3], x.conj(), numbers(50, dtype=dtype, scale=0.01)):
        check(function, value)


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
                                  "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "reciprocal"])
def test_narrow_results_are_rounded_wide_ones(name):
    """complex64 is computed in fp64: half a unit in the last place of the larger part."""
    function, x = getattr(torch, name), numbers(3000, scale=1.5)
    exact = function(x.to(torch.complex128))
    error = (function(x.to("neuron")).cpu().to(torch.complex128) - exact).abs() / exact.abs()
    assert error.max() < 2 ** -24 * 1.42


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    function, x, y = getattr(torch, name), numbers(30, 40, dtype=dtype), numbers(30, 40, dtype=dtype, seed=1)
    tolerance = dict(rtol=1e-5, atol=1e-4) if name == "pow" and dtype == torch.complex64 else {}  # the CPU's own error
    others = [y, y.t().reshape(30, 40), y[0], y[:, :1], y.conj()]
    if name in ("add", "sub", "mul", "div", "pow", "eq", "ne"):
        others += [2.5, 2 - 1j, y.real]
    for other in others:
        check(function, x, other, **tolerance)
    check(function, x.t(), y.t(), **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(dtype):
    x = torch.cat([numbers(60, dtype=dtype), torch.tensor([0, 1, -1, 1j], dtype=dtype)])
    for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, 2j, 1 - 2j):
        check(torch.pow, x[:60], exponent)
    for exponent in (0, 1, 2, 3, 0.5):
        check(torch.pow, x, exponent)
    check(torch.pow, 2.5, x)
    check(torch.pow, 1 + 1j, x)
    check(torch.pow, x[:60].real.abs(), 1 + 2j)
    check(torch.pow, x[:60].real.abs(), x[:60])
    check(torch.float_power, x, 2)
    check(torch.ldexp, x, torch.arange(64) % 5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ternary(dtype):
    x, y, z = (numbers(20, 30, dtype=dtype, seed=s) for s in range(3))
    for value in (1, 0.5, 1 - 2j):
        check(lambda a, b, c: torch.addcmul(a, b, c, value=value), x, y, z)
        check(lambda a, b, c: torch.addcdiv(a, b, c, value=value), x, y, z)
        check(lambda a, b: torch.add(a, b, alpha=value), x, y)
    check(torch.lerp, x, y, 0.3)
    check(torch.lerp, x, y, z)
    check(torch.where, x.real > 0, x, y)
    check(lambda a: torch.nn.functional.silu(a), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(dtype):
    for function in (torch.exp, torch.log, torch.sin, torch.tanh, torch.sigmoid, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.abs, torch.angle,
                     lambda x: x * x.conj(), lambda x: x ** 3, lambda x: x.sum(), lambda x: x.mean(0), lambda x: x.prod(1), lambda x: x @ x.mT,
                     lambda x: x.var(0), lambda x: torch.linalg.vector_norm(x, dim=1)):
        x = numbers(4, 5, dtype=dtype).requires_grad_()
        y = x.detach().to("neuron").requires_grad_()
        for value in (x, y):
            result = function(value)
            (result.abs() if result.is_complex() else result).sum().backward()
        torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std"])
def test_reductions(name, dtype):
    x = numbers(5, 7, 6, dtype=dtype, scale=1.0)
    for value in (x, x.permute(2, 0, 1), x.conj(), x[:, ::2, 1:], x[0, 0, 0] if name not in ("var", "std") else x[0, 0]):
        check(lambda a: getattr(torch, name)(a), value)
        for dim in range(value.dim()):
            check(lambda a: getattr(torch, name)(a, dim), value)
            check(lambda a: getattr(torch, name)(a, dim, keepdim=True), value)
    if name in ("sum", "mean", "var"):
        check(lambda a: getattr(torch, name)(a, (0, 2)), x)
        check(lambda a: getattr(torch, name)(a, (0, 2)), numbers(300, 3, 70, dtype=dtype))
        check(lambda a: getattr(torch, name)(a), numbers(200, 700, dtype=dtype))
    if name in ("sum", "prod"):
        check(lambda a: getattr(torch, name)(a), x[:0])
        check(lambda a: getattr(torch, name)(a, dtype=torch.complex128), x.real)
    out = torch.empty(0, dtype=torch.float64 if name in ("var", "std") else torch.complex128, device="neuron")
    getattr(torch, name)(x.to("neuron"), 1, out=out)
    torch.testing.assert_close(out.cpu().to(getattr(torch, name)(x, 1).dtype), getattr(torch, name)(x, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_and_trace(dtype):
    x = numbers(6, 7, dtype=dtype)
    for order in (0, 1, 2, 3.5, float("inf"), -float("inf")):
        check(lambda a: torch.linalg.vector_norm(a, order), x)
        check(lambda a: torch.linalg.vector_norm(a, order, 1), x.conj())
    check(lambda a: torch.norm(a, 2, 1), x)
    check(torch.trace, x)
    for a, b in zip(torch.var_mean(x.to("neuron"), 1), torch.var_mean(x, 1)):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    a, b, c = numbers(13, 17, dtype=dtype), numbers(17, 11, dtype=dtype, seed=1), numbers(13, 11, dtype=dtype, seed=2)
    check(torch.mm, a, b)
    check(torch.mm, a.conj(), b)
    check(torch.mm, a, b.conj())
    check(torch.mm, b.mH, a.mH)
    check(torch.mm, a.t().contiguous().t(), b[:, ::2])
    check(torch.mm, a[:, :0], b[:0])
    check(torch.mv, a, b[:, 0])
    check(torch.bmm, a.expand(4, 13, 17), torch.stack([b, b * 2, b.conj(), b * 1j]))
    for beta, alpha in ((1, 1), (0, 1), (0.5, -2), (1j, 2 - 1j), (0, 1j)):
        check(lambda *t: torch.addmm(*t, beta=beta, alpha=alpha), c, a, b)
        check(lambda *t: torch.addmm(*t, beta=beta, alpha=alpha), c[0], a, b)
        check(lambda *t: torch.addmv(*t, beta=beta, alpha=alpha), c[:, 0], a, b[:, 0])
        check(lambda *t: torch.baddbmm(*t, beta=beta, alpha=alpha), c, a.expand(2, 13, 17), b.expand(2, 17, 11))
    x, y = a.flatten()[:100], b.flatten()[:100]
    check(torch.dot, x, y)
    check(torch.vdot, x, y)
    check(torch.vdot, x.conj(), y)
    check(torch.matmul, a, b[:, 1])
    check(lambda s, t: torch.einsum("ij,jk->ki", s, t), a, b)
    y = c.to("neuron")
    y.addmm_(a.to("neuron"), b.to("neuron"), beta=2, alpha=1j)
    torch.testing.assert_close(y.cpu(), torch.addmm(c, a, b, beta=2, alpha=1j))
    out = torch.empty(0, dtype=dtype, device="neuron")
    torch.mm(a.to("neuron"), b.to("neuron"), out=out)
    torch.testing.assert_close(out.cpu(), a @ b)
    with pytest.raises(RuntimeError):
        torch.mm(a.to("neuron"), b.real.to("neuron"))


def test_infinite_and_zero_arguments():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0, complex(inf, 0), complex(-inf, 0), complex(nan, nan), complex(-0.0, -0.0)])
    expected = {
        "sqrt": [0, complex(inf, 0), complex(0, inf), complex(nan, nan), complex(0, -0.0)],
        "exp": [1, complex(inf, 0), 0, complex(nan, nan), complex(1, -0.0)],
        "abs": [0, inf, inf, nan, 0],
        "tanh": [0, 1, -1, complex(nan, nan), complex(-0.0, -0.0)],
    }
    for name, values in expected.items():
        actual = getattr(torch, name)(x.to("neuron")).cpu()
        torch.testing.assert_close(torch.view_as_real(actual + 0j), torch.view_as_real(torch.tensor(values) + 0j), equal_nan=True)


def test_what_the_cpu_refuses():
    x = numbers(3)
    for function in (torch.floor, torch.erf, torch.lgamma, torch.sort, lambda a: a < a, lambda a: a.clamp(0, 1), lambda a: torch.maximum(a, a),
                     lambda a: a % 2, lambda a: torch.atan2(a, a)):
        with pytest.raises((RuntimeError, NotImplementedError)) as cpu:
            function(x)
        with pytest.raises((RuntimeError, NotImplementedError)) as ours:
            function(x.to("neuron"))
        assert issubclass(ours.type, cpu.type) or issubclass(cpu.type, ours.type)
