"""Pointwise operators against CPU torch: every operator over dtypes, layouts and special values, with stated ULP bounds
for the elementary functions."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import torch_neuronx

SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e-20, 1e-7, 0.5, 2.0, -2.5, 2.5, 1.5, 3.0, -3.0,
           88.0, 89.0, -88.0, -104.0, 1e10, -1e10, 3e38]
UNARY = ["neg", "abs", "sign", "sgn", "signbit", "floor", "ceil", "trunc", "round", "frac", "sqrt", "rsqrt", "reciprocal", "exp",
         "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
         "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "isnan", "isposinf", "isneginf",
         "logical_not", "relu", "nan_to_num", "square", "angle", "sinc", "logit"]
BINARY = ["add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "pow", "maximum", "minimum", "fmax", "fmin", "atan2",
          "hypot", "copysign", "nextafter", "logaddexp", "logaddexp2", "xlogy", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
          "logical_or", "logical_xor", "heaviside"]
INTEGER = ["add", "sub", "mul", "floor_divide", "remainder", "fmod", "maximum", "minimum", "eq", "lt", "ge", "bitwise_and",
           "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm", "pow", "logical_and"]
HALF = (torch.bfloat16, torch.float16)


def device(value):
    return value.to("neuron") if isinstance(value, torch.Tensor) else value


def check(function, *args, **tolerance):
    """Same value, dtype and shape as on the CPU; or an exception of the same type."""
    try:
        expected = function(*args)
    except Exception as error:
        with pytest.raises(type(error)):
            function(*map(device, args))
        return
    actual = function(*map(device, args))
    assert actual.device.type == "neuron"
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **tolerance)


def normal(*shape, dtype=torch.float32, seed=0, scale=3.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    function = getattr(torch, name)
    for x in (normal(1000), normal(30, 40).t(), normal(7, 1, 5).expand(7, 3, 5), torch.tensor(SPECIAL), normal(1003, scale=0.3),
              normal(600, dtype=torch.float64), torch.tensor(SPECIAL, dtype=torch.float64), normal(1000, dtype=torch.bfloat16),
              normal(1000, dtype=torch.float16), torch.arange(-20, 20), torch.arange(40, dtype=torch.uint8),
              normal(9) > 0, normal(0), torch.tensor(0.3)):
        if name in ("sinc", "logit") and x.dtype in HALF:
            continue  # the CPU rounds between the steps
        check(function, x)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function = getattr(torch, name)
    x, y = normal(1000), normal(1000, seed=1)
    for a, b in ((x, y), (x.double(), y.double()), (x.bfloat16(), y.bfloat16()), (x.half(), y.half()), (x, 2.5), (x.bfloat16(), 0.3),
                 (normal(7, 1, 5), normal(3, 1)), (normal(40, 30).t(), normal(30, 40)), (normal(300, 70), normal(70)),
                 (normal(300, 700), normal(300, 1)), (torch.arange(-20, 20), normal(40)), (x.bfloat16(), y),
                 (normal(4), torch.tensor(2.0)), (torch.tensor(2.0), torch.tensor(3.0)), (x > 0, y > 0)):
        if name in ("logaddexp", "floor_divide") and a.dtype in HALF or name in ("pow", "remainder") and a.dtype != getattr(b, "dtype", a.dtype):
            continue  # the CPU rounds between the steps
        check(function, a, b)


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "pow", "eq", "lt", "atan2", "fmax", "copysign", "hypot"])
def test_binary_special_values(name):
    values = torch.tensor(SPECIAL)
    check(getattr(torch, name), values.repeat(len(SPECIAL)), values.repeat_interleave(len(SPECIAL)))


@pytest.mark.parametrize("name", INTEGER)
def test_integers(name):
    function = getattr(torch, name)
    a, b = torch.arange(-25, 25), torch.arange(1, 51) % 9 + 1
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        check(function, a.to(dtype), b.to(dtype))
        check(function, a.to(dtype), 3)
    check(function, b.to(torch.uint8), b.flip(0).to(torch.uint8))
    check(function, a, b.to(torch.int32))
    check(function, torch.tensor([2**62 + 1, -2**62, 7]), torch.tensor([3, 2**61, 2]))


def test_integer_division_by_zero():
    a, zero = torch.arange(5).to("neuron"), torch.zeros(5, dtype=torch.int64).to("neuron")
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(a, zero)
            torch.neuron.synchronize()
    assert (a + a).sum().item() == 20


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_division_modes(mode):
    for a, b in ((normal(500), normal(500, seed=1)), (torch.arange(-25, 25), torch.tensor([3, -3]).repeat(25))):
        check(lambda a, b: torch.div(a, b, rounding_mode=mode), a, b)


def test_complex():
    a = torch.view_as_complex(normal(50, 2))
    b = torch.view_as_complex(normal(50, 2, seed=1))
    for function in (torch.add, torch.sub, torch.mul, torch.div, torch.eq, torch.ne):
        check(function, a, b)
        check(function, a.to(torch.complex128), b)
        check(lambda a, b: function(a.conj(), b), a, b)
    for function in (torch.neg, torch.abs, torch.exp, torch.reciprocal, torch.angle, torch.sqrt, torch.sgn, torch.conj_physical):
        check(function, a)
    check(torch.complex, normal(9), normal(9, seed=1))
    check(torch.polar, normal(9).abs(), normal(9, seed=1))
    check(lambda z: z.conj().imag * 2, a)


ACTIVATIONS = {
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "elu": F.elu,
    "selu": F.selu, "celu": F.celu, "softplus": F.softplus, "softplus_beta": lambda x: F.softplus(x, 2.0, 1.0),
    "leaky_relu": F.leaky_relu, "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "tanhshrink": F.tanhshrink,
    "threshold": lambda x: F.threshold(x, 0.2, -1.0), "logsigmoid": F.logsigmoid, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "softsign": F.softsign, "glu": F.glu, "prelu": lambda x: F.prelu(x, torch.full((1,), 0.1, dtype=x.dtype, device=x.device)),
    "clamp": lambda x: x.clamp(-1, 2), "clamp_min": lambda x: x.clamp_min(0.5),
    "clamp_tensor": lambda x: torch.clamp(x, min=x.flip(0), max=None), "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3), "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.3),
    "pow3": lambda x: x ** 3, "rsub": lambda x: 2 - x, "rpow": lambda x: 2.0 ** x,
    "where": lambda x: torch.where(x > 0, x, x * 2), "masked_fill": lambda x: x.masked_fill(x > 0, -7.0),
    "mse": lambda x: F.mse_loss(x, x.detach() * 2), "smooth_l1": lambda x: F.smooth_l1_loss(x, x.detach() * 2, reduction="sum"),
    "huber": lambda x: F.huber_loss(x, x.detach() * 2, reduction="none", delta=0.5),
    "bce": lambda x: F.binary_cross_entropy(x.sigmoid(), torch.full_like(x.detach(), 0.3)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_forward_and_backward(name, dtype):
    host = normal(6, 40, dtype=dtype, scale=2.0).requires_grad_()
    ours = host.detach().to("neuron").requires_grad_()
    expected, actual = ACTIVATIONS[name](host), ACTIVATIONS[name](ours)
    tolerance = {"rtol": 3e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), **tolerance)
    grad = normal(*expected.shape, dtype=dtype, seed=3)
    expected.backward(grad)
    actual.backward(grad.to("neuron"))
    torch.testing.assert_close(ours.grad.cpu(), host.grad, **tolerance)


def test_entropy_of_no_probability():
    good, bad = torch.full((4,), 0.5).to("neuron"), torch.full((4,), 1.5).to("neuron")
    for arguments, name in (((bad, good), "input"), ((good, bad), "target")):
        with pytest.raises(RuntimeError, match=f"{name} should be between 0 and 1"):
            F.binary_cross_entropy(*arguments)
            torch.neuron.synchronize()


def test_in_place_and_out():
    x, y = normal(50), normal(50, seed=1)
    a, b = x.to("neuron"), y.to("neuron")
    a.add_(b, alpha=2).mul_(b).sub_(1).exp_()
    torch.testing.assert_close(a.cpu(), x.add(y, alpha=2).mul(y).sub(1).exp())
    out = torch.empty(0, device="neuron")
    assert torch.mul(b, b, out=out) is out
    torch.testing.assert_close(out.cpu(), y * y)
    double = torch.empty(50, dtype=torch.float64, device="neuron")
    torch.add(b, b, out=double)
    torch.testing.assert_close(double.cpu(), torch.add(y, y).double())
    strided = torch.zeros(50, 2, device="neuron")
    torch.add(b, b, out=strided[:, 1])
    torch.testing.assert_close(strided[:, 1].cpu(), y + y)
    assert strided[:, 0].cpu().eq(0).all()
    for wrong in (lambda: a.add_(torch.ones(3, 50, device="neuron")), lambda: a[:3] + a[:4],
                  lambda: torch.arange(3, device="neuron").add_(0.5)):
        with pytest.raises(RuntimeError):
            wrong()


# The largest error in ULPs of fp32 against fp64, over a sample of the given range; include/tn/tile/math.h and inverse.h state the same.
ULPS = {
    "exp": (1.0, -103, 88.7), "exp2": (1.0, -148, 127.9), "expm1": (1.5, -20, 88), "log": (1.0, 1e-38, 1e6),
    "log2": (1.0, 1e-38, 1e6), "log10": (1.0, 1e-38, 1e6), "log1p": (1.0, -0.999, 1e6), "sin": (2.0, -1e4, 1e4),
    "cos": (2.0, -1e4, 1e4), "tan": (3.0, -1e3, 1e3), "sinh": (1.0, -80, 80), "cosh": (1.0, -80, 80), "tanh": (2.5, -10, 10),
    "asinh": (1.0, -1e6, 1e6), "acosh": (1.0, 1, 1e6), "atanh": (1.0, -0.9999, 0.9999), "sigmoid": (2.5, -80, 80),
    "erf": (1.5, -5, 5), "erfinv": (4.0, -0.99999, 0.99999), "lgamma": (1.0, 0.1, 100), "digamma": (1.0, 2, 100),
    "sqrt": (0.51, 0, 1e6), "rsqrt": (1.5, 1e-6, 1e6), "atan": (2.0, -50, 50), "asin": (2.0, -1, 1), "acos": (2.0, -1, 1),
    "erfc": (3.0, -5, 9),
}


def ulps(actual, exact):
    nearest = exact.float()
    spacing = (torch.nextafter(nearest.abs(), torch.tensor(math.inf)) - nearest.abs()).double()
    return ((actual.double() - exact).abs() / spacing).max().item()


@pytest.mark.parametrize("name", ULPS)
def test_ulps(name):
    bound, low, high = ULPS[name]
    x = torch.cat([torch.linspace(low, high, 20011, dtype=torch.float64), torch.linspace(-1, 1, 20011, dtype=torch.float64) ** 3])
    x = x.float().clamp(low, high)
    exact = getattr(torch, name)(x.double())
    measured = ulps(getattr(torch, name)(x.to("neuron")).cpu(), exact)
    assert measured <= bound, f"{name}: {measured:.2f} ULPs"


def test_pow_ulps():
    x, y = normal(20000).abs() + 1e-3, normal(20000, seed=1)
    assert ulps((x.to("neuron") ** y.to("neuron")).cpu(), x.double() ** y.double()) <= 1.0


def test_atan2_ulps():
    x, y = normal(20000), normal(20000, seed=1)
    for scale in (1, 1e-3, 1e5):
        assert ulps(torch.atan2(y.to("neuron"), (x * scale).to("neuron")).cpu(), torch.atan2(y.double(), (x * scale).double())) <= 2.0


# fp64 against the x87's 64-bit significand; include/tn/tile/double.h states the same bounds.
DOUBLE_ULPS = {
    "exp": (1.0, 709), "log": (1.0, 1e6), "sin": (1.0, 1e6), "cos": (1.0, 1e6), "tanh": (3.0, 30), "sigmoid": (3.0, 700),
}


def double_ulps(actual, exact):
    exponent = np.floor(np.log2(np.maximum(np.abs(exact), np.longdouble(2) ** -1022)))
    return float(np.max(np.abs(actual.astype(np.longdouble) - exact) / np.longdouble(2) ** (exponent - 52)))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no wider type to compare with")
@pytest.mark.parametrize("name", DOUBLE_ULPS)
def test_double_ulps(name):
    bound, reach = DOUBLE_ULPS[name]
    w = np.linspace(-1, 1, 20011)
    x = np.concatenate([w * reach, w, w * 1e-3, np.arange(1, 3000) * np.pi / 2])
    if name == "log":
        x = np.concatenate([np.abs(x[x != 0]), 1 + w * 0.3, 1 + w * 1e-6, np.exp(w * 700), 2.0 ** -1074 * np.arange(1, 99)])
    elif name != "sin" and name != "cos":
        x = x[:3 * w.size]
    wide = x.astype(np.longdouble)
    exact = 1 / (1 + np.exp(-wide)) if name == "sigmoid" else getattr(np, name)(wide)
    measured = double_ulps(getattr(torch, name)(torch.from_numpy(x).to("neuron")).cpu().numpy(), exact)
    assert measured <= bound, f"{name}: {measured:.2f} ULPs"


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no wider type to compare with")
def test_double_pow_ulps():
    base, exponent = normal(20000, dtype=torch.float64).exp(), (normal(20000, dtype=torch.float64, seed=1) * 10).clamp(-45, 45)
    exact = np.power(base.numpy().astype(np.longdouble), exponent.numpy().astype(np.longdouble))
    assert double_ulps((base.to("neuron") ** exponent.to("neuron")).cpu().numpy(), exact) <= 1.5


def test_double_special_values():
    values = torch.tensor(SPECIAL + [709.7, 709.8, -708.5, -745.0, -746.0, 5e-324, 1e308, 2.0 ** 53 + 1, 2.0 ** 53, -7.0, 1e6, 2.0 ** 21],
                          dtype=torch.float64)
    check(torch.pow, values.repeat(len(values)), values.repeat_interleave(len(values)))
    for name in ("exp", "log", "sin", "cos", "tanh", "sigmoid"):
        check(getattr(torch, name), values)


def test_sinc_ulps():
    """The fp64 reference takes whole turns off first: its own product with pi is rounded."""
    x = normal(20000, scale=30)
    whole = x.double().round()
    sign = 1 - 2 * (whole.abs() % 2)
    exact = sign * torch.sin(math.pi * (x.double() - whole)) / (math.pi * x.double())
    assert ulps(torch.sinc(x.to("neuron")).cpu(), exact) <= 3.0


def test_large_and_negative_elements_among_others():
    """Elements that the lanes of a block leave to the library, in any position of it."""
    x = normal(1003, scale=20)
    x[::37] *= 1e30
    for name in ("sin", "cos", "tan", "sinc", "lgamma"):
        check(getattr(torch, name), x)
        y = x.to("neuron")
        getattr(y, name + "_")()
        torch.testing.assert_close(y.cpu(), getattr(torch, name)(x))


PROGRAM = """
import hashlib, torch, torch_neuronx
digest = hashlib.sha256()
g = torch.Generator().manual_seed(0)
x = torch.randn(300, 701, generator=g).to("neuron")
y = torch.randn(701, generator=g).to("neuron")
for r in (x + y, x.exp(), torch.nn.functional.gelu(x), x.t() * 2, x.bfloat16() * y, (x > y).float(), x.double().sin(), x.sigmoid()):
    digest.update(r.contiguous().cpu().view(torch.uint8).numpy().tobytes())
