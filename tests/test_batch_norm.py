"""Batch norm against CPU torch: statistics, running averages, gradients, layouts, and the pieces that SyncBatchNorm uses."""

import host_reference
import pytest
import torch
from host_reference import NEURON, on_device, same_error
from host_reference import spread as values
from torch import nn
from torch.nn import functional as F
from torch_neuronx import _C

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2, torch.float16: 4e-3}
DTYPES = list(TOLERANCE)
SHAPES = [(4, 3), (1, 5, 9), (6, 17, 3), (2, 3, 4, 5), (3, 4, 1, 1), (2, 600, 2), (2, 3, 2, 3, 5), (300, 3, 40)]


def near(actual, expected, dtype, at_least=0.0):
    host_reference.near(actual, expected, TOLERANCE[dtype], at_least)


@pytest.fixture(autouse=True)
def nothing_on_the_host():
    _C.clear_fallback_rows()
    yield
    assert not _C.fallback_rows()


def train(module, x, device, wide):
    """Output, input and parameter gradients and buffers after one step in training and one in evaluation."""
    module = module.to(device)
    x = x.to(device)
    if wide:
        module, x = module.double(), x.double()
    out = []
    for training in (True, False):
        module.train(training)
        leaf = x.detach().requires_grad_()
        y = module(leaf)
        y.backward(values(*y.shape, seed=5).to(y))
        out += [y.detach(), leaf.grad] + [p.grad.clone() for p in module.parameters()]
        module.zero_grad()
    return out + [b for b in module.buffers() if b.is_floating_point()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str)
def test_module(shape, options, dtype):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]

    def build():
        module = kind(shape[1], **options)
        if module.affine:
            with torch.no_grad():
                module.weight.copy_(values(shape[1], seed=1))
                module.bias.copy_(values(shape[1], seed=2))
        return module.to(dtype)

    x, narrow = values(*shape, dtype=dtype), dtype in (torch.bfloat16, torch.float16)
    actual, theirs = train(build(), x, NEURON, wide=False), train(build(), x, "cpu", wide=False)
    exact = train(build(), x, "cpu", wide=True) if narrow else theirs
    for got, own, want in zip(actual, theirs, exact, strict=True):
        # Saved statistics have the input's dtype; the gradients that a narrow one costs the CPU are lost here too.
        near(got, want, dtype, at_least=(own.double() - want).abs().max() if narrow else 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (8, 40)], ids=str)
def test_narrow_input_beside_wide_parameters(shape, dtype):
    x, weight, bias = values(*shape, dtype=dtype), values(shape[1], seed=1), values(shape[1], seed=2)
    results = []
    for device in ("cpu", NEURON):
        running = [torch.zeros(shape[1], device=device), torch.ones(shape[1], device=device)]
        leaf, w, b = [t.detach().clone().to(device).requires_grad_() for t in (x, weight, bias)]
        y = F.batch_norm(leaf, *running, w, b, True)
        y.backward(values(*shape, seed=3).to(y))
        results.append([y.detach(), leaf.grad, w.grad, b.grad, *running])
    for got, want in zip(results[1], results[0]):
        assert got.dtype == want.dtype
        near(got, want, dtype)


@pytest.mark.parametrize("arrange", [lambda x: x.to(memory_format=torch.channels_last), lambda x: x.transpose(2, 3),
                                     lambda x: x[:, :, ::2], lambda x: x.permute(3, 1, 0, 2), lambda x: x[..., :1, :1]])
def test_layouts(arrange):
    x = arrange(values(4, 6, 6, 7))
    weight, bias = values(6, seed=1), values(6, seed=2)
    results = []
    for tensors in ((x, weight, bias), on_device((x, weight, bias))):
        y, mean, invstd = torch.native_batch_norm(*tensors, None, None, True, 0.1, 1e-5)
        grad = y.cos()
        grads = torch.ops.aten.native_batch_norm_backward(grad, tensors[0], tensors[1], None, None, mean, invstd, True, 1e-5,
                                                          [True] * 3)
        other = torch.ops.aten.native_batch_norm_backward(grad.contiguous(), tensors[0], tensors[1], None, None, mean, invstd,
                                                          True, 1e-5, [True] * 3)
        results.append([y, mean, invstd, *grads, *other])
    for got, want in zip(results[1], results[0]):
        assert got.stride() == want.stride()
        near(got, want, torch.float32)


def test_output_mask():
    x, saved = values(3, 4, 5), (torch.zeros(4), torch.ones(4))
    for mask in ([True, False, False], [False, True, False], [False, False, True], [False] * 3):
        for train in (True, False):
            results = [torch.ops.aten.native_batch_norm_backward(t.sin(), t, None, *running, *running, train, 1e-5, mask)
                       for t, running in ((x, saved), on_device((x, saved)))]
            for got, want, asked in zip(results[1], results[0], mask):
                assert (got is not None) == asked
                if asked:
                    near(got, want, torch.float32)


