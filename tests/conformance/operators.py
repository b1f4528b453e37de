"""The checks of one operator of op_db in one dtype: forward, non-contiguous, backward, out=, in-place, error inputs."""

import itertools
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

from .compare import DEVICE, Mover, clone, leaves, same, tolerance, widened

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64, torch.float64)
OPERATORS = {op.full_name: op for op in op_db}

# Results are random or uninitialised: only shape, dtype and device can be compared.
UNPREDICTABLE = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.feature_alpha_dropout.without_train", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "normal", "normal.in_place",
    "normal.number_mean", "pca_lowrank", "rand_like", "randint", "randint_like", "randn", "randn_like", "svd_lowrank",
    "uniform", "nn.functional.multi_head_attention_forward",
}
# Which of equal elements is named first is left open without stable=True: (positions of dim and keepdim in args).
TIES = {"argsort": 0, "kthvalue": 1, "mode": 0, "sort": 0, "topk": 1}
# Takes numbers in the form of a tensor of the host.
HOST_ARGUMENTS = {"tensor_split"}
# The CPU's kernel writes outside of a transposed destination.
CPU_OVERRUNS = {"linalg.lu", "lu_unpack"}
SAMPLES, SCANNED = 8, 120  # samples per check, spread over the first so many that the database makes


class Unsupported(Exception):
    """The operator has no such variant."""


def units():
    """(operator, dtype) names in the order of the database."""
    for op in op_db:
        supported = op.supported_dtypes("cpu")
        for dtype in DTYPES:
            if dtype in supported:
                yield op.full_name, str(dtype).removeprefix("torch.")


def samples(op, dtype, requires_grad=False, limit=SAMPLES):
    torch.manual_seed(0)
    found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), SCANNED))
    step = max(1, len(found) // limit)
    return found[::step][:limit]


def random(op, sample):
    return (op.full_name in UNPREDICTABLE or sample.kwargs.get("dropout_p", 0) or
            any("normal" in str(a) or "uniform" in str(a) for a in sample.args if isinstance(a, str)))


def call(function, sample):
    return function(sample.input, *sample.args, **sample.kwargs)


def on_device(op, sample):
    """The sample's arguments, on the device."""
    value, args, kwargs = Mover(DEVICE).arguments(sample)
    return (value, *((sample.args, sample.kwargs) if op.full_name in HOST_ARGUMENTS else (args, kwargs)))


def settled(op, sample, results):
    """The results with indices among equal elements replaced by what they select, and whether they are distinct."""
    if op.full_name not in TIES or sample.kwargs.get("stable") or sample.input.dim() == 0:
        return results
    place = TIES[op.full_name]
    dim = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
    tensors = leaves(results)
    indices, source = tensors[-1], sample.input.to(tensors[-1].device)
    assert indices.dtype == torch.int64, f"indices are of {indices.dtype}"
    lines = indices if indices.dim() == source.dim() else indices.unsqueeze(dim)
    repeated = (lines.sort(dim=dim).values.diff(dim=dim) == 0).any()
    return [*tensors[:-1], source.gather(dim, lines), repeated]


def exactly(op, sample):
    return lambda: op(widened(clone(sample.input)), *widened(clone(tuple(sample.args))), **widened(clone(sample.kwargs)))


def on_cpu(function, sample):
    """The CPU's results, or None where the CPU refuses the sample (then there is nothing to agree with)."""
    torch.manual_seed(0)
    try:
        return call(function, sample)
    except Exception:
        return None


def describe(sample):
    def shape(v):
        return f"{tuple(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)[:60]
    arguments = [shape(v) for v in leaves((sample.input, sample.args))]
    return ", ".join(arguments + [f"{k}={shape(v)}" for k, v in sample.kwargs.items()])[:200]


def forward(op, dtype, transform=lambda sample: sample):
    done = 0
    for sample in samples(op, dtype):
        sample = transform(sample)
        expected = on_cpu(op, sample)
        if expected is None:
            continue
        done += 1
        with naming(sample):
            value, args, kwargs = on_device(op, sample)
            torch.manual_seed(0)
            actual = op(value, *args, **kwargs)
            same(settled(op, sample, actual), settled(op, sample, expected), tolerance(op, dtype), exactly(op, sample),
                 random(op, sample))
    if not done:
        raise Unsupported


def noncontiguous(op, dtype):
    if op.full_name in UNPREDICTABLE:
        raise Unsupported
    forward(op, dtype, lambda sample: sample.noncontiguous())


class naming:
    """Adds the sample's arguments to the message of an exception."""

    def __init__(self, sample):
        self.sample = sample

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if error is not None and isinstance(error, Exception):
            error.sample = describe(self.sample)
        return False


def gradients(results, inputs, process, device):
    """Gradients of the differentiable results with a fixed cotangent."""
    results = [r for r in leaves(process(results)) if isinstance(r, torch.Tensor) and r.requires_grad]
    if not results or not inputs:
        return None
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(r.shape, generator=generator, dtype=r.dtype).to(device) for r in results]
    return torch.autograd.grad(results, inputs, seeds, allow_unused=True)


