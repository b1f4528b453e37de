"""The host fallback: results, aliasing, in-place and out= forms, counting and strict mode.

Ops without a native kernel are defined here with torch.library where a test must not depend on what becomes native.
"""

import os
import subprocess
import sys

import pytest
import torch

NEURON = torch.device("neuron", 0)

library = torch.library.Library("neuron_fallback_test", "DEF")
library.define("double(Tensor x) -> Tensor")
library.define("double_(Tensor(a!) x) -> Tensor(a!)")
library.define("double.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
library.define("both(Tensor x, Tensor[] others, Tensor? maybe=None) -> (Tensor, Tensor[])")
library.define("noise(Tensor x, *, Generator? generator=None) -> Tensor")
library.define("same(Tensor(a) x) -> Tensor(a)")
library.define("grow_list_(Tensor(a!)[] x) -> ()")
library.define("no_host_kernel(Tensor x) -> Tensor")


def double_out(x, *, out):
    out.resize_(x.shape)
    return torch.mul(x, 2, out=out)


def grow_list(tensors):
    for tensor in tensors:
        tensor.resize_(4).fill_(7)


library.impl("double", lambda x: x * 2, "CPU")
library.impl("double_", lambda x: x.mul_(2), "CPU")
library.impl("double.out", double_out, "CPU")
library.impl("both", lambda x, others, maybe=None: (x.clone() if maybe is None else x + maybe, [o + 1 for o in others]),
             "CPU")
library.impl("noise", lambda x, generator=None: torch.empty_like(x).uniform_(generator=generator), "CPU")
library.impl("same", lambda x: x.view(-1), "CPU")
library.impl("grow_list_", grow_list, "CPU")
ops = torch.ops.neuron_fallback_test


def on_device(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape).to(NEURON)


def test_result_is_on_the_device_and_right():
    x = on_device(2, 3)
    y = ops.double(x)
    assert y.device == NEURON
    assert torch.equal(y.cpu(), x.cpu() * 2)


def test_strided_input_and_offset_are_seen_in_place():
    x = on_device(4, 5)[1:, ::2].t()
    assert torch.equal(ops.double(x).cpu(), x.cpu() * 2)


def test_in_place_writes_through_views_and_returns_the_argument():
    base = on_device(4, 4)
    view = base[1:3, 1:]
    expected = base.cpu()
    expected[1:3, 1:] *= 2
    result = ops.double_(view)
    assert result is view
    assert torch.equal(base.cpu(), expected)


def test_out_is_resized_and_its_storage_follows():
    x = on_device(3, 4)
    out = torch.empty(0, device=NEURON)
    result = ops.double.out(x, out=out)
    assert result is out and out.shape == (3, 4)
    assert torch.equal(out.cpu(), x.cpu() * 2)
    torch.add(out, 1, out=out)
    assert torch.equal(out.cpu(), x.cpu() * 2 + 1)


def test_lists_optionals_and_resized_list_members():
    x, others = on_device(3), [on_device(2), on_device(4)]
    total, more = ops.both(x, others, on_device(3))
    assert torch.equal(total.cpu(), x.cpu() * 2)
    assert [torch.equal(a.cpu(), b.cpu() + 1) for a, b in zip(more, others)] == [True, True]
    members = [torch.empty(1, device=NEURON), torch.empty(9, device=NEURON)]
    ops.grow_list_(members)
    assert [m.cpu().tolist() for m in members] == [[7.0] * 4, [7.0] * 4]


def test_a_returned_view_shares_the_storage_and_is_not_counted():
    torch.neuron.clear_op_tracking()
    x = on_device(2, 2)
    y = ops.same(x)
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.neuron.fallback_report() == []


def test_empty_results():
    empty = ops.double(torch.empty(0, 3, device=NEURON))
    assert empty.device == NEURON and empty.shape == (0, 3)


def test_random_numbers_follow_the_device_generator():
    x = torch.empty(8, device=NEURON)
    torch.manual_seed(5)
    a, b = ops.noise(x), ops.noise(x)
    torch.manual_seed(5)
    assert torch.equal(a.cpu(), ops.noise(x).cpu())
    assert not torch.equal(a.cpu(), b.cpu())
    host_state = torch.get_rng_state()
    ops.noise(x)
    assert torch.equal(torch.get_rng_state(), host_state)


def test_report_names_op_count_and_line():
    torch.neuron.clear_op_tracking()
    x = on_device(2)
    ops.double(x), ops.double(x)
    row = next(r for r in torch.neuron.fallback_report() if r["op"] == "neuron_fallback_test::double")
    assert row["count"] == 2 and row["bytes_copied"] == 0 and row["nanoseconds"] > 0
    assert "test_fallback.py:" in row["location"]
    assert "neuron_fallback_test::double" in torch.neuron.get_fallback_ops()
    torch.neuron.clear_op_tracking()
    assert not torch.neuron.fallback_report()


def test_no_kernel_anywhere_is_a_clear_error_and_the_next_call_works():
    with pytest.raises(NotImplementedError, match="no_host_kernel.*no native kernel"):
        ops.no_host_kernel(on_device(2))
    assert ops.double(on_device(1)).item() == 2


def test_host_errors_come_through():
    with pytest.raises(RuntimeError, match="positive-definite"):
        torch.linalg.cholesky(-torch.eye(3).to(NEURON))


def test_mixed_devices_are_refused():
    with pytest.raises(RuntimeError, match="same device"):
        ops.both(on_device(2), [torch.ones(2)])
    with pytest.raises(RuntimeError, match="same device"):  # structured, without a native kernel
        torch.linalg.solve(torch.eye(2, device=NEURON), torch.ones(2, 1))
    with pytest.raises(RuntimeError, match="same device as the indexed tensor"):
        torch.ones(2)[torch.tensor([0], device=NEURON)]
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.functional.batch_norm(torch.ones(2, 3, device=NEURON), torch.zeros(3), torch.ones(3))


def test_strict_mode_raises_with_op_shapes_and_line():
    code = (
        "import torch\n"
        "x = torch.eye(3).to('neuron')\n"
        "try:\n"
        "    torch.linalg.cholesky(x)\n"
        "except NotImplementedError as error:\n"
        "    print(error)\n"
        "print((x + x)[0, 0].item())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "TORCH_NEURONX_STRICT": "1"})
    assert "linalg_cholesky_ex" in run.stdout and "Float[3, 3]" in run.stdout, run.stdout + run.stderr
    assert "<string>:4" in run.stdout
    assert run.stdout.strip().endswith("2.0")


def test_a_host_kernel_may_leave_its_result_lazily_conjugated():
    generator = torch.Generator().manual_seed(0)
    lu, right = (torch.randn(shape, generator=generator, dtype=torch.complex64) for shape in ((1, 1), (1, 4)))
    pivots = torch.ones(1, dtype=torch.int32)
    result = torch.linalg.lu_solve(lu.to(NEURON), pivots.to(NEURON), right.t().to(NEURON), left=False)
    torch.testing.assert_close(result.cpu(), right.t() / lu)


def test_a_transposed_destination_is_filled_and_stays_where_it_is():
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, 3, 5, 5, generator=generator)
    places = [torch.empty(5, 5, 3, 3, device=NEURON).permute(3, 2, 1, 0) for _ in range(3)]
    before = [place.data_ptr() for place in places]
    torch.linalg.lu(matrices.to(NEURON), out=tuple(places))
    for place, expected, address in zip(places, torch.linalg.lu(matrices), before):
        torch.testing.assert_close(place.cpu(), expected)
        assert place.data_ptr() == address and place.stride() == (1, 3, 9, 45)


def test_zeros_without_memory():
    zero = torch._efficientzerotensor((2, 3), device=NEURON)
    assert zero._is_zerotensor() and zero.device == NEURON
    assert torch.equal((zero + 1).cpu(), torch.ones(2, 3))
    x = torch.tensor([-2.0, 3.0], device=NEURON, requires_grad=True)
    x.sgn().sum().backward()
    assert torch.equal(x.grad.cpu(), torch.zeros(2))
