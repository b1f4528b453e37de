"""Runs a function on the device and on the CPU and compares: values, shapes, strides, dtypes, and that no op ran on the host."""

import torch
from torch_neuronx import _C

NEURON = torch.device("neuron", 0)

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
ALL = FLOATS + INTS + [torch.complex64, torch.complex128]


def sample(*shape, dtype=torch.float32, seed=0):
    """Values that every dtype holds exactly and that repeat now and then."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(0, 100, shape, generator=generator)
    if dtype in FLOATS:
        numbers = numbers - 50
    return (numbers % 2 == 0) if dtype == torch.bool else numbers.to(dtype)


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def on_device(value):
    """A copy with the same strides on the device."""
    if isinstance(value, torch.Tensor):
        if value.is_contiguous() or value.numel() == 0:
            return value.detach().to(NEURON).requires_grad_(value.requires_grad)
        base = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=NEURON)
        if 0 in value.stride():
            return value.contiguous().to(NEURON)
        return base.copy_(value.detach()).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(item) for item in value)
    return value


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for item in result for t in flat(item)] if isinstance(result, (list, tuple)) else []


def compare(function, *arguments, exact=True, native=True, rtol=None, atol=None, strides=True):
    """Asserts that function(*arguments) agrees; returns the device's result."""
    expected = function(*[a.clone() if isinstance(a, torch.Tensor) and 0 not in a.stride() else a for a in arguments])
    moved = on_device(arguments)
    if native:
        _C.clear_fallback_rows()
    result = function(*moved)
    if native:
        assert not _C.fallback_rows(), "ran on the host"
    for got, want in zip(flat(result), flat(expected), strict=True):
        assert got.device == NEURON and got.dtype == want.dtype and got.shape == want.shape
        if strides and want.numel() > 1:
            assert got.stride() == want.stride(), (got.stride(), want.stride())
        if exact:
            torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
        else:
            torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=atol, equal_nan=True)
    return result


def compare_gradients(function, *inputs, rtol=None, atol=None, native=True):
    """Forward and backward of `function` with a fixed cotangent, over the floating inputs. Narrow dtypes are held
    against the CPU's result in fp64, rounded once."""
    dtype = next(t.dtype for t in inputs if t.is_floating_point())

    def run(*tensors):
        leaves = [t.detach().requires_grad_() if t.is_floating_point() else t for t in tensors]
        output = function(*leaves)
        weights = torch.arange(output.numel(), dtype=torch.float32).remainder(13).reshape(output.shape).sub(3).div(7)
        output.backward(weights.to(dtype).to(output))
        return [output.detach()] + [t.grad for t in leaves if t.requires_grad]

    if dtype not in (torch.float16, torch.bfloat16):
        return compare(run, *inputs, exact=False, rtol=rtol, atol=atol, native=native, strides=False)
    exact = run(*[t.double() if t.is_floating_point() else t for t in inputs])
    _C.clear_fallback_rows()
    result = run(*on_device(inputs))
    assert not native or not _C.fallback_rows(), "ran on the host"
    for got, want in zip(result, exact, strict=True):
        assert got.device == NEURON and got.dtype == dtype
        torch.testing.assert_close(got.cpu(), want.to(dtype), rtol=rtol, atol=atol, equal_nan=True)
    return result


def same_error(function, *arguments):
    """The device raises what the CPU raises, and works afterwards."""
    failures = []
    for tensors in (arguments, on_device(arguments)):
        try:
            flat(function(*tensors))
            torch.accelerator.synchronize()
            failures.append(None)
        except Exception as error:  # the type is what is compared
            failures.append(error)
    assert failures[0] is not None and type(failures[0]) is type(failures[1]), failures
    assert (torch.ones(2).to(NEURON) + 1).cpu().tolist() == [2, 2]
    return str(failures[0]), str(failures[1])


def spread(*shape, dtype=torch.float32, seed=0):
    """Normal numbers with a mean and a deviation that a normalisation has to remove."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, dtype=torch.float64, generator=generator) * 2 + 1.5).to(dtype)


def near(actual, expected, tolerance, at_least=0.0):
    """Equal but for a tolerance relative to the largest value, or an error of `at_least`."""
    scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(actual.cpu().double(), expected.double(), rtol=tolerance,
                               atol=max(tolerance * scale, float(at_least)), equal_nan=True)
