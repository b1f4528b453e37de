"""Trains a character-level GPT on seven plays of Shakespeare: plain PyTorch with a --device flag.

    python examples/train_gpt.py                       # on the neuron device, about a minute on two cores
    python examples/train_gpt.py --device cpu          # the same lines on PyTorch's own CPU backend
    python examples/train_gpt.py --preset 14m --dtype bf16

Prints the validation loss, a passage written by the model and the number of operators that ran on the host instead of
the device, and writes the loss curve to out/loss.png.
"""

import argparse
import math
import pathlib
import sys
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

IMPORTED = time.perf_counter()

HERE = pathlib.Path(__file__).resolve().parent


@dataclass
class Preset:
    layers: int
    heads: int
    width: int
    context: int
    batch: int
    steps: int
    dropout: float
    learning_rate: float = 1e-3
    warmup: int = 100


PRESETS = {
    "demo": Preset(layers=4, heads=4, width=128, context=64, batch=12, steps=2000, dropout=0.0),
    "14m": Preset(layers=6, heads=6, width=384, context=256, batch=12, steps=2000, dropout=0.2),
}


class Attention(nn.Module):
    def __init__(self, preset):
        super().__init__()
        self.heads, self.dropout = preset.heads, preset.dropout
        self.qkv = nn.Linear(preset.width, 3 * preset.width)
        self.out = nn.Linear(preset.width, preset.width)
        self.out_dropout = nn.Dropout(preset.dropout)

    def forward(self, x):
        batch, time_, width = x.shape
        q, k, v = (part.view(batch, time_, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out_dropout(self.out(y.transpose(1, 2).reshape(batch, time_, width)))


class Block(nn.Module):
    def __init__(self, preset):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(preset.width), Attention(preset)
        self.norm2 = nn.LayerNorm(preset.width)
        self.mlp = nn.Sequential(nn.Linear(preset.width, 4 * preset.width), nn.GELU(),
                                 nn.Linear(4 * preset.width, preset.width), nn.Dropout(preset.dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, preset, vocabulary):
        super().__init__()
        self.context = preset.context
        self.token = nn.Embedding(vocabulary, preset.width)
        self.position = nn.Embedding(preset.context, preset.width)
        self.dropout = nn.Dropout(preset.dropout)
        self.blocks = nn.Sequential(*(Block(preset) for _ in range(preset.layers)))
        self.norm = nn.LayerNorm(preset.width)
        self.head = nn.Linear(preset.width, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("attention.out.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * preset.layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets=None):
        position = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(position))
        logits = self.head(self.norm(self.blocks(x)))
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, tokens, count, temperature=0.8, top_k=40):
        for _ in range(count):
            logits = self(tokens[:, -self.context:])[:, -1] / temperature
            values, choices = logits.topk(top_k)
            choice = torch.multinomial(values.softmax(-1), 1)
            tokens = torch.cat([tokens, choices.gather(1, choice)], dim=1)
        return tokens


class Text:
    """The plays as numbers; the last tenth is for validation."""

    def __init__(self, path, preset, device):
        text = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8)
        codes, data = text.unique(return_inverse=True)
        self.characters = [chr(code) for code in codes]
        self.number = {c: i for i, c in enumerate(self.characters)}
        self.train, self.validation = data[:len(data) * 9 // 10], data[len(data) * 9 // 10:]
        self.preset, self.device = preset, device

    def batch(self):
        """Random windows of the training split, and the same one character on."""
        start = torch.randint(len(self.train) - self.preset.context, (self.preset.batch, 1))
        index = start + torch.arange(self.preset.context)
        return self.train[index].to(self.device), self.train[index + 1].to(self.device)

    def validation_batches(self, size=32):
        """The validation split, each character predicted once."""
        length = (len(self.validation) - 1) // self.preset.context * self.preset.context
        x, y = (self.validation[i:i + length].view(-1, self.preset.context) for i in (0, 1))
        for x, y in zip(x.split(size), y.split(size)):
            yield x.to(self.device), y.to(self.device)

    def decode(self, numbers):
        return "".join(self.characters[i] for i in numbers)


class Progress:
    """A bar with loss and tokens per second: redrawn on a terminal, a line now and then elsewhere."""

    def __init__(self, steps, tokens_per_step):
        self.steps, self.tokens_per_step = steps, tokens_per_step
        self.terminal = sys.stdout.isatty()
        self.began = self.mark_time = time.perf_counter()
        self.mark_step, self.last_line = 0, 0

    def show(self, step, loss):
        now = time.perf_counter()
        rate = (step - self.mark_step) * self.tokens_per_step / max(now - self.mark_time, 1e-9)
        self.mark_time, self.mark_step = now, step
        done = int(30 * step / self.steps)
        line = (f"step {step:>5}/{self.steps} [{'#' * done}{'.' * (30 - done)}] "
                f"loss {loss:.3f}  {rate:>9,.0f} tokens/s  {now - self.began:5.1f} s")
        if self.terminal:
            print(f"\r{line}", end="" if step < self.steps else "\n", flush=True)
        elif step * 20 // self.steps > self.last_line:
            self.last_line = step * 20 // self.steps
            print(line, flush=True)


def learning_rate(step, preset, steps):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < preset.warmup:
        return preset.learning_rate * (step + 1) / preset.warmup
    progress = (step - preset.warmup) / max(1, steps - preset.warmup)
    return preset.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def make_optimizer(model):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))


def train_step(model, optimizer, x, y, autocast):
    with autocast:
        loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def validate(model, text, autocast):
    model.eval()
    total = count = 0
    for x, y in text.validation_batches():
        with autocast:
            total += model(x, y).item() * y.numel()
        count += y.numel()
    model.train()
    return total / count


def train(model, text, preset, steps, autocast):
    """Returns [(step, loss)] of the training batches, every tenth step."""
    optimizer = make_optimizer(model)
    progress = Progress(steps, preset.batch * preset.context)
    curve = []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step - 1, preset, steps)
        loss = train_step(model, optimizer, *text.batch(), autocast)
        if step == 1:
            loss.item()
            print(f"first step done {time.perf_counter() - IMPORTED:.2f} s after `import torch`", flush=True)
        if step % 10 == 0 or step == steps:
            curve.append((step, loss.item()))
            progress.show(step, curve[-1][1])
    return curve


