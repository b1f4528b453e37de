"""A training step of the demo's GPT, both presets, and how far the loss is from the CPU's over 200 steps."""

import contextlib
import pathlib
import sys
from dataclasses import replace

import torch
from common import DEVICES, Table, finish, versus

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import train_gpt as demo  # noqa: E402


def stepper(preset, device):
    torch.manual_seed(0)
    text = demo.Text(EXAMPLES / "data" / "shakespeare.txt", preset, device)
    model = demo.GPT(preset, len(text.characters)).to(device)
    optimizer = demo.make_optimizer(model)
    return lambda: demo.train_step(model, optimizer, *text.batch(), contextlib.nullcontext())


def loss_difference(steps=200):
    """Largest relative difference between the devices' losses."""
    losses = {}
    for device in DEVICES:
        step = stepper(demo.PRESETS["demo"], device)
        torch.manual_seed(1)
        losses[device] = [step().item() for _ in range(steps)]
    return max(abs(a - b) / b for a, b in zip(losses["neuron"], losses["cpu"]))


def main():
    table = Table("gpt_step")
    presets = {"demo": (demo.PRESETS["demo"], 20, 0.3, 1.2),
               "14m": (replace(demo.PRESETS["14m"], batch=4), 8, 0.0, 1.0)}
    for name, (preset, rounds, seconds, least) in presets.items():
        row = table.add(f"{name} step, fp32", versus(lambda device: stepper(preset, device), rounds, seconds))
        table.goal(f"{name} step, CPU's time over ours", row["ratio"], least=least)
    table.goal("loss over 200 steps, relative difference", loss_difference(), most=2e-5)
    finish(table)


if __name__ == "__main__":
    main()
