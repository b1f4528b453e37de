"""Special functions: fp64 against SciPy, fp32 and the half-width dtypes against the rounded fp64 result, the edges of
their domains, and the ways to call them."""

import math

import pytest
import scipy.special
import torch

import torch_neuronx

S = torch.special
INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def native():
    """A fallback to the host is an error."""
    torch_neuronx._C.set_strict_mode(True)
    yield
    torch_neuronx._C.set_strict_mode(False)


def uniform(low, high, count=2000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=generator, dtype=torch.float64) * (high - low) + low


LINE = torch.cat([uniform(-20, 20), uniform(-2, 2, 500), torch.tensor([0.0, 2, -2, 4, -4, 8, -8], dtype=torch.float64)])
HALF_LINE = torch.cat([LINE.abs(), torch.logspace(-8, 2.5, 300, dtype=torch.float64)])
PROBABILITY = torch.cat([uniform(0, 1), torch.logspace(-290, -1, 300, dtype=torch.float64), torch.tensor([0.25, 0.5, 0.75]).double()])

# name: (function, reference, arguments, relative bound, absolute bound beside zeros of the function)
UNARY = {
    "bessel_j0": (S.bessel_j0, scipy.special.j0, LINE, 1e-13, 1e-14),
    "bessel_j1": (S.bessel_j1, scipy.special.j1, LINE, 1e-13, 1e-14),
    "bessel_y0": (S.bessel_y0, scipy.special.y0, HALF_LINE, 1e-13, 3e-14),
    "bessel_y1": (S.bessel_y1, scipy.special.y1, HALF_LINE, 1e-13, 3e-14),
    "i0": (torch.i0, scipy.special.i0, LINE, 1e-14, 0),
    "i0e": (S.i0e, scipy.special.i0e, LINE, 1e-14, 0),
    "i1": (S.i1, scipy.special.i1, LINE, 1e-14, 0),
    "i1e": (S.i1e, scipy.special.i1e, LINE, 1e-14, 0),
    "modified_bessel_i0": (S.modified_bessel_i0, scipy.special.i0, LINE, 1e-14, 0),
    "modified_bessel_i1": (S.modified_bessel_i1, scipy.special.i1, LINE, 1e-14, 0),
    "modified_bessel_k0": (S.modified_bessel_k0, scipy.special.k0, HALF_LINE, 1e-14, 0),
    "modified_bessel_k1": (S.modified_bessel_k1, scipy.special.k1, HALF_LINE, 1e-14, 0),
    "scaled_modified_bessel_k0": (S.scaled_modified_bessel_k0, scipy.special.k0e, HALF_LINE, 1e-14, 0),
    "scaled_modified_bessel_k1": (S.scaled_modified_bessel_k1, scipy.special.k1e, HALF_LINE, 1e-14, 0),
    "spherical_bessel_j0": (S.spherical_bessel_j0, lambda x: scipy.special.spherical_jn(0, x), LINE, 1e-14, 0),
    "airy_ai": (S.airy_ai, lambda x: scipy.special.airy(x)[0], LINE, 1e-13, 3e-14),
    "erfcx": (S.erfcx, scipy.special.erfcx, LINE, 1e-13, 0),
    "log_ndtr": (S.log_ndtr, scipy.special.log_ndtr, uniform(-40, 8), 1e-13, 0),
    "ndtri": (S.ndtri, scipy.special.ndtri, PROBABILITY, 1e-13, 0),
    "digamma": (torch.digamma, scipy.special.psi, HALF_LINE, 1e-13, 1e-14),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: scipy.special.polygamma(1, x), HALF_LINE, 1e-13, 0),
    "polygamma_4": (lambda x: torch.polygamma(4, x), lambda x: scipy.special.polygamma(4, x), HALF_LINE, 1e-13, 0),
}


