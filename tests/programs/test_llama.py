"""A Llama-style model: RMS norm, rotary positions, grouped-query attention, SwiGLU, decoding with a KV cache, top-k."""

import pytest
import torch
from harness import Recipe, check_against_cpu, strict
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, HEADS, GROUPS, LAYERS, LENGTH = 96, 64, 4, 2, 2, 48
HEAD = WIDTH // HEADS


def rotary_table(length, device):
    frequency = 10000.0 ** (-torch.arange(0, HEAD, 2, device=device, dtype=torch.float32) / HEAD)
    angle = torch.outer(torch.arange(length, device=device, dtype=torch.float32), frequency)
    return torch.cat([angle, angle], dim=-1)


def rotate(x, angle):
    """x: [B,H,T,D]; pairs (i, i + D/2) turn by the angle of their position."""
    first, second = x.chunk(2, dim=-1)
    return x * angle.cos().to(x.dtype) + torch.cat([-second, first], dim=-1) * angle.sin().to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * HEAD, bias=False) for _ in range(2))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, angle, cache=None, position=None):
        batch, length, _ = x.shape
        q = rotate(self.q(x).view(batch, length, HEADS, HEAD).transpose(1, 2), angle)
        k = rotate(self.k(x).view(batch, length, GROUPS, HEAD).transpose(1, 2), angle)
        v = self.v(x).view(batch, length, GROUPS, HEAD).transpose(1, 2)
        mask = None
        if cache is not None:
            keys, values = cache
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            k, v = keys, values
            mask = torch.arange(keys.shape[2], device=x.device)[None, :] <= position[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class ManualRMSNorm(nn.Module):
    """As model libraries write it: statistics in fp32, the result in the input's type."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(WIDTH, eps=1e-6), Attention()
        self.norm2, self.mlp = ManualRMSNorm(WIDTH), SwiGLU()

    def forward(self, x, *rest):
        x = x + self.attention(self.norm1(x), *rest)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens, caches=None, position=None):
        angle = rotary_table(LENGTH, tokens.device)
        angle = angle[:tokens.shape[1]] if position is None else angle[position]
        x = self.embedding(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, angle, None if caches is None else caches[i], position)
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, prompt, count, choose):
        batch, device = prompt.shape[0], prompt.device
        caches = [[torch.zeros(batch, GROUPS, LENGTH, HEAD, device=device) for _ in range(2)] for _ in self.blocks]
        logits = self(prompt, caches, torch.arange(prompt.shape[1], device=device))[:, -1]
        written = []
        for i in range(count):
            token = choose(logits)
            written.append(token)
            logits = self(token, caches, torch.tensor([prompt.shape[1] + i], device=device))[:, -1]
        return torch.cat(written, dim=1)


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


@pytest.fixture(scope="module")
def batches():
    generator = torch.Generator().manual_seed(1)
    return [[torch.randint(VOCABULARY, (3, LENGTH), generator=generator)] for _ in range(2)]


@pytest.mark.parametrize("form", [{}, {"fused": True}], ids=str)
def test_trains(batches, form):
    check_against_cpu(Llama, loss_of, batches, Recipe(lambda p: torch.optim.AdamW(p, lr=1e-3, **form), clip=1.0))


def test_bf16(batches):
    check_against_cpu(Llama, loss_of, batches, Recipe(autocast=torch.bfloat16))


def test_bf16_weights(batches):
    """The whole model in bf16, without autocast."""
    def forward(model, tokens):
        return loss_of(model.bfloat16(), tokens)
    torch.manual_seed(0)
    reference = Llama().bfloat16()
    expected = loss_of(reference, batches[0][0])
    expected.backward()
    torch.manual_seed(0)
    model = Llama().to("neuron").bfloat16()
    with strict():
        loss = forward(model, batches[0][0].to("neuron"))
        loss.backward()
    assert abs(loss.item() - expected.item()) <= 1e-2 * abs(expected.item())
    for (name, p), q in zip(model.named_parameters(), reference.parameters()):
        assert p.grad.dtype == torch.bfloat16
        assert (p.grad.cpu() - q.grad).abs().max() <= 0.1 * q.grad.abs().max() + 1e-3, name


def greedy(logits):
    return logits.argmax(-1, keepdim=True)


def top_k(logits, k=5):
    values, choices = logits.topk(k)
    return choices.gather(1, torch.multinomial(values.softmax(-1), 1))


def test_decodes_with_cache(batches):
    torch.manual_seed(3)
    reference = Llama()
    prompt = batches[0][0][:, :7]
    expected = reference.generate(prompt, 24, greedy)
    with strict():
        model = Llama().to("neuron")
        model.load_state_dict(reference.state_dict())
        written = model.generate(prompt.to("neuron"), 24, greedy)
        full = model(torch.cat([prompt.to("neuron"), written], dim=1))
    assert torch.equal(written.cpu(), expected)
    # The cache changes nothing: the whole text at once predicts each of its characters.
    assert torch.equal(full[:, 6:-1].argmax(-1).cpu(), expected)


def test_top_k_sampling(batches):
    torch.manual_seed(3)
    model = Llama().to("neuron")
    prompt = batches[0][0][:, :7].to("neuron")
    with strict():
        torch.manual_seed(5)
        first = model.generate(prompt, 16, top_k)
        torch.manual_seed(5)
        second = model.generate(prompt, 16, top_k)
        allowed = model(torch.cat([prompt, first], dim=1))[:, 6:-1].topk(5).indices
    assert torch.equal(first.cpu(), second.cpu())
    assert (allowed.cpu() == first.cpu()[..., None]).any(-1).all()
