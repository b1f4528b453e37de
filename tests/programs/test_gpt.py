"""A nanoGPT-style GPT, the demo's own model: attention, GELU, layer norm, tied weights, AdamW in every form."""

import importlib.util
import pathlib
from dataclasses import replace

import pytest
import torch
from harness import Recipe, check_against_cpu, strict, train

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "train_gpt.py"
spec = importlib.util.spec_from_file_location("train_gpt", EXAMPLE)
demo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(demo)

SMALL = replace(demo.PRESETS["demo"], layers=2, width=64, context=32, batch=4)


def build(dropout=0.0):
    return demo.GPT(replace(SMALL, dropout=dropout), 72)


@pytest.fixture(scope="module")
def batches():
    torch.manual_seed(1)
    text = demo.Text(EXAMPLE.parent / "data" / "shakespeare.txt", SMALL, "cpu")
    return [text.batch() for _ in range(3)]


def loss_of(model, x, y):
    return model(x, y)


@pytest.mark.parametrize("form", [{}, {"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_adamw(batches, form):
    recipe = Recipe(lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.99), **form), clip=1.0, steps=6)
    check_against_cpu(build, loss_of, batches, recipe)


def test_bf16(batches):
    check_against_cpu(build, loss_of, batches, Recipe(autocast=torch.bfloat16, clip=1.0))


def test_fp16_with_scaler(batches):
    check_against_cpu(build, loss_of, batches, Recipe(autocast=torch.float16, scaler=True, clip=1.0))


def test_dropout(batches):
    """Dropout trains without a fallback, and one seed gives one result."""
    with strict():
        first, second = (train(lambda: build(0.2), loss_of, batches, "neuron", Recipe(steps=5))[0] for _ in range(2))
    assert first.losses == second.losses
    assert all(torch.equal(first.state[name], second.state[name]) for name in first.state)
    plain, _ = train(build, loss_of, batches, "cpu", Recipe(steps=5))
    assert first.losses != plain.losses and abs(first.losses[-1] - plain.losses[-1]) < 0.5


def test_ties_and_generation(batches):
    with strict():
        _, model = train(build, loss_of, batches, "neuron", Recipe(steps=2))
        assert model.head.weight is model.token.weight
        tokens = model.eval().generate(torch.zeros(2, 1, dtype=torch.int64, device="neuron"), 40)
        assert tokens.shape == (2, 41) and 0 <= int(tokens.min()) and int(tokens.max()) < 72
        greedy = model.generate(tokens[:, :4], 12, top_k=1)
    assert torch.equal(greedy.cpu(), model.cpu().generate(tokens[:, :4].cpu(), 12, top_k=1))


@pytest.mark.slow
def test_two_hundred_steps(batches):
    """The loss stays within 2e-5 of the CPU's over 200 steps on the text."""
    preset = demo.PRESETS["demo"]
    torch.manual_seed(1)
    text = demo.Text(EXAMPLE.parent / "data" / "shakespeare.txt", preset, "cpu")
    long = [text.batch() for _ in range(200)]
    recipe = Recipe(demo_optimizer, clip=1.0, steps=200)
    expected, _ = train(lambda: demo.GPT(preset, 72), loss_of, long, "cpu", recipe)
    with strict():
        actual, _ = train(lambda: demo.GPT(preset, 72), loss_of, long, "neuron", recipe)
    worst = max(abs(a - e) / e for a, e in zip(actual.losses, expected.losses))
    assert worst <= 2e-5, f"largest relative difference {worst:.2g}"


def demo_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.99))


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--steps", "-1"], ["--out", "/dev/null/x"]], ids=str)
def test_the_demo_refuses_bad_arguments_before_it_trains(arguments, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train_gpt.py", *arguments])
    monkeypatch.setattr(demo, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises((SystemExit, NotADirectoryError)):
        demo.main()