def draw(curve, validation_loss, title, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    steps, losses = zip(*curve)
    smooth = [sum(losses[max(0, i - 9):i + 1]) / len(losses[max(0, i - 9):i + 1]) for i in range(len(losses))]
    axes.plot(steps, losses, color="#9ecae1", linewidth=0.8, label="training batch")
    axes.plot(steps, smooth, color="#08519c", label="training, mean of the last 100 steps")
    axes.axhline(validation_loss, color="#d94801", linestyle="--", label=f"validation {validation_loss:.3f}")
    axes.set(xlabel="step", ylabel="loss (nats per character)", title=title)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def report_fallback():
    """Says which operators ran on the host; returns their number."""
    report = torch.neuron.fallback_report()
    total = sum(row["count"] for row in report)
    print(f"ops that fell back to the host: {total}")
    if total:
        print(report)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--preset", choices=PRESETS, default="demo")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, help="training steps, if not the preset's")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--characters", type=int, default=400, help="length of the generated passage")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "out")
    args = parser.parse_args()
    if args.steps is not None and args.steps < 1:
        parser.error("--steps must be at least 1")
    args.out.mkdir(parents=True, exist_ok=True)  # now, not after an hour of training

    torch.manual_seed(args.seed)
    device, preset = torch.device(args.device), PRESETS[args.preset]
    steps = preset.steps if args.steps is None else args.steps
    text = Text(HERE / "data" / "shakespeare.txt", preset, device)
    model = GPT(preset, len(text.characters)).to(device)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.dtype == "bf16")
    count = sum(p.numel() for p in model.parameters())
    title = f"{preset.layers} layers, {preset.width} wide, {count / 1e6:.1f} M parameters, {args.dtype} on {device.type}"
    print(title, flush=True)

    curve = train(model, text, preset, steps, autocast)
    validation_loss = validate(model, text, autocast)
    print(f"validation loss {validation_loss:.4f}")

    start = torch.tensor([[text.number["\n"]]], device=device)
    model.eval()
    with autocast:
        written = model.generate(start, args.characters)
    print("-" * 80, text.decode(written[0].tolist()).strip(), "-" * 80, sep="\n")

    draw(curve, validation_loss, title, args.out / "loss.png")
    print(f"loss curve: {args.out / 'loss.png'}")
    return device.type == "neuron" and report_fallback() > 0


if __name__ == "__main__":
    sys.exit(main())
