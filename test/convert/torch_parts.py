"""Small networks for torch_models.py: what users build of torch.nn."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Tuple(nn.Module):
    """A detector of torchvision with tensors as results."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return tuple(self.model(images)[0].values())


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(16, 12, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y, (h, _) = self.layer(packed)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0], h


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(100, 16), nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        y, (h, _) = self.layer(self.embedding(x))
        return F.log_softmax(self.head(y), -1), self.head(torch.cat([h[-2], h[-1]], 1)).argmax(1)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(16, 12), nn.GRUCell(12, 8), nn.RNNCell(8, 6)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 12)
        c, g, r = torch.zeros_like(h), torch.zeros(x.shape[0], 8), torch.zeros(x.shape[0], 6)
        for _ in range(3):
            h, c = self.lstm(x, (h, c))
            g = self.gru(h, g)
            r = self.rnn(g, r)
        return r, c


def encoder(**arguments):
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **arguments), 2, enable_nested_tensor=False
    )


def decoder():
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 2)


class MaskedEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = encoder()

    def forward(self, x, known):
        return self.encoder(x, src_key_padding_mask=~known)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(100, 16), nn.Embedding(100, 16)
        self.model, self.head = nn.Transformer(16, 4, 2, 2, 32, batch_first=True), nn.Linear(16, 100)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.head(self.model(self.source(x), self.target(y), tgt_mask=mask))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True)

    def forward(self, x, y):
        return self.layer(x, y, y)


def past(batch, length):
    return tuple((torch.randn(batch, 4, length, 8), torch.randn(batch, 4, length, 8)) for _ in range(2))


class GptBlock(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x, past):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).split(c, 2))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        length = k.shape[2]
        mask = torch.ones(length, length, dtype=torch.bool).tril()[length - n : length]
        y = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm_2(x)), (k, v)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.place = nn.Embedding(100, 32), nn.Embedding(64, 32)
        self.blocks, self.norm = nn.ModuleList([GptBlock(), GptBlock()]), nn.LayerNorm(32)

    def forward(self, ids, past=None):
        before = 0 if past is None else past[0][0].shape[2]
        places = torch.arange(before, before + ids.shape[1])
        x, present = self.embedding(ids) + self.place(places), []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, None if past is None else past[i])
            present.append(kept)
        return F.linear(self.norm(x), self.embedding.weight), present


class Llama(nn.Module):
    """Rotated queries and keys, grouped keys, RMS norms, SwiGLU, scaled_dot_product_attention."""

    def __init__(self, width=32, heads=4, groups=2):
        super().__init__()
        self.embedding, self.heads, self.groups, self.size = nn.Embedding(100, width), heads, groups, width // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k = nn.Linear(width, width, False), nn.Linear(width, groups * self.size, False)
        self.v, self.o = nn.Linear(width, groups * self.size, False), nn.Linear(width, width, False)
        self.gate, self.up, self.down = (
            nn.Linear(width, 64, False),
            nn.Linear(width, 64, False),
            nn.Linear(64, width, False),
        )

    def rotate(self, x):
        n = x.shape[2]
        angles = torch.outer(torch.arange(n).float(), 1e4 ** (-torch.arange(0, self.size, 2).float() / self.size))
        angles = torch.cat([angles, angles], -1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def forward(self, ids):
        x = self.embedding(ids)
        b, n, c = x.shape
        y = self.norm_1(x)
        q = self.rotate(self.q(y).view(b, n, self.heads, self.size).transpose(1, 2))
        k = self.rotate(self.k(y).view(b, n, self.groups, self.size).transpose(1, 2))
        v = self.v(y).view(b, n, self.groups, self.size).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.place, self.kind = nn.Embedding(100, 32), nn.Embedding(64, 32), nn.Embedding(2, 32)
        self.norm, self.pool, self.head = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 2)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, ids, mask):
        places = torch.arange(ids.shape[1]).unsqueeze(0).expand(ids.shape)
        x = self.norm(self.embedding(ids) + self.place(places) + self.kind(torch.zeros_like(ids)))
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, 4, 8).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = self.norm(x + self.o(y.permute(0, 2, 1, 3).contiguous().view(b, n, c)))
        x = self.norm(x + self.mlp(x))
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)
        return self.head(torch.tanh(self.pool(x[:, 0]))), F.normalize(mean, p=2, dim=1)


def norm(kind, channels):
    return {
        "batch": nn.BatchNorm2d,
        "instance": lambda c: nn.InstanceNorm2d(c, affine=True),
        "group": lambda c: nn.GroupNorm(4, c),
    }[kind](channels)