def test_far_from_zero():
    """The variance survives a mean that is much larger."""
    x = (torch.randn(16, 3, 50, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1e5).float()
    _, mean, invstd = torch.native_batch_norm(x.to(NEURON), None, None, None, None, True, 0.1, 0.0)
    wide = x.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean.cpu().double(), wide.mean(1), rtol=1e-7, atol=0)
    torch.testing.assert_close(invstd.cpu().double(), wide.var(1, correction=0).rsqrt(), rtol=1e-6, atol=0)


def test_infinities_and_nan_stay_in_their_channel():
    x = values(4, 5, 6)
    x[0, 0, 0], x[3, 1, 2], x[2, 2, 2] = float("inf"), float("inf"), float("nan")
    for layout in (x, x.reshape(24, 5)):
        results = [torch.native_batch_norm(t, None, None, None, None, True, 0.1, 1e-5) for t in (layout, layout.to(NEURON))]
        for got, want in zip(results[1], results[0]):
            near(got.nan_to_num(nan=7e3, posinf=8e3), want.nan_to_num(nan=7e3, posinf=8e3), torch.float32)


def test_one_value_per_channel():
    x = values(1, 4)
    for running in ((None, None), (torch.zeros(4), torch.ones(4))):
        results = []
        for tensors in ((x, *running), on_device((x, *running))):
            results.append([*torch.native_batch_norm(tensors[0], None, None, *tensors[1:], True, 0.1, 1e-5), *tensors[1:]])
        for got, want in zip(results[1], results[0]):
            if want is not None:  # the CPU multiplies out, which leaves x's error times 1 / sqrt(eps)
                near(got, want, torch.float32, at_least=1e-4)
    with pytest.raises(ValueError, match="more than 1 value"):
        F.batch_norm(x.to(NEURON), None, None, training=True)


def test_empty_batch():
    for shape in ((0, 4), (0, 4, 3), (3, 4, 0)):
        module, x = nn.BatchNorm1d(4), torch.empty(shape)
        leaf, other = x.requires_grad_(), x.detach().to(NEURON).requires_grad_()
        want, got = module(leaf), nn.BatchNorm1d(4).to(NEURON)(other)
        assert got.shape == want.shape
        got.sum().backward()
        assert other.grad.shape == x.shape


def test_errors():
    x = values(3, 4, 5)

    def forward(t, weight=None, running=None, training=True):
        return torch.native_batch_norm(t, weight, None, running, running, training, 0.1, 1e-5)

    same_error(forward, x.long())
    same_error(forward, x[0, 0])
    same_error(forward, x[:0])
    same_error(forward, x, torch.ones(4, dtype=torch.bfloat16))
    same_error(forward, x.bfloat16(), torch.ones(4), torch.ones(4, dtype=torch.bfloat16))
    same_error(forward, x.double(), torch.ones(4))
    same_error(lambda t, w: F.batch_norm(t, None, None, w, training=True), x, torch.ones(3))
    same_error(lambda t, w: F.batch_norm(t, w, w), x, torch.ones(3))
    same_error(lambda t: F.batch_norm(t, None, None, training=False), x)
    with pytest.raises(RuntimeError, match="weight should contain 4 elements not 3"):
        forward(x.to(NEURON), torch.ones(3).to(NEURON))
    with pytest.raises(RuntimeError, match="evaluation mode"):
        forward(x.to(NEURON), training=False)
    with pytest.raises(RuntimeError, match="same device"):
        forward(x.to(NEURON), torch.ones(4))