def differentiable(*trees):
    found, seen = [], set()
    for leaf in leaves(trees):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and id(leaf) not in seen:
            seen.add(id(leaf))
            found.append(leaf)
    return found


def backward(op, dtype):
    if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu") or op.full_name in UNPREDICTABLE:
        raise Unsupported
    done = 0
    for sample in samples(op, dtype, requires_grad=True):
        if random(op, sample):
            continue
        value, args, kwargs = Mover("cpu").arguments(sample)
        try:
            expected = gradients(op(value, *args, **kwargs), differentiable(value, args, kwargs),
                                 sample.output_process_fn_grad, "cpu")
        except Exception:
            continue
        if expected is None:
            continue
        done += 1
        with naming(sample):
            value, args, kwargs = on_device(op, sample)
            actual = gradients(op(value, *args, **kwargs), differentiable(value, args, kwargs),
                               sample.output_process_fn_grad, DEVICE)
            assert actual is not None, "no result on the device requires a gradient"
            same(actual, expected, tolerance(op, dtype), exact_gradients(op, sample))
    if not done:
        raise Unsupported


def exact_gradients(op, sample):
    def compute():
        wide = widened(clone((sample.input, tuple(sample.args), sample.kwargs)))
        for new, old in zip(leaves(wide), leaves((sample.input, tuple(sample.args), sample.kwargs))):
            if isinstance(new, torch.Tensor):
                new.requires_grad_(old.requires_grad)
        value, args, kwargs = wide
        results = op(value, *args, **kwargs)
        results = [r for r in leaves(sample.output_process_fn_grad(results))
                   if isinstance(r, torch.Tensor) and r.requires_grad]
        generator = torch.Generator().manual_seed(1)
        # The cotangent has the values of the narrow one, so it is drawn in that type.
        narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
        seeds = [torch.randn(r.shape, generator=generator, dtype=narrow[r.dtype]).to(r.dtype) for r in results]
        return torch.autograd.grad(results, differentiable(value, args, kwargs), seeds, allow_unused=True)
    return compute


def prepared(like, kind, device):
    """A destination for one result: of its shape and dense but transposed in memory, or to be resized."""
    if kind == "empty":
        return torch.empty(0, dtype=like.dtype, device=device)
    strided = torch.empty(tuple(reversed(like.shape)), dtype=like.dtype, device=device)
    return strided.fill_(1).permute(tuple(reversed(range(like.dim()))))