class Unet(nn.Module):
    def __init__(self, kind, up="transposed"):
        super().__init__()
        block = lambda i, o: nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            norm(kind, o),
            nn.LeakyReLU(0.1),
            nn.Conv2d(o, o, 3, padding=1),
            norm(kind, o),
            nn.SiLU(),
        )
        self.down_1, self.down_2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        rise = lambda i, o: (
            nn.ConvTranspose2d(i, o, 2, 2)
            if up == "transposed"
            else nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(i, o, 1))
        )
        self.rise_2, self.rise_1 = rise(32, 16), rise(16, 8)
        self.up_2, self.up_1, self.head = block(32, 16), block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down_1(x)
        b = self.down_2(F.max_pool2d(a, 2))
        y = self.rise_2(self.middle(F.max_pool2d(b, 2)))
        y = self.rise_1(self.up_2(torch.cat([b, y], 1)))
        dy, dx = a.shape[2] - y.shape[2], a.shape[3] - y.shape[3]
        y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return torch.sigmoid(self.head(self.up_1(torch.cat([a, y], 1))))


class Diffusion(nn.Module):
    """A block of a diffusion model: time embedding, group norms, attention over pixels, nearest upsampling."""

    def __init__(self, c=16):
        super().__init__()
        self.first, self.norm_1, self.norm_2 = nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 2 * c))
        self.conv_1, self.conv_2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.down, self.up = nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(c, c, 3, padding=1)
        self.norm_3, self.qkv, self.out = nn.GroupNorm(4, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)
        self.last, self.c = nn.Conv2d(2 * c, 3, 3, padding=1), c

    def embed(self, t):
        angles = t[:, None].float() * torch.exp(torch.arange(self.c // 2) * (-math.log(1e4) / (self.c // 2)))[None]
        return torch.cat([angles.sin(), angles.cos()], -1)

    def attend(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm_3(x)).reshape(b, 3, 2, c // 2, h * w).unbind(1)
        weights = torch.softmax(torch.einsum("bhcn,bhcm->bhnm", q, k) * (c // 2) ** -0.5, -1)
        y = torch.einsum("bhnm,bhcm->bhcn", weights, v).reshape(b, c, h, w)
        return x + self.out(y)

    def forward(self, x, t):
        x = self.first(x)
        scale, shift = self.time(self.embed(t))[:, :, None, None].chunk(2, 1)
        y = self.conv_1(F.silu(self.norm_1(x)))
        y = x + self.conv_2(F.silu(self.norm_2(y) * (1 + scale) + shift))
        z = self.attend(self.down(y))
        z = self.up(F.interpolate(z, scale_factor=2.0, mode="nearest"))
        return self.last(torch.cat([y, z], 1))


def super_resolution():
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, padding=2),
        nn.PReLU(16),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.PReLU(),
        nn.Conv2d(16, 12, 3, padding=1),
        nn.PixelShuffle(2),
        nn.PixelUnshuffle(4),
        nn.PixelShuffle(4),
    )


def dcgan():
    layers, widths = [], [20, 32, 16, 8]
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += [
            nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(True),
        ]
    return nn.Sequential(
        *layers,
        nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1, groups=2),
        nn.ConvTranspose2d(4, 3, 3, 1, 2, dilation=2),
        nn.Tanh()
    )


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 7), nn.MaxPool2d(2, stride=2), nn.ReLU(True), nn.Flatten(), nn.Linear(8 * 9 * 9, 6)
        )

    def forward(self, x):
        grid = F.affine_grid(self.net(x).view(-1, 2, 3), list(x.shape), align_corners=False)
        return (
            F.grid_sample(x, grid, align_corners=False),
            F.grid_sample(x, grid, padding_mode="border", align_corners=True),
            F.grid_sample(x, grid, mode="nearest", padding_mode="reflection", align_corners=False),
            F.grid_sample(x, grid, mode="bicubic", align_corners=False),
        )


class Resizes(nn.Module):
    def forward(self, x):
        size = [x.shape[2] * 3 // 2, x.shape[3] * 2]
        return (
            F.interpolate(x, scale_factor=2, mode="nearest"),
            F.interpolate(x, size=size, mode="nearest"),
            F.interpolate(x, size=size, mode="bilinear"),
            F.interpolate(x, size=size, mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=1.5, mode="bicubic"),
            F.interpolate(x, size=(7, 5), mode="area"),
            F.interpolate(x, size=(7, 5), mode="bilinear", antialias=True),
        )


class Pads(nn.Module):
    def forward(self, x):
        return (
            F.pad(x, (1, 2, 3, 4)),
            F.pad(x, (1, 2, 3, 4), value=-1.5),
            F.pad(x, (1, 2, 3, 4), "reflect"),
            F.pad(x, (1, 2, 3, 4), "replicate"),
            F.pad(x, (1, 2, 3, 4), "circular"),
            F.pad(x, (-1, -2, 0, -1)),
            torch.roll(x, (2, -3), (2, 3)),
            torch.flip(x, [2, 3]),
        )


class Pools(nn.Module):
    def forward(self, x):
        largest, places = F.max_pool2d(x, 2, return_indices=True)
        return (
            largest,
            F.max_unpool2d(largest, places, 2),
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True),
            F.adaptive_avg_pool2d(x, (6, 4)),
            F.adaptive_max_pool2d(x, 3),
            F.lp_pool2d(x, 2, 2),
            F.adaptive_avg_pool2d(x, 1),
            F.local_response_norm(x, 3),
            F.unfold(x, 3, padding=1, stride=2),
            F.max_pool2d(x, 3, 1, 1, dilation=2),
        )


