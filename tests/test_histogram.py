"""Histograms, distances, cross products, mode, slices that differ and reductions by index against CPU torch."""

import pytest
import torch
import torch.nn.functional as F

from host_reference import FLOATS, INTS, NEURON, compare, compare_gradients, normal, same_error, sample

NUMBERS = FLOATS + [d for d in INTS if d != torch.bool]
NAN = float("nan")


@pytest.mark.parametrize("dtype", [d for d in INTS if d != torch.bool])
def test_bincount(dtype):
    x = sample(500, dtype=dtype)
    compare(lambda t: (t.bincount(), t.bincount(minlength=200), t[::3].bincount(), t[:0].bincount(minlength=4), t[:0].bincount()), x)
    compare(lambda t, w: (t.bincount(w), t[::2].bincount(w[::2]), t.bincount(w.double()), t.bincount(w.int())), x, sample(500))


def test_bincount_of_many():
    x, w = torch.randint(0, 50, (400_000,)), normal(400_000, dtype=torch.float64)
    compare(torch.bincount, x)
    compare(torch.bincount, x, w, exact=False, rtol=1e-11, atol=1e-11)


def test_bad_bincount():
    for x in (torch.tensor([1, -1]), torch.tensor([1.0]), torch.tensor([[1]]), torch.tensor([True])):
        same_error(torch.bincount, x)
    same_error(lambda t: t.bincount(minlength=-1), torch.tensor([1]))
    same_error(lambda t, w: t.bincount(w), torch.tensor([1, 2]), torch.tensor([1.0]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_histc(dtype):
    x = sample(10, 20, dtype=dtype)  # bf16 counts to 256
    compare(lambda t: (t.histc(10, -20, 30), t.histc(7), t.t().histc(16, -64, 64), t[:0].histc(3), t.histc(1)), x)
    compare(lambda t: t.histc(5, 0, 4), torch.tensor([0, 1, 1, NAN, 4, 4, 5, -1], dtype=dtype))
    compare(lambda t: t.histc(4), torch.full((5,), 2, dtype=dtype))


def test_histc_of_any_values():
    for dtype in (torch.float32, torch.float64):
        compare(lambda t: (t.histc(100), t.histc(37, -1, 1.5)), normal(200_000, dtype=dtype))
    counts = sample(100, dtype=torch.int32).to(NEURON).histc(100, 0, 99)
    assert counts.dtype == torch.int32 and counts.cpu().tolist() == sample(100, dtype=torch.int64).bincount(minlength=100).tolist()


def test_bad_histc():
    same_error(lambda t: t.histc(0), torch.ones(3))
    same_error(lambda t: t.histc(3, 2, 1), torch.ones(3))
    same_error(lambda t: t.histc(3), torch.tensor([1.0, NAN]))
    same_error(lambda t: t.histc(3), torch.tensor([1.0, torch.inf]))
    same_error(lambda t: t.histc(3), torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histogram(dtype):
    x, w = sample(40, 30, dtype=dtype), normal(40, 30, dtype=dtype)
    edges = torch.tensor([-40, -10, 0, 0.5, 7, 30], dtype=dtype)
    compare(lambda t: torch.histogram(t, 7), x, exact=False)
    compare(lambda t: torch.histogram(t.t(), 5, range=(-20.0, 20.0)), x, exact=False)
    compare(lambda t, e: torch.histogram(t, e), x, edges)
    compare(lambda t, e: torch.histogram(t, e, out=(torch.empty(5).to(t), torch.empty(6).to(t))), x, edges)
    compare(lambda t, w, e: torch.histogram(t, e, weight=w, density=True), x, w, edges, exact=False)
    compare(lambda t: torch.histogram(t, 4, density=True), x, exact=False)
    compare(lambda t: (torch.histogram(t[:0], 3), torch.histogram(t[:1, :1], 2)), x)
    compare(lambda t: torch.histogram(t, 3, range=(0.0, 3.0)), torch.tensor([0, 1, NAN, 3, 4, torch.inf], dtype=dtype))


def test_histogramdd():
    x, w = sample(300, 3), sample(300, seed=1)
    edges = [torch.tensor([-50.0, -5, 5, 50]), torch.tensor([0.0, 1]), torch.tensor([-30.0, 0, 30])]
    compare(lambda t: torch.histogramdd(t, [3, 2, 4]), x)
    compare(lambda t, w: torch.histogramdd(t, [3, 2, 4], range=[-9.0, 9, 0, 5, -40, 40], weight=w), x, w)
    compare(lambda t, a, b, c: torch.histogramdd(t, [a, b, c], density=True), x, *edges, exact=False)


def test_bad_histograms():
    x = normal(6)
    for bad in (0, -1):
        same_error(lambda t: torch.histogram(t, bad), x)
    same_error(lambda t: torch.histogram(t, 3), torch.tensor([1.0, NAN]))
    same_error(lambda t: torch.histogram(t, 3, range=(3.0, 0.0)), x)
    same_error(lambda t: torch.histogram(t.int(), 3), x)
    same_error(lambda t: torch.histogram(t, t.double()), x)
    same_error(lambda t: torch.histogram(t, t.view(2, 3)), x)
    same_error(lambda t: torch.histogram(t, t[:0]), x)
    same_error(lambda t: torch.histogram(t, t[:1]), x)
    same_error(lambda t: torch.histogram(t, 3, weight=t[:2]), x)
    same_error(lambda t: torch.histogram(t, 3, weight=t.double()), x)
    same_error(lambda t: torch.histogramdd(t, [2]), x)
    same_error(lambda t: torch.histogramdd(t.view(3, 2), [2]), x)
    same_error(lambda t: torch.histogramdd(t.view(3, 2), [2, 3], range=[0.0, 1]), x)


NORMS = [0, 0.5, 1, 1.5, 2, 3, float("inf")]


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cdist(p, dtype):
    a, b = normal(2, 5, 37, dtype=dtype), normal(2, 9, 37, dtype=dtype, seed=1)
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    compare(lambda a, b: torch.cdist(a, b, p), a, b, exact=False, **tolerance)
    compare(lambda a, b: torch.cdist(a[0], b.transpose(1, 2)[:, :37, :], p), a[:, :, :9], b, exact=False, **tolerance)
    compare_gradients(lambda a, b: torch.cdist(a, b, p), a, b, **tolerance)
    compare_gradients(lambda a, b: torch.cdist(a[0], b, p), a, b, **tolerance)
    compare(lambda a: F.pdist(a[0], p), a, exact=False, **tolerance)
    compare_gradients(lambda a: F.pdist(a[0], p), a, **tolerance)
    same = torch.ones(3, 4, dtype=dtype)
    compare_gradients(lambda a, b: torch.cdist(a, b, p), same, same.clone(), **tolerance)
    compare_gradients(lambda a: F.pdist(a, p), same, **tolerance)


def test_cdist_of_many_and_few():
    a, b = normal(40, 8), normal(30, 8, seed=1)
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"):
        compare(lambda a, b: torch.cdist(a, b, compute_mode=mode), a, b, exact=False, rtol=1e-4, atol=1e-4)
    for shapes in [((2, 0), (3, 0)), ((0, 4), (3, 4)), ((2, 4), (0, 4)), ((0, 2, 4), (3, 4))]:
        compare(torch.cdist, torch.ones(shapes[0]), torch.ones(shapes[1]))
    for n in (0, 1, 2):
        compare(lambda t: F.pdist(t), torch.ones(n, 3))


def test_bad_distances():
    same_error(torch.cdist, torch.ones(2, 3), torch.ones(3, 2))
    same_error(torch.cdist, torch.ones(3), torch.ones(3, 3))
    same_error(lambda a: torch.cdist(a, a, p=-1), torch.ones(2, 3))
    same_error(lambda a: torch.cdist(a, a), torch.ones(2, 3, dtype=torch.int))
    same_error(lambda a: torch.cdist(a, a), torch.ones(2, 3, dtype=torch.float16))
    same_error(lambda a: torch.cdist(a, a.double(), p=1), torch.ones(2, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_cross_is_rounded_once(dtype):
    a, b = normal(50, 3, dtype=dtype), normal(50, 3, dtype=dtype, seed=1)
    result = torch.linalg.cross(a.to(NEURON), b.to(NEURON))
    assert torch.equal(result.cpu(), torch.linalg.cross(a.float(), b.float()).to(dtype))


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.itemsize > 2 or not d.is_floating_point] + [torch.complex64, torch.complex128])
def test_cross(dtype):
    a, b = sample(3, 4, 3, dtype=dtype), sample(3, 4, 3, dtype=dtype, seed=1)
    for dim in (0, 2, -1):
        compare(lambda a, b: torch.linalg.cross(a, b, dim=dim), a, b)
    compare(lambda a, b: torch.linalg.cross(a[:, :1], b.transpose(0, 2)), a, b, strides=False)
    compare(lambda a, b: torch.cross(a, b, out=torch.empty_like(a), dim=0), a, b)
    same_error(lambda a, b: torch.linalg.cross(a, b, dim=1), a, b)


def test_cross_gradients():
    compare_gradients(lambda a, b: torch.linalg.cross(a, b), normal(5, 3), normal(5, 3, seed=1))
    same_error(lambda a: torch.linalg.cross(a, a), torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("dtype", NUMBERS + [torch.bool])
def test_mode(dtype):
    def values(t, *args, **kwargs):
        modes, indices = torch.mode(t, *args, **kwargs)
        keep = kwargs.get("keepdim", False)
        dim = args[0] if args else -1
        found = t.gather(dim, indices if keep else indices.unsqueeze(dim))
        return modes, found if keep else found.squeeze(dim)
    for x in (sample(300, dtype=dtype), sample(6, 50, dtype=dtype)):
        x = (x // 10).to(dtype) if dtype != torch.bool else x
        compare(lambda t: values(t) + values(t, 0) + values(t, 0, keepdim=True), x)
        compare(lambda t: torch.mode(t[:9]), x[..., :12])
        compare(lambda t: values(t.t() if t.dim() == 2 else t[::3], -1), x, strides=False)


def test_mode_of_few():
    compare(lambda t: torch.mode(t), torch.tensor(3.0))
    compare(lambda t: torch.mode(t, 1), torch.empty(0, 3))
    same_error(lambda t: torch.mode(t, 0), torch.empty(0, 3))
    same_error(torch.mode, torch.ones(3, dtype=torch.complex64))
    compare_gradients(lambda t: torch.mode(t, 1)[0], sample(4, 12) // 20)


@pytest.mark.parametrize("dtype", NUMBERS + [torch.bool])
def test_unique_slices(dtype):
    x = sample(30, 2, 3, dtype=dtype)
    x = (x // 40).to(dtype) if dtype != torch.bool else x
    for dim in (0, 1, -1):
        compare(lambda t: torch.unique(t, dim=dim), x)
        compare(lambda t: torch.unique(t, return_inverse=True, return_counts=True, dim=dim), x)
        compare(lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True, dim=dim), x)
    compare(lambda t: torch.unique(t[:, 0, 0], return_inverse=True, return_counts=True, dim=0), x)
    compare(lambda t: torch.unique_consecutive(t[:, 0, 0], return_counts=True, dim=0), x)


def test_unique_slices_of_few():
    compare(lambda t: torch.unique(t, dim=0, return_inverse=True, return_counts=True), torch.tensor([[1, NAN], [1, NAN], [0, 2], [-0.0, 2]]))
    compare(lambda t: torch.unique(t, dim=0), torch.ones(0, 3))
    for function in (torch.unique, torch.unique_consecutive):
        same_error(lambda t: function(t, dim=1), torch.ones(0, 3))
        same_error(lambda t: function(t, dim=0), torch.tensor(3.0))
        same_error(lambda t: function(t, dim=2), torch.ones(2, 3))


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.filterwarnings("ignore:.*beta")
def test_index_reduce(reduce, dtype):
    x, source, index = sample(5, 6, dtype=dtype) // 20, sample(8, 6, dtype=dtype, seed=1) // 20, torch.tensor([0, 3, 3, 1, 0, 3, 1, 3])
    close = {"exact": False, "rtol": 1e-2, "atol": 1e-2} if dtype in (torch.float16, torch.bfloat16) else {"exact": False}
    for include in (True, False):
        compare(lambda x, s, i: x.index_reduce(0, i, s, reduce, include_self=include), x, source, index, **close)
        compare(lambda x, s, i: x.t().index_reduce_(1, i.int(), s.t(), reduce, include_self=include), x, source, index, **close)
    compare(lambda x, s, i: torch.index_reduce(x, 0, i, s, reduce, out=torch.empty_like(x)), x, source, index, **close)
    compare(lambda x, s, i: x.index_reduce(0, i[:0], s[:0], reduce), x, source, index)


@pytest.mark.filterwarnings("ignore:.*beta")
def test_index_reduce_gradients_and_errors():
    index = torch.tensor([0, 3, 3, 1])
    for reduce in ("prod", "mean", "amax"):
        compare_gradients(lambda x, s, i: x.index_reduce(0, i, s, reduce), normal(5, 3), normal(4, 3, seed=1), index)
    for bad in (5, -1):
        same_error(lambda x, s, i: x.index_reduce(0, i, s, "prod"), normal(5, 3), normal(2, 3), torch.tensor([0, bad]))
        same_error(lambda x, s, i: x.index_reduce(0, i, s, "prod"), normal(5), normal(2), torch.tensor([0, bad]))
    same_error(lambda x, s, i: x.index_reduce(0, i, s, "sum"), normal(5), normal(2), torch.tensor([0, 1]))
    same_error(lambda x, s, i: x.index_reduce(0, i, s, "prod"), normal(5), normal(3), torch.tensor([0, 1]))
    same_error(lambda x, i: x.index_reduce(0, i, x[:2], "amax"), torch.ones(5, dtype=torch.bool), torch.tensor([0, 1]))


def test_nonzero_static():
    x = sample(40, 30) % 3
    for size in (0, 5, 2000):
        compare(lambda t: torch.nonzero_static(t, size=size), x)
        compare(lambda t: torch.nonzero_static(t.t(), size=size, fill_value=7), x)
    compare(lambda t: torch.nonzero_static(t, size=3), torch.tensor(1.0))
    compare(lambda t: torch.nonzero_static(t, size=3), torch.empty(0, 2))
    same_error(lambda t: torch.nonzero_static(t, size=-1), x)


@pytest.mark.parametrize("dtype", FLOATS + [torch.complex64])
def test_unfold_gradients(dtype):
    def windows(x, dim, size, step):
        leaf = x.detach().requires_grad_()
        out = leaf.unfold(dim, size, step)
        out.backward((torch.arange(out.numel(), device=x.device) % 5).reshape(out.shape).to(x.dtype))
        return leaf.grad
    x = sample(4, 20, 3).to(dtype)
    for dim, size, step in [(1, 5, 2), (1, 4, 4), (1, 3, 7), (0, 4, 1), (-1, 2, 1), (1, 20, 1)]:
        compare(lambda t: windows(t, dim, size, step), x, strides=False)
    compare(lambda t: windows(t, 0, 1, 1), x[0, 0, 0], strides=False)


def test_truth_values_as_result():
    for x in (sample(6, 7) % 3, sample(6, 7, dtype=torch.int32), sample(6, 7, dtype=torch.bool), normal(6, 7).to(torch.complex64)):
        compare(lambda t: (t.prod(1, dtype=torch.bool), t.prod(dtype=torch.bool), t.sum(0, dtype=torch.bool), t[:, :2].prod(1, dtype=torch.bool)), x)


def test_complex_and_negative_spacing():
    def spaced(function, *arguments, **options):
        def run(t):
            return function(*arguments, device=t.device, **options)
        compare(run, torch.ones(1), exact=False)
    for steps in (0, 1, 4, 7):
        spaced(torch.linspace, 1j, 2 + 3j, steps)
        spaced(torch.logspace, 1j, 1 + 3j, steps, 2.5)
        spaced(torch.linspace, 0, 1, steps, dtype=torch.complex128)
        spaced(torch.logspace, 0, 6, steps, -2)
        spaced(torch.logspace, 0, 3, steps, 0)
    for function in (torch.linspace, torch.logspace):
        same_error(lambda t: function(1j, 2, 3, out=torch.empty(3, device=t.device)), torch.ones(1))


def test_empty_take_and_logsigmoid():
    index = torch.empty(0, 2, dtype=torch.long)
    compare(lambda t, i: (t.take(i), t[:0].take(i), F.logsigmoid(t[:0]), F.logsigmoid(t.view(3, 1)[:, :0])), torch.ones(3), index)
    same_error(lambda t, i: t[:0].take(i.new_zeros(1)), torch.ones(3), index)
    compare_gradients(lambda t, i: F.logsigmoid(t[:0]).sum() + t.take(i).sum(), torch.ones(3), index)


def test_same_bits_for_any_number_of_threads():
    a, b = normal(60, 50).to(NEURON).requires_grad_(), normal(70, 50).to(NEURON)
    x, w = torch.randint(0, 50, (300_000,)).to(NEURON), normal(300_000).to(NEURON)
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            distances = torch.cdist(a, b, 1.5)
            results.append([t.detach().cpu() for t in (distances, *torch.autograd.grad(distances.sum(), a), x.bincount(w), w.histc(40))])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(p, q) for p, q in zip(*results))
