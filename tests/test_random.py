"""Random numbers on the device: distributions, reproducibility, independence of threads and instruction set, errors."""

import hashlib
import os
import subprocess
import sys

import pytest
import scipy.stats
import torch

NEURON = torch.device("neuron", 0)
N = 20_000

DRAWS = {
    "uniform": (lambda x: x.uniform_(-2, 3), scipy.stats.uniform(-2, 5)),
    "normal": (lambda x: x.normal_(1, 2), scipy.stats.norm(1, 2)),
    "log_normal": (lambda x: x.log_normal_(0.5, 0.25), scipy.stats.lognorm(0.25, scale=2.718281828 ** 0.5)),
    "exponential": (lambda x: x.exponential_(1.5), scipy.stats.expon(scale=1 / 1.5)),
    "cauchy": (lambda x: x.cauchy_(0.5, 2), scipy.stats.cauchy(0.5, 2)),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distribution(name, dtype):
    draw, law = DRAWS[name]
    torch.manual_seed(7)
    x = draw(torch.empty(N, dtype=dtype, device=NEURON)).cpu().double().numpy()
    assert scipy.stats.kstest(x, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_discrete_laws(dtype):
    torch.manual_seed(3)
    geometric = torch.empty(N, dtype=dtype, device=NEURON).geometric_(0.3).cpu().double()
    assert geometric.min() == 1 and abs(geometric.mean() - 1 / 0.3) < 0.1
    coins = torch.empty(N, dtype=dtype, device=NEURON).bernoulli_(0.25).cpu().double()
    assert set(coins.unique().tolist()) == {0, 1} and abs(coins.mean() - 0.25) < 0.02
    numbers = torch.empty(N, dtype=dtype, device=NEURON).random_(3, 9).cpu().double()
    assert scipy.stats.chisquare(torch.bincount(numbers.long(), minlength=9)[3:].numpy()).pvalue > 1e-3


def test_random_ranges_of_dtypes():
    torch.manual_seed(0)
    for dtype, limit in ((torch.int8, 127), (torch.int16, 2**15 - 1), (torch.int32, 2**31 - 1), (torch.int64, 2**63 - 1),
                         (torch.float32, 2**24), (torch.bfloat16, 256), (torch.bool, 1)):
        x = torch.empty(5000, dtype=dtype, device=NEURON).random_().cpu()
        assert x.min() >= 0 and float(x.max().double()) > 0.9 * limit and float(x.max().double()) <= limit
    wide = torch.empty(2000, dtype=torch.int64, device=NEURON).random_(-2**63, None).cpu()
    assert wide.min() < -2**62 and wide.max() > 2**62


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_uniform_stays_inside(dtype):
    x = torch.empty(100_000, dtype=dtype, device=NEURON).uniform_().cpu()
    assert x.min() >= 0 and x.max() < 1
    assert abs(x.double().mean() - 0.5) < 0.01


def test_seed_state_and_generators():
    torch.manual_seed(11)
    a = torch.rand(9, device=NEURON).cpu()
    state = torch.neuron.get_rng_state()
    b = torch.randn(9, device=NEURON).cpu()
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.randn(9, device=NEURON).cpu(), b)
    torch.manual_seed(11)
    assert torch.equal(torch.rand(9, device=NEURON).cpu(), a)
    mine = torch.Generator("neuron").manual_seed(11)
    assert torch.equal(torch.rand(9, device=NEURON, generator=mine).cpu(), a)
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(2, device=NEURON, generator=torch.Generator())


def test_numbers_do_not_depend_on_layout():
    torch.manual_seed(1)
    plain = torch.empty(6, 8, device=NEURON).normal_().cpu()
    torch.manual_seed(1)
    turned = torch.empty(8, 6, device=NEURON).t().normal_().cpu()
    assert torch.equal(plain, turned)
    torch.manual_seed(1)
    longer = torch.empty(100, device=NEURON).normal_().cpu()
    assert torch.equal(longer[:48], plain.flatten())


SCRIPT = """
import hashlib, torch
torch.set_num_threads({threads})
torch.manual_seed(5)
digest = hashlib.sha256()
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    for draw in ("uniform_", "normal_", "exponential_", "cauchy_", "log_normal_"):
        x = getattr(torch.empty(70001, dtype=dtype, device="neuron"), draw)()
        digest.update(x.view(torch.uint8).cpu().numpy().tobytes())
digest.update(torch.randperm(1000, device="neuron").cpu().numpy().tobytes())
print(digest.hexdigest())
"""


def test_same_numbers_for_any_thread_count_and_instruction_set():
    digests = set()
    for isa in ("baseline", "avx2", "avx512"):
        for threads in (1, 2):
            run = subprocess.run([sys.executable, "-c", SCRIPT.format(threads=threads)], capture_output=True, text=True,
                                 env={**os.environ, "TN_ISA": isa}, timeout=120, check=True)
            digests.add(run.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())


def test_randperm_is_a_permutation():
    for n in (0, 1, 2, 1000):
        order = torch.randperm(n, device=NEURON)
        assert order.dtype == torch.int64 and order.cpu().sort().values.tolist() == list(range(n))
    assert torch.randperm(10, device=NEURON, dtype=torch.int32).dtype == torch.int32


def test_dropout_forward_and_backward():
    torch.manual_seed(2)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x = torch.ones(64, 100, dtype=dtype, device=NEURON, requires_grad=True)
        y = torch.nn.functional.dropout(x, 0.25)
        kept = y != 0
        assert abs(kept.cpu().float().mean() - 0.75) < 0.03
        assert torch.equal(y.detach().cpu(), (kept.cpu().to(dtype) * torch.tensor(1 / 0.75, dtype=dtype)))
        y.sum().backward()
        assert torch.equal((x.grad != 0).cpu(), kept.cpu())
    assert torch.nn.functional.dropout(torch.ones(5, device=NEURON), 1.0).cpu().tolist() == [0] * 5


def test_bernoulli_and_normal_with_tensors():
    torch.manual_seed(4)
    p = torch.tensor([0.0, 1.0, 0.5], device=NEURON).expand(4000, 3)
    means = torch.bernoulli(p).cpu().mean(0)
    assert means[0] == 0 and means[1] == 1 and abs(means[2] - 0.5) < 0.05
    mean, std = torch.tensor([0.0, 10.0]).to(NEURON).expand(4000, 2), torch.tensor([1.0, 0.1]).to(NEURON)
    x = torch.normal(mean, std).cpu()
    assert torch.allclose(x.mean(0), torch.tensor([0.0, 10.0]), atol=0.1)
    assert torch.allclose(x.std(0), torch.tensor([1.0, 0.1]), atol=0.05)


def test_multinomial():
    torch.manual_seed(6)
    p = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]], device=NEURON)
    draws = torch.multinomial(p, 20000, replacement=True).cpu()
    share = torch.stack([torch.bincount(row, minlength=3) / 20000 for row in draws])
    assert torch.allclose(share, torch.tensor([[0, 0.25, 0.75], [0.5, 0, 0.5]]), atol=0.02)
    firsts = torch.stack([torch.multinomial(p[0], 2).cpu() for _ in range(300)])
    assert set(firsts.flatten().tolist()) == {1, 2} and (firsts[:, 0] != firsts[:, 1]).all()
    assert 0.6 < (firsts[:, 0] == 2).float().mean() < 0.9