def out(op, dtype):
    if not op.supports_out or op.full_name in UNPREDICTABLE:
        raise Unsupported
    done = 0
    for sample in samples(op, dtype, limit=3):
        expected = on_cpu(op, sample)
        tensors = leaves(expected)
        if expected is None or not all(isinstance(t, torch.Tensor) for t in tensors) or random(op, sample):
            continue
        for kind in ("empty",) if op.full_name in CPU_OVERRUNS else ("transposed", "empty"):
            targets = {d: [prepared(t, kind, d) for t in tensors] for d in ("cpu", DEVICE)}
            pack = (lambda list_: list_[0]) if isinstance(expected, torch.Tensor) else tuple
            try:
                returned = op(sample.input, *sample.args, **sample.kwargs, out=pack(targets["cpu"]))
                torch.testing.assert_close(targets["cpu"], list(tensors), equal_nan=True)
            except Exception:  # refused, or (gelu, some layouts) computed wrongly
                continue
            done += 1
            with naming(sample):
                value, args, kwargs = on_device(op, sample)
                places = [t.data_ptr() for t in targets[DEVICE]]
                result = op(value, *args, **kwargs, out=pack(targets[DEVICE]))
                same(settled(op, sample, targets[DEVICE]), settled(op, sample, targets["cpu"]), tolerance(op, dtype),
                     exactly(op, sample))
                assert (result is None) == (returned is None), f"out= returned {type(result).__name__}"
                for r, t in zip(leaves(result) if result is not None else (), targets[DEVICE]):
                    assert r is t, "out= did not return its argument"
                for t, c, place in zip(targets[DEVICE], targets["cpu"], places):
                    assert t.stride() == c.stride(), f"out= has strides {t.stride()}, CPU {c.stride()}"
                    assert kind == "empty" or t.data_ptr() == place, "out= moved its argument's memory"
    if not done:
        raise Unsupported
    wrong_out(op, dtype)


def wrong_out(op, dtype):
    """A destination of a type that the result cannot be cast to is refused as on CPU."""
    for sample in samples(op, dtype, limit=1):
        expected = on_cpu(op, sample)
        if not isinstance(expected, torch.Tensor):
            return
        narrow = torch.int64 if expected.dtype.is_floating_point or expected.dtype.is_complex else torch.bool
        if expected.dtype == narrow:
            return
        value, args, kwargs = on_device(op, sample)
        with naming(sample):
            agree_on_error(lambda: call_with(op, sample, torch.empty(expected.shape, dtype=narrow)),
                           lambda: op(value, *args, **kwargs,
                                      out=torch.empty(expected.shape, dtype=narrow, device=DEVICE)))


def call_with(op, sample, target):
    return op(sample.input, *sample.args, **sample.kwargs, out=target)


def agree_on_error(cpu, device):
    """Both refuse, or both accept; the exception's type is the CPU's."""
    try:
        cpu()
        return
    except Exception as error:
        expected = type(error)
    try:
        device()
    except Exception as error:
        assert isinstance(error, expected), f"raised {type(error).__name__}, CPU {expected.__name__}: {error}"
        assert type(error) is expected or type(error) is not NotImplementedError, \
            f"raised NotImplementedError, CPU {expected.__name__}: {error}"
        return
    raise AssertionError(f"accepted what CPU refuses with {expected.__name__}")


def inplace(op, dtype):
    function = op.inplace_variant
    if function is None or op.full_name in UNPREDICTABLE:
        raise Unsupported
    done = 0
    for sample in samples(op, dtype):
        if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor) or random(op, sample):
            continue
        value, args, kwargs = Mover("cpu").arguments(sample)
        target, device_args, device_kwargs = on_device(op, sample)
        with naming(sample):
            try:
                function(value, *args, **kwargs)
            except Exception as error:
                kept = error  # the name that `except` binds ends with its block

                def again():
                    raise kept
                agree_on_error(again, lambda: function(target, *device_args, **device_kwargs))
                continue
            done += 1
            assert function(target, *device_args, **device_kwargs) is target, "did not return its input"
            same(target, value, tolerance(op, dtype), exactly(op, sample))
    if not done:
        raise Unsupported


def errors(op, dtype):
    if op.error_inputs_func is None or dtype != torch.float32:
        raise Unsupported
    done = 0
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        value, args, kwargs = Mover("cpu").arguments(sample)
        done += 1
        with naming(sample):
            target, device_args, device_kwargs = on_device(op, sample)
            agree_on_error(lambda: op(value, *args, **kwargs),
                           lambda: op(target, *device_args, **device_kwargs))
    if not done:
        raise Unsupported


CHECKS = {"forward": forward, "noncontiguous": noncontiguous, "backward": backward, "out": out, "inplace": inplace,
          "errors": errors}


def checks(name, dtype):
    """(check name, function without arguments) of one unit."""
    op, dtype = OPERATORS[name], getattr(torch, dtype)
    for check, function in CHECKS.items():
        if check != "backward" or dtype in (torch.float32, torch.float64):
            yield check, lambda function=function: run(function, op, dtype)


def run(function, op, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(op, dtype)
