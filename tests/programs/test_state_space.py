"""A selective state-space block: depthwise convolution, softplus, exp, cumsum, einsum, the scan as a loop."""

import pytest
import torch
from harness import Recipe, check_against_cpu, strict
from torch import nn
from torch.nn import functional as F

WIDTH, INNER, STATE, RANK, VOCABULARY = 24, 48, 8, 4, 40


class SelectiveStateSpace(nn.Module):
    def __init__(self, scan):
        super().__init__()
        self.scan = scan
        self.entry = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.conv = nn.Conv1d(INNER, INNER, 4, groups=INNER, padding=3)
        self.select = nn.Linear(INNER, RANK + 2 * STATE, bias=False)
        self.step = nn.Linear(RANK, INNER)
        nn.init.constant_(self.step.bias, -2.0)  # short steps at first: the running sums of decays stay small
        self.log_decay = nn.Parameter(torch.log(torch.arange(1, STATE + 1).float()).expand(INNER, STATE).clone())
        self.skip = nn.Parameter(torch.ones(INNER))
        self.exit = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        length = x.shape[1]
        x, gate = self.entry(x).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2))
        rank, b, c = self.select(x).split([RANK, STATE, STATE], dim=-1)
        step = F.softplus(self.step(rank))
        y = self.scan(x, step, -torch.exp(self.log_decay), b, c) + x * self.skip
        return self.exit(y * F.silu(gate))


def scan_by_loop(x, step, decay, b, c):
    """x, step: [B,T,I]; decay: [I,S]; b, c: [B,T,S]."""
    keep = torch.exp(torch.einsum("bti,is->btis", step, decay))
    feed = torch.einsum("bti,bts,bti->btis", step, b, x)
    state, out = torch.zeros_like(keep[:, 0]), []
    for t in range(x.shape[1]):
        state = keep[:, t] * state + feed[:, t]
        out.append(torch.einsum("bis,bs->bi", state, c[:, t]))
    return torch.stack(out, dim=1)


def scan_by_sums(x, step, decay, b, c):
    """The same with running sums of the logarithms, as parallel forms do."""
    log_keep = torch.einsum("bti,is->btis", step, decay).cumsum(1)
    feed = torch.einsum("bti,bts,bti->btis", step, b, x)
    state = torch.exp(log_keep) * torch.cumsum(feed * torch.exp(-log_keep), dim=1)
    return torch.einsum("btis,bts->bti", state, c)


class Model(nn.Module):
    def __init__(self, scan):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(SelectiveStateSpace(scan) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block, norm in zip(self.blocks, self.norms):
            x = x + block(norm(x))
        return self.norms[2](x) @ self.embedding.weight.t()


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


@pytest.fixture(scope="module")
def batches():
    generator = torch.Generator().manual_seed(1)
    return [[torch.randint(VOCABULARY, (2, 13), generator=generator)] for _ in range(2)]


@pytest.mark.parametrize("scan", [scan_by_loop, scan_by_sums])
def test_trains(batches, scan):
    check_against_cpu(lambda: Model(scan), loss_of, batches, Recipe(clip=1.0))


def test_bf16(batches):
    check_against_cpu(lambda: Model(scan_by_loop), loss_of, batches, Recipe(autocast=torch.bfloat16))


def test_scans_agree(batches):
    with strict():
        torch.manual_seed(0)
        model = Model(scan_by_loop).to("neuron")
        tokens = batches[0][0].to("neuron")
        by_loop = model(tokens)
        for block in model.blocks:
            block.scan = scan_by_sums
        torch.testing.assert_close(model(tokens), by_loop, rtol=1e-4, atol=1e-4)