def test_multinomial_without_replacement_takes_the_impossible_last():
    p = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], device="neuron")
    drawn = torch.multinomial(p, 3).cpu()
    assert drawn.sort(1).values.tolist() == [[0, 1, 2]] * 2
    assert drawn[0, 0] == 1 and drawn[1, 2] == 1


@pytest.mark.parametrize("call, error", [
    (lambda x: x.uniform_(3, 1), RuntimeError),
    (lambda x: x.normal_(0, -1), RuntimeError),
    (lambda x: x.exponential_(-1), RuntimeError),
    (lambda x: x.geometric_(1.5), RuntimeError),
    (lambda x: x.bernoulli_(1.5), RuntimeError),
    (lambda x: x.random_(5, 5), RuntimeError),
    (lambda x: x.long().uniform_(), NotImplementedError),
    (lambda x: x.to(torch.int8).random_(0, 1000), RuntimeError),
    (lambda x: torch.bernoulli(x + 5).cpu(), RuntimeError),
    (lambda x: torch.multinomial(-x - 1, 1).cpu(), RuntimeError),
    (lambda x: torch.multinomial(x * 0, 1).cpu(), RuntimeError),
    (lambda x: torch.multinomial(x, 9).cpu(), RuntimeError),
])
def test_bad_arguments(call, error):
    with pytest.raises(error):
        call(torch.ones(4, device=NEURON))
    assert torch.rand(2, device=NEURON).shape == (2,)
