"""A diffusion U-Net: group norm, SiLU, down- and upsampling, transposed convolution, sinusoidal embedding, MSE."""

import math

import pytest
import torch
from harness import Recipe, check_against_cpu
from torch import nn
from torch.nn import functional as F

WIDTH = 16


def time_embedding(steps, width):
    """Sines and cosines of the time step: [B, width]."""
    frequency = torch.exp(-math.log(10000.0) * torch.arange(width // 2, device=steps.device) / (width // 2))
    angle = steps[:, None].float() * frequency[None]
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inputs), nn.GroupNorm(4, outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(4 * WIDTH, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class SpatialAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(4, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, height, across = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, 3, 2, width // 2, height * across).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(x.shape)
        return x + self.out(y)


class Up(nn.Module):
    """Twice the size, in one of the ways that models use."""

    def __init__(self, width, mode):
        super().__init__()
        self.mode = mode
        self.conv = nn.ConvTranspose2d(width, width, 4, 2, 1) if mode == "transpose" else nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        if self.mode == "transpose":
            return self.conv(x)
        corners = {"align_corners": False} if self.mode in ("bilinear", "bicubic") else {}
        return self.conv(F.interpolate(x, scale_factor=2, mode=self.mode, **corners))


class UNet(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, 4 * WIDTH))
        self.entry = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.left = Residual(WIDTH, WIDTH)
        self.down = nn.AvgPool2d(2) if mode == "nearest" else nn.Conv2d(WIDTH, WIDTH, 3, 2, 1)
        self.middle, self.attention = Residual(WIDTH, 2 * WIDTH), SpatialAttention(2 * WIDTH)
        self.up = Up(2 * WIDTH, mode)
        self.right = Residual(3 * WIDTH, WIDTH)
        self.exit = nn.Sequential(nn.GroupNorm(4, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, 3, 3, padding=1))

    def forward(self, x, steps):
        time = self.time(time_embedding(steps, WIDTH))
        left = self.left(self.entry(x), time)
        x = self.attention(self.middle(self.down(left), time))
        return self.exit(self.right(torch.cat([self.up(x), left], dim=1), time))


def loss_of(model, images, noise, steps):
    """The noise that was added is what the model must find."""
    beta = torch.linspace(1e-4, 0.02, 100, device=images.device)
    kept = torch.cumprod(1 - beta, 0)[steps][:, None, None, None]
    return F.mse_loss(model(kept.sqrt() * images + (1 - kept).sqrt() * noise, steps), noise)


@pytest.fixture(scope="module")
def batches():
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(2, 3, 16, 16, generator=generator), torch.randn(2, 3, 16, 16, generator=generator),
             torch.randint(100, (2,), generator=generator)) for _ in range(2)]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "transpose"])
def test_trains(batches, mode):
    check_against_cpu(lambda: UNet(mode), loss_of, batches, Recipe(clip=1.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(batches, dtype):
    recipe = Recipe(autocast=dtype, scaler=dtype == torch.float16, steps=3)
    check_against_cpu(lambda: UNet("transpose"), loss_of, batches, recipe)