@pytest.mark.parametrize("name", UNARY)
def test_double_accuracy(name):
    function, reference, x, relative, absolute = UNARY[name]
    expected = torch.as_tensor(reference(x.numpy()))
    torch.testing.assert_close(function(x.to("neuron")).cpu(), expected, rtol=relative, atol=absolute, equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_is_rounded(name, dtype):
    function, reference, x, _, absolute = UNARY[name]
    narrow = x.to(dtype)
    expected = torch.as_tensor(reference(narrow.double().numpy())).to(dtype)
    if dtype != torch.float32 and name not in ("i0", "i0e", "i1", "i1e", "digamma", "trigamma", "polygamma_4"):
        with pytest.raises((NotImplementedError, RuntimeError)):
            function(narrow)
    actual = function(narrow.to("neuron")).cpu()
    assert actual.dtype == dtype
    torch.testing.assert_close(actual, expected, rtol=torch.finfo(dtype).eps, atol=max(absolute, torch.finfo(dtype).tiny * 1e-2),
                               equal_nan=True)


EDGES = {
    "bessel_j0": {0.0: 1, INF: 0, -INF: 0, NAN: NAN},
    "bessel_j1": {0.0: 0, INF: 0, -INF: 0, NAN: NAN},
    "bessel_y0": {0.0: -INF, -1.0: NAN, INF: 0, NAN: NAN},
    "bessel_y1": {0.0: -INF, -1.0: NAN, INF: 0, NAN: NAN},
    "i0": {0.0: 1, INF: INF, -INF: INF, NAN: NAN},
    "i0e": {0.0: 1, INF: 0, -INF: 0, NAN: NAN},
    "i1": {0.0: 0, INF: INF, -INF: -INF, NAN: NAN},
    "i1e": {0.0: 0, INF: 0, -INF: 0, NAN: NAN},
    "modified_bessel_k0": {0.0: INF, -1.0: NAN, INF: 0, NAN: NAN},
    "modified_bessel_k1": {0.0: INF, -1.0: NAN, INF: 0, NAN: NAN},
    "scaled_modified_bessel_k0": {0.0: INF, -1.0: NAN, INF: 0, NAN: NAN},
    "spherical_bessel_j0": {0.0: 1, INF: 0, NAN: NAN},
    "airy_ai": {INF: 0, -INF: 0, NAN: NAN, 200.0: 0},
    "erfcx": {0.0: 1, INF: 0, -INF: INF, NAN: NAN},
    "log_ndtr": {INF: 0, -INF: -INF, NAN: NAN},
    "ndtri": {0.0: -INF, 1.0: INF, 0.5: 0, -1.0: NAN, 2.0: NAN, NAN: NAN},
    "trigamma": {0.0: INF, -1.0: INF, INF: 0, NAN: NAN},
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges(name, dtype):
    x = torch.tensor(list(EDGES[name]), dtype=dtype)
    expected = torch.tensor([float(y) for y in EDGES[name].values()], dtype=dtype)
    torch.testing.assert_close(UNARY[name][0](x.to("neuron")).cpu(), expected, rtol=0, atol=torch.finfo(dtype).eps, equal_nan=True)


@pytest.mark.parametrize("shape", [1e-10, 1e-3, 0.5, 3.0, 50.0, 9000.0, 20000.0])
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma(name, shape):
    x = torch.cat([uniform(1e-3, 2 * shape + 1), uniform(-2, 2, seed=1) * math.sqrt(shape) + shape]).abs()
    expected = torch.as_tensor(getattr(scipy.special, name)(shape, x.numpy()))
    actual = getattr(S, name)(torch.full_like(x, shape).to("neuron"), x.to("neuron")).cpu()
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=3e-14)
    single = getattr(S, name)(torch.full_like(x, shape).float().to("neuron"), x.float().to("neuron")).cpu()
    wide = getattr(S, name)(torch.full_like(x, shape).float().double().to("neuron"), x.float().double().to("neuron")).cpu()
    torch.testing.assert_close(single, wide.float(), rtol=2e-7, atol=1e-37)


def test_incomplete_gamma_of_very_large_shape():
    """Where SciPy's expansion is off: the integral by quadrature with 40 digits."""
    a, x = torch.tensor([1e6, 1e6, 3e4]).double(), torch.tensor([995410, 1000100, 30100]).double()
    expected = torch.tensor([2.1460913201982153e-6, 0.53995882843172358, 0.71858191478856523], dtype=torch.float64)
    torch.testing.assert_close(S.gammainc(a.to("neuron"), x.to("neuron")).cpu(), expected, rtol=1e-13, atol=0)


def test_incomplete_gamma_edges():
    a = torch.tensor([0.0, 0.0, 1.0, 1.0, INF, INF, -1.0, 1.0, NAN, 1.0])
    x = torch.tensor([0.0, 1.0, 0.0, INF, 1.0, INF, 1.0, -1.0, 1.0, NAN])
    lower = torch.tensor([NAN, 1.0, 0.0, 1.0, 0.0, NAN, NAN, NAN, NAN, NAN])
    torch.testing.assert_close(S.gammainc(a.to("neuron"), x.to("neuron")).cpu(), lower, equal_nan=True)
    torch.testing.assert_close(S.gammaincc(a.to("neuron"), x.to("neuron")).cpu(), 1 - lower, equal_nan=True)


def test_zeta():
    s, q = uniform(1.001, 60), uniform(1e-3, 60, seed=1)
    expected = torch.as_tensor(scipy.special.zeta(s.numpy(), q.numpy()))
    torch.testing.assert_close(S.zeta(s.to("neuron"), q.to("neuron")).cpu(), expected, rtol=1e-13, atol=0)
    below = -uniform(0.01, 30, seed=2)
    for whole in (2.0, 3.0, 4.0):
        torch.testing.assert_close(S.zeta(whole, below.to("neuron")).cpu(), S.zeta(whole, below), rtol=1e-10, atol=1e-10)
    edges = S.zeta(torch.tensor([1.0, 0.5, 2.0, 2.5, 2.0, NAN]).to("neuron"), torch.tensor([2.0, 2.0, -3.0, -0.5, 0.0, 1.0]).to("neuron"))
    torch.testing.assert_close(edges.cpu(), torch.tensor([INF, NAN, INF, NAN, INF, NAN]), equal_nan=True)


def test_zeta_of_far_negative_arguments_ends():
    y = S.zeta(torch.tensor(2.0, dtype=torch.float64).to("neuron"), torch.tensor(-1e9 - 0.5, dtype=torch.float64).to("neuron"))
    assert abs(y.item() - math.pi ** 2) < 1e-8


def test_polygamma():
    x = uniform(-6, 12)
    for order in range(4):
        torch.testing.assert_close(torch.polygamma(order, x.to("neuron")).cpu(), torch.polygamma(order, x), rtol=1e-8, atol=1e-8)
    y = x.to("neuron")
    torch.testing.assert_close(y.polygamma_(2).cpu(), torch.polygamma(2, x), rtol=1e-8, atol=1e-8)
    with pytest.raises(RuntimeError, match="negative n"):
        torch.polygamma(-1, x.to("neuron"))


POLYNOMIALS = {
    "chebyshev_polynomial_t": scipy.special.eval_chebyt,
    "chebyshev_polynomial_u": scipy.special.eval_chebyu,
    "hermite_polynomial_h": scipy.special.eval_hermite,
    "hermite_polynomial_he": scipy.special.eval_hermitenorm,
    "laguerre_polynomial_l": scipy.special.eval_laguerre,
    "legendre_polynomial_p": scipy.special.eval_legendre,
    "shifted_chebyshev_polynomial_t": scipy.special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": scipy.special.eval_sh_chebyu,
    "chebyshev_polynomial_v": None,
    "chebyshev_polynomial_w": None,
    "shifted_chebyshev_polynomial_v": None,
    "shifted_chebyshev_polynomial_w": None,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    function, reference = getattr(S, name), POLYNOMIALS[name]
    x = torch.cat([uniform(-2, 2, 200), torch.tensor([0.0, 1, -1, 0.5]).double()])
    n = torch.tensor([-3.0, -0.5, 0, 1, 2, 3.9, 7, 20, 64, 65, 90, 200]).double()[:, None]
    actual = function(x.to("neuron"), n.to("neuron")).cpu()
    torch.testing.assert_close(actual[:8], function(x, n)[:8], rtol=1e-9, atol=1e-9)
    if reference:
        expected = torch.as_tensor(reference(n.trunc().long().numpy(), x.numpy()))
        scale = expected.abs().amax(1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(actual[2:] / scale[2:], expected[2:] / scale[2:], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(function(x.to("neuron"), 5).cpu(), function(x, 5))
    torch.testing.assert_close(function(0.3, n.to("neuron")).cpu()[:8], function(0.3, n)[:8])


def test_chebyshev_identities():
    """V and W of high degrees by what they are: cos((n + 1/2) t) / cos(t / 2) and the sines' likewise."""
    n, t = torch.tensor([64.0, 65, 66, 501]).double()[:, None], uniform(0.05, 3.0, 100)
    x, half = t.cos(), (n + 0.5)
    for name, expected in (("v", (half * t).cos() / (t / 2).cos()), ("w", (half * t).sin() / (t / 2).sin())):
        actual = getattr(S, "chebyshev_polynomial_" + name)(x.to("neuron"), n.to("neuron")).cpu()
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_frexp(dtype):
    x = torch.tensor([0.0, -0.0, 1, -1, 0.3, 1e-40, -6e4, 2.0 ** -24, INF, -INF, NAN]).to(dtype)
    for value in (x, x.repeat(3, 7).t(), x[:0], x[3]):
        expected, actual = torch.frexp(value), torch.frexp(value.to("neuron"))
        torch.testing.assert_close(actual.mantissa.cpu(), expected.mantissa, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(actual.exponent.cpu(), expected.exponent)
    with pytest.raises(RuntimeError):
        torch.frexp(torch.arange(3).to("neuron"))
    with pytest.raises(RuntimeError):
        torch.frexp(x.to("neuron"), out=(x.to("neuron"), x.to("neuron")))


@pytest.mark.parametrize("name", ["i0", "erfcx", "bessel_y1", "ndtri", "airy_ai"])
def test_layouts_and_integers(name):
    function = getattr(S, name, None) or getattr(torch, name)
    x = uniform(0.01, 0.99, 600).float().reshape(20, 30)
    for value in (x.t(), x[::3, 1::2], x[:, :1].expand(20, 7), x[:0], x[0, 0], torch.arange(5), torch.arange(2, dtype=torch.uint8)):
        torch.testing.assert_close(function(value.to("neuron")).cpu(), function(value), rtol=1e-5, atol=1e-5, equal_nan=True)
    out = torch.empty(0, device="neuron")
    function(x.to("neuron"), out=out)
    torch.testing.assert_close(out.cpu(), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["i0", "ndtri", "log_ndtr", "erfcx", "bessel_j0", "airy_ai"])
def test_complex_is_refused(name):
    function = getattr(S, name, None) or getattr(torch, name)
    x = torch.ones(3, dtype=torch.complex64)
    for value in (x, x.to("neuron")):
        with pytest.raises((RuntimeError, NotImplementedError)):
            function(value)


def test_gradients():
    for function in (torch.i0, S.i1, S.i0e, S.i1e, S.log_ndtr, S.ndtri, S.erfcx, torch.digamma, lambda x: torch.polygamma(2, x)):
        x = uniform(0.1, 0.9, 50)
        expected, = torch.autograd.grad(function(x.requires_grad_()).sum(), x)
        y = x.detach().to("neuron").requires_grad_()
        actual, = torch.autograd.grad(function(y).sum(), y)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-9, atol=1e-9)
