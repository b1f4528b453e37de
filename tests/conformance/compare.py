"""Moving samples to the device and judging results against the CPU's.

Tolerances are those of torch.testing for the dtype, or the operator's own (`toleranceOverride`) where its OpInfo has
one. Two correct results in a narrow type may still differ by more than that, because the CPU's is rounded too. Then an
evaluation in double precision decides: the device may not be further from it than the CPU is, or by as little as two
orders of summing the same terms are from each other by chance.
"""

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = "neuron"
CHANCE = 1.5  # between the largest errors of two ways to sum the same terms
EXACT = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
         torch.complex64: torch.complex128, torch.complex32: torch.complex128}


class Mover:
    """Copies tensors to a device with their strides; what is one tensor, or one storage, stays one."""

    def __init__(self, device):
        self.device, self.tensors, self.storages = device, {}, {}

    def tensor(self, t):
        key = id(t)
        if key not in self.tensors:
            self.tensors[key] = t, self.moved(t)
        return self.tensors[key][1]

    def moved(self, t):
        if t.is_meta:
            return t
        if t.layout != torch.strided or t.is_nested or type(t) not in (torch.Tensor, torch.nn.Parameter):
            return t.detach().clone().to(self.device).requires_grad_(t.requires_grad)
        source = t.detach()
        if source.is_conj():
            return self.moved(source.conj()).conj().requires_grad_(t.requires_grad)
        if source.is_neg():
            return self.moved(source._neg_view())._neg_view().requires_grad_(t.requires_grad)
        storage = source.untyped_storage()
        key = storage._cdata, source.dtype
        if key not in self.storages:
            # The storage is kept beside its copy, so that its address names it for as long as the mover lives.
            flat = torch.empty(0, dtype=source.dtype).set_(storage)
            self.storages[key] = storage, flat.clone().to(self.device)
        copy = self.storages[key][1].as_strided(source.shape, source.stride(), source.storage_offset())
        return copy.requires_grad_(t.requires_grad)

    def value(self, v):
        if isinstance(v, torch.Tensor):
            return self.tensor(v)
        if isinstance(v, torch.device):
            return torch.device(self.device)
        if v == "cpu":
            return self.device
        return v

    def __call__(self, tree):
        return tree_map(self.value, tree)

    def arguments(self, sample):
        kwargs = {k: self.device if k == "device" else self(v) for k, v in sample.kwargs.items()}
        return self(sample.input), self(tuple(sample.args)), kwargs


def clone(tree):
    """A copy on the CPU that in-place operators may overwrite."""
    return Mover("cpu")(tree)


def widened(tree):
    """The same values in double precision."""
    def widen(v):
        if isinstance(v, torch.Tensor) and v.dtype in EXACT:
            return v.detach().to(EXACT[v.dtype])
        return EXACT.get(v, v) if isinstance(v, torch.dtype) else v
    return tree_map(widen, tree)


def tolerance(op, dtype):
    """(rtol, atol) of the operator's own overrides, or None for the dtype's default."""
    rtol = atol = None
    for info in getattr(op, "decorators", ()):
        for decorator in info.decorators if isinstance(info, DecorateInfo) else [info]:
            applies = not isinstance(info, DecorateInfo) or (
                info.device_type in (None, "cpu") and (info.dtypes is None or dtype in info.dtypes))
            if applies and isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                own = decorator.d[dtype]
                rtol, atol = max(rtol or 0, own.rtol), max(atol or 0, own.atol)
    return None if rtol is None else (rtol, atol)


def leaves(tree):
    return tree_flatten(tree)[0]


def same_metadata(actual, expected, where):
    assert isinstance(actual, torch.Tensor), f"{where}: {type(actual).__name__} instead of a tensor"
    assert actual.device.type == DEVICE, f"{where}: result is on {actual.device}"
    assert actual.shape == expected.shape, f"{where}: shape {tuple(actual.shape)}, CPU {tuple(expected.shape)}"
    assert actual.dtype == expected.dtype, f"{where}: dtype {actual.dtype}, CPU {expected.dtype}"
    assert actual.layout == expected.layout, f"{where}: layout {actual.layout}, CPU {expected.layout}"


def largest_error(value, exact):
    finite = exact.isfinite() & value.isfinite()
    same = finite | (value == exact) | (value.isnan() & exact.isnan())
    if not bool(same.all()):
        return float("inf")
    return float((value - exact).abs()[finite].max()) if bool(finite.any()) else 0.0


def same_values(actual, expected, where, limits, exact):
    actual, expected = actual.detach().cpu(), expected.detach()
    if expected.layout != torch.strided:
        actual, expected = actual.to_dense(), expected.to_dense()
    rtol, atol = limits or (None, None)
    try:
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        reference = exact() if expected.dtype in EXACT else None
        if reference is None or reference.shape != expected.shape:
            raise AssertionError(f"{where}: {summary(error)}") from None
        wide = EXACT[expected.dtype]
        ours, theirs = (largest_error(v.to(wide), reference.to(wide)) for v in (actual, expected))
        if not ours <= CHANCE * theirs:
            raise AssertionError(f"{where}: {summary(error)}; error {ours:.3g}, CPU's {theirs:.3g}") from None


def summary(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(line for line in lines if not line.startswith("The failure occurred"))[:300]


def same(actual, expected, limits=None, exact=None, metadata_only=False):
    """Asserts that the device's results are the CPU's. `exact` makes the results in double precision when asked."""
    actual, expected = leaves(actual), leaves(expected)
    assert len(actual) == len(expected), f"{len(actual)} results, CPU {len(expected)}"
    wide = []

    def reference(i):
        if exact is not None and not wide:
            try:
                wide.extend(leaves(exact()))
            except Exception:  # the operator has no double-precision form of this call
                wide.extend([None] * len(expected))
        return wide[i].detach() if wide and isinstance(wide[i], torch.Tensor) else None

    for i, (a, e) in enumerate(zip(actual, expected)):
        where = f"result {i}"
        if isinstance(e, torch.Tensor):
            same_metadata(a, e, where)
            if not metadata_only:
                same_values(a, e, where, limits, lambda: reference(i))
        elif not metadata_only:
            equal = a == e or (isinstance(e, float) and abs(a - e) <= 1e-5 + 1.3e-6 * abs(e)) or (a != a and e != e)
            assert equal, f"{where}: {a!r}, CPU {e!r}"