def style():
    block = lambda i, o, k, s: [
        nn.ReflectionPad2d(k // 2),
        nn.Conv2d(i, o, k, s),
        nn.InstanceNorm2d(o, affine=True),
        nn.ReLU(),
    ]
    return nn.Sequential(
        *block(3, 8, 9, 1),
        *block(8, 16, 3, 2),
        nn.Upsample(scale_factor=2),
        *block(16, 8, 3, 1),
        nn.ReflectionPad2d(4),
        nn.Conv2d(8, 3, 9)
    )


class Yolo(nn.Module):
    """Two heads, decoded on grids of their own sizes."""

    def __init__(self):
        super().__init__()
        conv = lambda i, o, s: nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.SiLU())
        self.a, self.b = nn.Sequential(conv(3, 8, 2), conv(8, 16, 2), conv(16, 16, 2)), conv(16, 32, 2)
        self.pool = nn.ModuleList([nn.MaxPool2d(k, 1, k // 2) for k in (5, 9)])
        self.heads = nn.ModuleList([nn.Conv2d(48, 3 * 8, 1), nn.Conv2d(32, 3 * 8, 1)])
        self.register_buffer("anchors", torch.rand(2, 1, 3, 1, 1, 2) * 20)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        b = b + sum(p(b) for p in self.pool)
        a = torch.cat([a, F.interpolate(b, scale_factor=2, mode="nearest")], 1)
        found = []
        for i, (y, head) in enumerate(zip((a, b), self.heads)):
            y = head(y)
            n, _, h, w = y.shape
            y = y.view(n, 3, 8, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack([columns, rows], 2).expand(1, 3, h, w, 2).float()
            places = (y[..., :2] * 2 - 0.5 + grid) * (8 << i)
            sizes = (y[..., 2:4] * 2) ** 2 * self.anchors[i]
            found.append(torch.cat([places, sizes, y[..., 4:]], -1).view(n, -1, 8))
        return torch.cat(found, 1)


def wav2vec_front():
    layers = []
    for i, (kernel, stride) in enumerate([(10, 5), (3, 2), (3, 2), (2, 2)]):
        layers += [nn.Conv1d(16 if i else 1, 16, kernel, stride, bias=False)]
        layers += [nn.GroupNorm(16, 16)] if not i else []
        layers += [nn.GELU()]
    return nn.Sequential(
        *layers, nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 16, 16, padding=8, groups=4)), nn.GELU()
    )


def conv1d():
    return nn.Sequential(
        nn.Conv1d(6, 12, 5, padding=2),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(12, 12, 3, groups=12),
        nn.ReLU6(),
        nn.AvgPool1d(2),
        nn.Conv1d(12, 16, 3, dilation=2),
        nn.ELU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


class Tcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(6, 6, 3, dilation=d) for d in (1, 2, 4)])

    def forward(self, x):
        for layer in self.layers:
            y = F.pad(x, (2 * layer.dilation[0], 0))
            x = x + F.gelu(layer(y)) * torch.sigmoid(F.glu(torch.cat([y, y], 1), 1)[..., : x.shape[-1]])
        return x, x.cumsum(-1), x.std(-1), x.topk(3, -1)[0]


def vocoder():
    return nn.Sequential(
        nn.Conv1d(16, 16, 7, padding=3),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(16, 8, 8, 4, 2),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(8, 4, 4, 2, 1),
        nn.LeakyReLU(),
        nn.Conv1d(4, 1, 7, padding=3),
        nn.Tanh(),
    )


class Spectrogram(nn.Module):
    def forward(self, x):
        z = torch.stft(x, 64, 32, window=torch.hann_window(64), return_complex=False, center=False)
        return torch.log1p(z.pow(2).sum(-1))


def mlp():
    return nn.Sequential(
        nn.Linear(10, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(32, 16),
        nn.LayerNorm(16),
        nn.Tanh(),
        nn.Linear(16, 3),
        nn.Softmax(1),
    )


class Activations(nn.Module):
    FUNCTIONS = [
        F.relu,
        F.relu6,
        F.elu,
        F.selu,
        F.celu,
        F.gelu,
        F.silu,
        F.mish,
        F.softplus,
        F.softsign,
        F.hardswish,
        F.hardsigmoid,
        F.hardtanh,
        F.leaky_relu,
        F.logsigmoid,
        F.tanhshrink,
        F.softshrink,
        F.hardshrink,
        F.threshold,
        F.softmin,
        torch.sigmoid,
        torch.tanh,
        F.log_softmax,
    ]

    def forward(self, x):
        more = {F.threshold: (0.1, -2.0), F.softmin: (1,), F.log_softmax: (1,)}
        return tuple(f(x, *more.get(f, ())) for f in self.FUNCTIONS) + (
            F.gelu(x, approximate="tanh"),
            F.normalize(x),
            F.softmax(x, 0),
        )


class Indexing(nn.Module):
    def forward(self, x, i):
        b = torch.arange(x.shape[0])
        y = x.clone()
        y[:, 1:3] = 0.5
        y[:, ::2, -1] += 1
        z = x.clone()
        z[b, i[:, 0]] = 7
        return (
            x[b, i[:, 0]],
            x.gather(1, i[..., None].expand(-1, -1, 6)),
            x[:, -1],
            x[:, ::3],
            x[..., None, 2:],
            y,
            z,
            x.scatter(1, i[..., None].expand(-1, -1, 6), 1.0),
            x.masked_fill(x > 0, -1),
            torch.where(x > 0, x, x.mean(1, keepdim=True)),
            F.one_hot(i, 10),
            x.index_select(2, torch.tensor([3, 0, 3])),
            x.unfold(1, 4, 2),
            x.tril(),
            x.sort(1, descending=True)[0],
            x.argmax(1),
            x.max(1)[0],
            (x > 1).nonzero(),
            x[x > 1],
            x.repeat(1, 2, 3),
            x.permute(2, 0, 1).reshape(-1, 2),
            x.view(x.shape[0], -1),
            x.unbind(2)[1],
            torch.stack(x.split([2, 4], 2)[1:], 1),
            torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        )


class Mathematics(nn.Module):
    def forward(self, x):
        p = x.abs() + 0.1
        return (
            x.exp(),
            p.log(),
            p.sqrt(),
            p.rsqrt(),
            x.pow(3),
            x.sin(),
            x.cos(),
            torch.atan(x),
            torch.atan2(x, p),
            x.erf(),
            x.floor(),
            x.ceil(),
            x.round(),
            x.sign(),
            x.frac(),
            p.log2(),
            p.log10(),
            x.remainder(0.7),
            torch.fmod(x, 0.7),
            x.clamp(-1, 1),
            x.var(1),
            x.std(0, keepdim=True),
            x.prod(1),
            x.norm(dim=1),
            x.logsumexp(1),
            x.min(),
            x.cumsum(1),
            torch.cdist(x, x[:3]),
            x @ x.T,
            torch.addmm(x[:, :4], x, torch.ones(10, 4)),
            torch.einsum("ij,kj->ik", x, x),
            torch.bmm(x[None], x.T[None]),
            F.cosine_similarity(x, p),
            F.pairwise_distance(x, p),
            torch.lerp(x, p, 0.3),
            x.isnan(),
            x.logical_not(),
            (x > 0) & (x < 1),
            (x * 9).int() % 4,
            (x * 9).long() // 4,
            (x * 9).int() >> 1,
            x.double().sum(),
            x.half().float(),
            x.amax((0, 1)),
            x.any(),
            x.tan(),
            torch.linspace(0, 1, 5),
            torch.cross(x[:, :3], p[:, :3], dim=1),
            torch.outer(x[0], p[1]),
            torch.complex(x, p).abs(),
            x.nan_to_num(),
            x.sum(),
            F.bilinear(x, p, torch.ones(2, 10, 10)),
        )


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.bag = nn.Embedding(100, 8), nn.EmbeddingBag(100, 8, mode="mean")
        self.head = nn.Linear(8, 1)

    def forward(self, user, items):
        return torch.sigmoid(self.head(self.users(user[:, 0]) * self.bag(items)))


class GraphLayer(nn.Module):
    """Messages along edges, summed where they arrive."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, edges):
        y = self.layer(x)
        total = torch.zeros_like(y).index_add(0, edges[1], y[edges[0]])
        degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
        largest = torch.zeros_like(y).scatter_reduce(
            0, edges[1][:, None].expand(-1, 8), y[edges[0]], "amax", include_self=False
        )
        return F.relu(total / degree.clamp(min=1)[:, None]), largest