print(digest.hexdigest())
"""


def run(**environment):
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], env={**os.environ, **environment}, text=True,
                            capture_output=True, timeout=120, check=True)
    return result.stdout.strip()


def test_bits_do_not_depend_on_threads():
    assert len({run(TORCH_NEURONX_NUM_THREADS=str(count)) for count in (1, 2, 4)}) == 1


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_lower_instruction_sets(isa):
    program = ("import torch, torch_neuronx\nx = torch.linspace(-9, 9, 1013)\n"
               "for f in 'exp log1p sin tanh sigmoid erf sqrt expm1 log2 cos'.split():\n"
               "    y = getattr(torch, f)\n"
               "    torch.testing.assert_close(y(x.to('neuron')).cpu(), y(x), equal_nan=True)\n"
               "    torch.testing.assert_close(y(x.half().to('neuron')).cpu(), y(x.half()), equal_nan=True)\n")
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env={**os.environ, "TN_ISA": isa}, check=True, timeout=120)


def test_masked_fill_converts_its_number_as_a_scalar():
    mask = torch.tensor([True, False], device="neuron")
    for value in (10, 1.5, torch.tensor(10)):
        assert torch.zeros(2, dtype=torch.bool, device="neuron").masked_fill_(mask, value).tolist() == [True, False]
    assert torch.zeros(2, dtype=torch.int64, device="neuron").masked_fill_(mask, 1.5).tolist() == [1, 0]
    for dtype, value in ((torch.uint8, 300), (torch.float32, 1j), (torch.float16, 1e6)):
        with pytest.raises(RuntimeError, match="cannot be converted to type"):
            torch.zeros(2, dtype=dtype, device="neuron").masked_fill_(mask, value)


def test_softshrink_refuses_a_negative_width():
    with pytest.raises(RuntimeError, match="lambda must be in range"):
        torch.nn.functional.softshrink(torch.ones(1, device="neuron"), -0.5)


# ---- unsigned integers: what the CPU has for them ------------------------------------------------------------------

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_integers(dtype):
    largest = torch.iinfo(dtype).max
    x = torch.tensor([7, 3, largest, largest // 2 + 1, 0, 1, 2], dtype=dtype)
    y = torch.tensor([2, 3, largest, 1, 7, 0, 9], dtype=dtype)
    for name in ("mul", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ne", "add", "sub", "lt", "maximum", "floor_divide", "gcd"):
        check(getattr(torch, name), x, y)
        check(getattr(torch, name), x[::2], y[::2])
        check(getattr(torch, name), x, 3)
        check(getattr(torch, name), x, 2.5)
    for name in ("floor", "ceil", "trunc", "round", "signbit", "isnan", "isposinf", "isneginf", "nan_to_num", "neg", "abs", "relu", "sign"):
        check(getattr(torch, name), x)
    for other in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64, torch.complex128):
        check(lambda value: value.to(other), x)


def test_unsigned_integers_run_natively():
    torch_neuronx._C.set_strict_mode(True)
    try:
        x = torch.tensor([3, 2 ** 63 + 5], dtype=torch.uint64).to("neuron")
        assert (x * 2 == x).cpu().tolist() == [False, False]
        assert (x ^ x).cpu().tolist() == [0, 0]
    finally:
        torch_neuronx._C.set_strict_mode(False)
