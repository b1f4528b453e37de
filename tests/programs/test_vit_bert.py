"""A vision transformer and a BERT encoder: patch embedding, layer norm, GELU, boolean and float masks, dropout."""

import pytest
import torch
from harness import Recipe, check_against_cpu, strict, train
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, CLASSES = 48, 4, 5


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class EagerAttention(SelfAttention):
    """The same, written out: an additive mask, softmax, two batched products."""

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        if mask is not None:
            scores = scores + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Encoder(nn.Module):
    """Normalises before each part (ViT) or after it (BERT)."""

    def __init__(self, attention, first, approximate):
        super().__init__()
        self.attention, self.first = attention(), first
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask=None):
        if self.first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 17, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Encoder(SelfAttention, True, "none") for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class BERT(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.words = nn.Embedding(64, WIDTH, padding_idx=0)
        self.positions, self.segments = nn.Embedding(32, WIDTH), nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.blocks = nn.ModuleList(Encoder(attention, False, "tanh") for _ in range(2))
        self.boolean = attention is SelfAttention
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, words, segments):
        position = torch.arange(words.shape[1], device=words.device)
        x = self.norm(self.words(words) + self.positions(position) + self.segments(segments))
        mask = (words != 0)[:, None, None, :]
        if not self.boolean:
            mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, torch.finfo(x.dtype).min)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def image_loss(model, images, labels):
    return F.cross_entropy(model(images), labels)


def word_loss(model, words, segments, targets):
    """Masked-language loss: only the chosen words count."""
    return F.cross_entropy(model(words, segments).flatten(0, 1), targets.flatten(), ignore_index=-100)


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(4, 3, 16, 16, generator=generator), torch.randint(CLASSES, (4,), generator=generator))]


@pytest.fixture(scope="module")
def sentences():
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(1, 64, (3, 20), generator=generator)
    words[0, 15:], words[1, 11:] = 0, 0
    segments = (torch.arange(20) >= 8).long().expand(3, 20).contiguous()
    targets = torch.where((torch.rand(3, 20, generator=generator) < 0.4) & (words != 0), words, -100)
    return [(words, segments, targets)]


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=str)
def test_vit(images, dtype):
    check_against_cpu(ViT, image_loss, images, Recipe(autocast=dtype))


@pytest.mark.parametrize("attention", [SelfAttention, EagerAttention])
def test_bert(sentences, attention):
    check_against_cpu(lambda: BERT(attention), word_loss, sentences, Recipe(lambda p: torch.optim.Adam(p, lr=1e-3)))


def test_bert_fp16(sentences):
    recipe = Recipe(autocast=torch.float16, scaler=True, clip=1.0)
    check_against_cpu(lambda: BERT(SelfAttention), word_loss, sentences, recipe)


class Library(nn.Module):
    """torch.nn's own encoder."""

    def __init__(self, dropout):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


def library_loss(model, x, padding):
    return model(x, padding)[:, :5].square().mean()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_library_encoder(dropout):
    x = torch.randn(3, 9, WIDTH, generator=torch.Generator().manual_seed(1))
    padding = torch.arange(9).expand(3, 9) >= torch.tensor([[9], [6], [7]])
    batches = [(x, padding)]
    if dropout == 0:
        check_against_cpu(lambda: Library(0.0), library_loss, batches)
        return
    with strict():
        record, model = train(lambda: Library(dropout), library_loss, batches, "neuron", Recipe())
        assert all(loss == loss for loss in record.losses)