def test_out_and_functional_forms():
    x, weight, bias = values(3, 4, 5), values(4, seed=1), values(4, seed=2)
    aten = torch.ops.aten

    def running(device):
        return torch.zeros(4, device=device), torch.ones(4, device=device)

    def forms(x, w, b):
        device = x.device
        outs = [torch.empty(0, device=device) for _ in range(3)]
        run = running(device)
        yield torch.native_batch_norm(x, w, b, *run, True, 0.1, 1e-5, out=outs), outs, run
        run = running(device)
        yield aten._native_batch_norm_legit(x, w, b, *run, True, 0.1, 1e-5), run
        yield aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)
        yield aten._native_batch_norm_legit_functional(x, w, b, *running(device), True, 0.1, 1e-5)
        yield aten._native_batch_norm_legit_no_training(x, w, b, *running(device), 0.1, 1e-5)
        run = running(device)
        yield aten._batch_norm_with_update(x, w, b, *run, 0.1, 1e-5), run
        yield aten._batch_norm_with_update_functional(x, w, b, *running(device), 0.1, 1e-5)
        yield aten._batch_norm_no_update(x, w, b, *running(device), 0.1, 1e-5)
        run = running(device)
        yield torch.batch_norm_update_stats(x, *run, 0.1), run

    def flat(tree):
        return [tree] if isinstance(tree, torch.Tensor) else [t for item in tree for t in flat(item)]

    for got, want in zip(forms(*on_device((x, weight, bias))), forms(x, weight, bias), strict=True):
        for a, b in zip(flat(got), flat(want), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            near(a, b, torch.float32)


def test_backward_with_reserve():
    x, weight = values(3, 4, 5), values(4, seed=1)
    results = []
    for x, weight in ((x, weight), on_device((x, weight))):
        y, mean, invstd, reserve = torch.ops.aten._batch_norm_with_update(
            x, weight, weight, torch.zeros_like(weight), torch.ones_like(weight), 0.1, 1e-5)
        results.append(torch.ops.aten.batch_norm_backward(y, x, weight, None, None, mean, invstd, True, 1e-5, [True] * 3,
                                                          reserve))
    for got, want in zip(results[1], results[0], strict=True):
        near(got, want, torch.float32)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 3, 2)], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_gradcheck(shape, training):
    x = values(*shape, dtype=torch.float64).to(NEURON).requires_grad_()
    weight, bias = [values(3, dtype=torch.float64, seed=s).to(NEURON).requires_grad_() for s in (1, 2)]
    mean, variance = torch.zeros(3, dtype=torch.float64, device=NEURON), torch.ones(3, dtype=torch.float64, device=NEURON)

    def function(x, weight, bias):
        return F.batch_norm(x, mean.clone(), variance.clone(), weight, bias, training)

    assert torch.autograd.gradcheck(function, (x, weight, bias))
    assert torch.autograd.gradgradcheck(function, (x, weight, bias))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_two_processes_agree_with_one(dtype, layout):
    """What SyncBatchNorm computes on two halves of a batch is batch norm of the whole."""
    whole = values(6, 3, 4, 5, dtype=dtype).to(memory_format=layout).to(NEURON)
    grad = values(6, 3, 4, 5, dtype=dtype, seed=4).to(memory_format=layout).to(NEURON)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    weight, bias = [values(3, dtype=wide, seed=s).to(NEURON) for s in (1, 2)]
    running = [torch.zeros(3, dtype=wide, device=NEURON), torch.ones(3, dtype=wide, device=NEURON)]
    expected_running = [t.clone() for t in running]
    expected, mean, invstd = torch.native_batch_norm(whole, weight, bias, *expected_running, True, 0.1, 1e-5)
    expected_grads = torch.ops.aten.native_batch_norm_backward(grad, whole, weight, None, None, mean, invstd, True, 1e-5,
                                                               [True] * 3)
    parts, grads = [whole[:2], whole[2:]], [grad[:2], grad[2:]]
    stats = [torch.batch_norm_stats(part, 1e-5) for part in parts]
    counts = torch.tensor([40.0, 80.0], dtype=wide, device=NEURON)
    total = torch.batch_norm_gather_stats_with_counts(parts[0], *[torch.stack(s) for s in zip(*stats)], *running, 0.1, 1e-5,
                                                      counts)
    for got, want in zip([*total, *running], [mean, invstd, *expected_running]):
        near(got, want.cpu(), wide)
    near(torch.cat([torch.batch_norm_elemt(part, weight, bias, *total, 1e-5) for part in parts]), expected.cpu(), dtype)
    sums = [torch.batch_norm_backward_reduce(g, part, *total, weight, True, True, True) for g, part in zip(grads, parts)]
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = [a + b for a, b in zip(*sums)]
    grad_x = torch.cat([torch.batch_norm_backward_elemt(g, part, *total, weight, sum_dy, sum_dy_xmu, counts.int())
                        for g, part in zip(grads, parts)])
    for got, want in zip((grad_x, grad_weight, grad_bias), expected_grads):
        near(got, want.cpu(), dtype)


def test_gather_stats_with_one_count():
    x = values(4, 3, 5).to(NEURON)
    stats = [torch.batch_norm_stats(part, 1e-5) for part in (x[:2], x[2:])]
    mean, invstd = torch.batch_norm_gather_stats(x, *[torch.stack(s) for s in zip(*stats)], None, None, 0.1, 1e-5, 10)
    expected = torch.native_batch_norm(x.cpu(), None, None, None, None, True, 0.1, 1e-5)[1:]
    near(mean, expected[0], torch.float32)
    near(invstd, expected[1], torch.float32)


def test_same_bits_for_any_thread_count():
    threads = torch.get_num_threads()
    results = []
    inputs = [values(64, 3, 41, 40), values(20000, 70), values(8, 20, 30, 31).to(memory_format=torch.channels_last)]
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            bits = []
            for x in on_device(inputs):
                weight = torch.ones(x.shape[1], device=NEURON)
                y, mean, invstd = torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)
                bits += [y, mean, invstd, *torch.ops.aten.native_batch_norm_backward(
                    y, x, weight, None, None, mean, invstd, True, 1e-5, [True] * 3)]
            results.append([t.cpu() for t in bits])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results))
