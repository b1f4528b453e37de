"""scaled_dot_product_attention against the plain formula in fp64 on the host."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_neuronx  # noqa: F401


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def formula(q, k, v, mask=None, is_causal=False, scale=None):
    repeats = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    scores = q @ k.mT * (scale if scale is not None else 1 / math.sqrt(q.size(-1)))
    if is_causal:
        mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return torch.nan_to_num(scores.softmax(-1)) @ v


def compare(q, k, v, dtype=torch.float32, tolerance=2e-5, **options):
    exact = [x.to(dtype).double().requires_grad_() for x in (q, k, v)]
    device = [x.detach().to(dtype).to("neuron").requires_grad_() for x in exact]
    mask = options.get("mask")
    expected = formula(*exact, **options)
    options = {**options, "attn_mask": None if mask is None else mask.to("neuron") if mask.dtype == torch.bool
               else mask.to(dtype).to("neuron")}
    options.pop("mask", None)
    actual = F.scaled_dot_product_attention(*device, enable_gqa=q.size(1) != k.size(1), **options)
    assert "SafeSoftmax" not in str(actual.grad_fn) and "Overrideable" in str(actual.grad_fn)
    grad = torch.randn(expected.shape).to(dtype)
    expected.backward(grad.double())
    actual.backward(grad.to("neuron"))
    for x, y in ((actual.detach(), expected.detach()), *((a.grad, b.grad) for a, b in zip(device, exact))):
        assert x.dtype == dtype
        torch.testing.assert_close(x.cpu().double(), y, rtol=tolerance, atol=tolerance)


def heads(batch=2, queries=5, keys=5, size=8, count=2, groups=None, value_size=None):
    groups = groups or count
    return (torch.randn(batch, count, queries, size), torch.randn(batch, groups, keys, size),
            torch.randn(batch, groups, keys, value_size or size))


@pytest.mark.parametrize("queries,keys", ((1, 1), (5, 7), (63, 65), (64, 256), (65, 257), (200, 300)))
@pytest.mark.parametrize("is_causal", (False, True))
def test_lengths(queries, keys, is_causal):
    compare(*heads(queries=queries, keys=keys), is_causal=is_causal)


@pytest.mark.parametrize("size,value_size", ((1, 1), (3, 5), (33, 64), (64, 64), (128, 100), (256, 256)))
def test_head_sizes(size, value_size):
    compare(*heads(queries=20, keys=30, size=size, value_size=value_size), tolerance=5e-5)


@pytest.mark.parametrize("dtype,tolerance", ((torch.float64, 1e-12), (torch.bfloat16, 4e-2), (torch.float16, 5e-3)), ids=str)
def test_dtypes(dtype, tolerance):
    compare(*heads(queries=70, keys=70, size=16), dtype=dtype, tolerance=tolerance, is_causal=True)


@pytest.mark.parametrize("shape", ((9, 11), (1, 11), (2, 1, 1, 11), (1, 4, 9, 11), (2, 4, 9, 11)), ids=str)
def test_masks(shape):
    q, k, v = heads(queries=9, keys=11, count=4)
    compare(q, k, v, mask=torch.rand(shape) > 0.3)
    compare(q, k, v, mask=torch.randn(shape))


def test_fully_masked_rows_give_zeros():
    q, k, v = heads(queries=4, keys=6)
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[2] = False
    compare(q, k, v, mask=mask)


@pytest.mark.parametrize("count,groups", ((4, 2), (6, 1)))
def test_grouped_queries(count, groups):
    compare(*heads(queries=70, keys=66, count=count, groups=groups), is_causal=True)


def test_scale_and_views():
    qkv = torch.randn(2, 40, 3 * 24)
    q, k, v = (x.view(2, 40, 3, 8).transpose(1, 2) for x in qkv.split(24, dim=2))
    compare(q, k, v, is_causal=True, scale=0.7)
    device = [x.view(2, 40, 3, 8).transpose(1, 2) for x in qkv.to("neuron").split(24, dim=2)]
    out = F.scaled_dot_product_attention(*device, is_causal=True)
    assert out.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(out.cpu(), F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_dropout():
    q, k = torch.zeros(2, 2, 100, 8).to("neuron"), torch.zeros(2, 2, 300, 8).to("neuron")
    v = torch.eye(300).expand(2, 2, 300, 300).contiguous().to("neuron").requires_grad_()
    torch.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    weights = out.detach().cpu() * 300  # each probability is 1/300
    kept = weights > 0.5
    assert abs(kept.float().mean().item() - 0.75) < 0.01
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / 0.75), rtol=1e-4, atol=0)
    out.sum().backward()
    torch.testing.assert_close(v.grad.cpu(), out.detach().cpu().sum(2).unsqueeze(-1).expand(2, 2, 300, 300))
    torch.manual_seed(3)
    assert torch.equal(F.scaled_dot_product_attention(q, k, v, dropout_p=0.25), out)
    assert not torch.equal(F.scaled_dot_product_attention(q, k, v, dropout_p=0.25), out)


def test_choice_respects_sdpa_kernel_and_masks_with_gradient():
    q, k, v = (x.to("neuron").requires_grad_() for x in heads())
    assert torch._fused_sdp_choice(q, k, v) == SDPBackend.OVERRIDEABLE.value
    with sdpa_kernel([SDPBackend.MATH]):
        assert torch._fused_sdp_choice(q, k, v) == SDPBackend.MATH.value
    mask = torch.randn(5, 5).to("neuron").requires_grad_()
    assert torch._fused_sdp_choice(q, k, v, mask) == SDPBackend.MATH.value
    F.scaled_dot_product_attention(q, k, v, mask).sum().backward()
    assert mask.grad.shape == (5, 5)


def test_same_bits_for_any_number_of_threads():
    before = torch.get_num_threads()
    q, k, v = (x.to("neuron").requires_grad_() for x in heads(queries=130, keys=270, count=6, groups=2))
    results = []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            results.append([x.cpu() for x in (out, *torch.autograd.grad(out.sum(), (q, k, v)))])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], other))


def test_gradcheck():
    q, k, v = (x.double().to("neuron").requires_grad_() for x in heads(1, 3, 4, 2))
    assert torch.autograd.gradcheck(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v))
