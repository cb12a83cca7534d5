"""Small operations of many kinds, each with the shapes of its arguments."""

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch.nn import functional

Shapes = Mapping[str, tuple[str | int, ...]]
MN: Shapes = {"x": ("M", "N")}
PAIR: Shapes = {"x": ("M", "N"), "y": ("M", "N")}
QKV: Shapes = {name: ("B", "H", "S", "D") for name in "qkv"}


SCALES = torch.tensor([1.0, -2.0, 0.5])


class Doubled(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2


def places(x: torch.Tensor, extent: int) -> torch.Tensor:
    """Return indices below an extent."""
    return (x.abs() * 2).floor().long().clamp(max=extent - 1)


def scanned(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Return the states of a linear recurrence over the rows of x, each from the two before it."""
    state, older, states = x[0], x[1], []
    for row in x:
        state, older = torch.tanh(a @ state / 9) + row + 0.5 * older, state
        states.append(state)
    return torch.stack(states)


def best_path(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Return the likeliest states of a chain, by the algorithm of Viterbi, for scores x [steps, states]."""
    score, backs = x[0], []
    for row in x[1:]:
        score, back = (score[:, None] + a).max(0)
        score = score + row
        backs.append(back)
    path = [score.argmax(0, keepdim=True)]
    for back in backs[::-1]:
        path.append(back[path[-1]])
    return torch.cat(path[::-1]).float()


def warped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the cost of warping x onto y."""
    row = (x[0] - y).abs().cumsum(0)
    for one in x:
        cells = [row[0] + (one - y[0]).abs()]
        for place in range(1, 8):
            cells.append(torch.minimum(torch.minimum(row[place], row[place - 1]), cells[-1]) + (one - y[place]).abs())
        row = torch.stack(cells)
    return row


CASES: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "activations": (
        lambda x: (
            functional.silu(x)
            + functional.mish(x)
            + functional.elu(x)
            + functional.hardswish(x)
            + functional.leaky_relu(x, 0.1)
            + functional.gelu(x, approximate="tanh")
        ),
        MN,
    ),
    "attention": (lambda q, k, v: functional.scaled_dot_product_attention(q, k, v), QKV),
    "causal": (lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), QKV),
    "bmm": (lambda x, y: torch.bmm(x, y), {"x": ("B", "M", "K"), "y": ("B", "K", "N")}),
    "einsum": (lambda x, y: torch.einsum("bik,bjk->bij", x, y), {"x": ("B", "M", "K"), "y": ("B", "N", "K")}),
    "linear": (
        lambda x, w, b: functional.gelu(functional.linear(x, w, b)),
        {"x": ("B", "M", "K"), "w": ("N", "K"), "b": ("N",)},
    ),
    "mlp": (lambda x, y, z: functional.relu(x @ y) @ z, {"x": ("M", "K"), "y": ("K", "H"), "z": ("H", "N")}),
    "gated": (lambda x, y, z: functional.silu(x @ y) * (x @ z), {"x": ("M", "K"), "y": ("K", "N"), "z": ("K", "N")}),
    "layernorm": (lambda x: functional.layer_norm(x, x.shape[-1:]), MN),
    "group_norm": (
        lambda x, y, z: functional.group_norm(x, 2, y, z),
        {"x": ("B", 6, "M", "N"), "y": (6,), "z": (6,)},
    ),
    "batch_norm": (
        lambda x: functional.batch_norm(x, torch.zeros(4), torch.ones(4), training=True),
        {"x": ("M", 4, "N")},
    ),
    "log_softmax": (lambda x: functional.log_softmax(x, 0), MN),
    "cross_entropy": (lambda x, y: functional.cross_entropy(x, y), PAIR),
    "spread": (lambda x: (x.std(-1), x.var(0, unbiased=False), x.amin(0, keepdim=True)), MN),
    "where": (lambda x, y: torch.where(x > y, x, y.clamp(-0.5, 0.5)).masked_fill(y < 0, 3.0), PAIR),
    "views": (lambda x: x.reshape(-1, x.shape[2]).T.reshape(x.shape[0], -1)[:, 1:] * 2, {"x": ("B", "M", "N")}),
    "parts": (lambda x: x.split([2, 3], 1)[1] * x[:, :1] + x.unbind(1)[0][:, None] + x[:, 4, None], {"x": ("M", 5)}),
    "rotary": (lambda x: torch.cat((-x[:, 1], x[:, 0]), -1), {"x": ("B", 2, "N")}),
    "joined": (lambda x, y: torch.cat((x, y.exp(), x.T.contiguous().T * 2), 0), PAIR),
    "shifted": (lambda x: torch.cat((x[:, -1:], x[:, :-1]), 1) + torch.cat((x[1:], x[:1])), MN),
    "rolled": (lambda x: x.roll(3, 1) * x.roll((-2, 1), (0, 1)), MN),
    "reversed": (lambda x: x.flip(-1) + x.flip((0, 1)) * x[:, 1:].flip(1)[:, :1], MN),
    "likeness": (lambda x, y: functional.cosine_similarity(x, y, dim=1), PAIR),
    "distances": (
        lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1.0), torch.cdist(x, y, p=3.0)),
        {"x": ("M", "K"), "y": ("N", "K")},
    ),
    "triangle": (lambda x: torch.tril(x) @ x.T, {"x": ("N", "N")}),
    "scaled": (lambda x: x / x.norm(dim=-1, keepdim=True) / x.shape[0], MN),
    "mixed": (lambda x, y: (x.mean(), torch.softmax(x * y, 0), x.amax(1, keepdim=True)), PAIR),
    "transposed": (lambda x: x.T, MN),
    "convolution": (
        lambda x, y, z: functional.relu(functional.conv1d(x, y, z, padding=3, dilation=2)),
        {"x": ("B", "K", "N"), "y": ("M", "K", 4), "z": ("M",)},
    ),
    "strided": (
        lambda x, y: functional.conv2d(x, y, stride=(1, 2), padding=(1, 0), groups=2),
        {"x": ("B", 4, "N", 9), "y": (6, 2, 3, 3)},
    ),
    "transposed_convolution": (
        lambda x, y, z: functional.conv_transpose2d(x, y, z, (2, 1), (1, 0), (1, 0), 1, (2, 1)),
        {"x": ("B", 4, "N", 5), "y": (4, "M", 3, 2), "z": ("M",)},
    ),
    "windows_in_steps": (
        lambda x, y: functional.group_norm(functional.conv2d(x, y, stride=2, padding=1), 2),
        {"x": ("B", 2, "M", "N"), "y": (4, 2, 3, 3)},
    ),
    "pooled_after_windows": (
        lambda x, y: functional.max_pool1d(functional.conv1d(x, y, padding=1, stride=3).relu(), 2, 2, 1),
        {"x": ("B", 2, "N"), "y": ("M", 2, 3)},
    ),
    "two_convolutions": (
        lambda x, y, z: functional.conv1d(functional.conv1d(x, y, padding=1), z, padding=1),
        {"x": ("B", 4, "N"), "y": (4, 4, 3), "z": (4, 4, 3)},
    ),
    "causal_convolution": (
        lambda x, y: functional.conv1d(x, y, padding=y.shape[2] - 1, groups=2)[..., : x.shape[2]],
        {"x": ("B", 4, "N"), "y": (6, 2, "K")},
    ),
    "volumes": (lambda x, y: functional.conv3d(x, y), {"x": ("B", 2, "N", 4, 5), "y": (3, 2, 1, 2, 3)}),
    "pooled": (
        lambda x: (
            functional.avg_pool2d(x, 3, 2, 1),
            functional.avg_pool2d(x, 7, 2, 3),
            functional.max_pool2d(x, (2, 3), padding=(1, 0)),
        ),
        {"x": ("B", "M", 8, 9)},
    ),
    "sorted": (lambda x: (x.sort(0)[0], x.topk(2, 1, largest=False)[0], x.median(1)[0]), MN),
    "ordered": (
        lambda x: tuple(
            x.round().where(x.abs() < 1.5, math.nan).sort(stable=True, dim=dim, descending=descending)[1].float()
            for dim in (0, 1)
            for descending in (False, True)
        ),
        MN,
    ),
    "columns": (lambda x: x.sum(0), MN),
    "largest": (
        lambda x: (
            *(each.float() for each in (*x.max(1), *x.round().min(0, keepdim=True))),
            x.argmax(-1) * 2.0,
            x.argmin() + x[0],
        ),
        MN,
    ),
    "scanned": (lambda x: (x.cumsum(1), x.cumsum(0) * x, x.cumprod(-1).exp().cumsum(0), x.sum(0).cumsum(0)), MN),
    "looked_up_by_remainder": (
        lambda x, y: (
            x[:, y[0].abs().long() % 3] + x[y[:, 0].abs().long() % 2][:, :1],
            x.exp().gather(1, y.abs().long() % 3),
            functional.embedding(y.abs().long() % 3, x).sum(1),
        ),
        PAIR,
    ),
    "reflected": (
        lambda x: functional.pad(x, (2, 1), mode="reflect") + functional.pad(x, (1, 2), mode="replicate"),
        MN,
    ),
    "smooth": (
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        {"x": ("B", "H", "M", "N")},
    ),
    "sampled": (
        lambda x, y: functional.grid_sample(x, y.tanh(), align_corners=False),
        {"x": ("B", "H", "M", "N"), "y": ("B", "K", "S", 2)},
    ),
    "larger": (
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        {"x": ("B", "H", "M", "N")},
    ),
    "extremes": (
        lambda x: (x.max(1, keepdim=True)[0], x.min(0)[0], x.max() - x.min(), x.max(-1)[1].float()),
        MN,
    ),
    "places": (  # of equal elements the first, and of rows with NaN its first
        lambda x: (
            x.round().argmax(1, keepdim=True).float(),
            x.round().argmin(0).float(),
            x.sqrt().argmax(1).float(),
            x.T.argmin().float(),
        ),
        MN,
    ),
    "places_of_integers": (lambda x: ((3 * x).long().argmax(1).float(), (3 * x).long().max(0)[0].float()), MN),
    "running": (lambda x: (x.cumsum(0), (x + 2).cumprod(-1), x.cumsum(1).exp(), (x > 0).cumsum(0).float()), MN),
    "best_so_far": (  # of equal elements the last, and NaN once there is one
        lambda x: (
            *(each.float() for each in (*x.round().cummax(1), *x.round().cummin(0), x.sqrt().cummax(0)[1])),
            x.sqrt().cummin(0)[0].nan_to_num(9.0),
            *(each.float() for each in ((3 * x).long().cummin(1)[1], x.amax(1).cummax(0)[0])),
        ),
        MN,
    ),
    "running_log_sums": (
        lambda x: (
            x.logcumsumexp(1),
            (100 * x).logcumsumexp(0) - x.log().nan_to_num(nan=float("-inf")).logcumsumexp(0).exp(),
            x.mean().logcumsumexp(0),
        ),
        MN,
    ),
    "running_back": (lambda x: (x.flip(1).cumsum(1).flip(1), x.reshape(-1).cumsum(0)), MN),
    "from_the_end": (lambda x: x[:, -1, None] * x[-2] + x[:, -3:].sum(1, keepdim=True), MN),
    "padded": (lambda x: functional.pad(x, (1, 2, -1, 3), value=2.0) + functional.pad(x, (0, 3, 2, 0)).sum(), MN),
    "in_steps": (lambda x: (x[:, ::2] * 2, x[1::3, :1].exp()), MN),
    "flat": (lambda x: x.flatten().exp().reshape(x.shape[1], -1), MN),
    "looked_up": (
        lambda x, y: (
            x[places(y, x.shape[1])[0] - 1].sum(0),
            x.gather(1, places(y[:, :1].expand(-1, 2) * x[:, :2], x.shape[1])),
            x[:, None, places(y, x.shape[1])[0], None] + y[:1, 0],
            x.index_select(0, places(y, x.shape[0])[0]),
        ),
        PAIR,
    ),
    "looked_up_apart": (
        lambda x, y: (
            x[places(y, x.shape[0]), :, places(y, x.shape[2])],
            x[:, places(y, x.shape[1])[-1], places(y, 2)],
        ),
        {"x": ("B", "M", "N"), "y": ("H", "K")},
    ),
    "looked_up_together": (
        lambda x, y: functional.embedding(places(x, y.shape[0]), y) @ y.T,
        {"x": ("B", "M"), "y": ("N", "K")},
    ),
    "stored": (
        lambda x, y: (
            x.scatter_add(1, places(y, x.shape[1]), y),
            torch.zeros_like(x).index_add_(0, places(y, x.shape[0])[:, 0], y, alpha=2),
            x.exp().index_put((places(y, x.shape[0])[:1, 0],), y[0] * 3) @ y.T,
            x.scatter_reduce(0, places(y, x.shape[0])[:1], y, "amax"),
            x.scatter(1, torch.arange(2)[None, :].expand(x.shape[0], 2) + 1, y[:, :2] + 1),
        ),
        PAIR,
    ),
    "constants": (
        lambda x: torch.max(torch.tensor(0.0), x) * torch.tensor(2) + x[:, [2, 0]].sum(1, keepdim=True) * SCALES,
        {"x": ("M", 3)},
    ),
    "joined_behind_each_other": (lambda x: (torch.cat([x[1:]] * 3), torch.gradient(x)[0]), MN),
    "rotated": (  # as pairs of numbers
        lambda x, y: torch.view_as_real(
            torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(y), y).conj() + 1j
        ).flatten(-2),
        {"x": ("B", "M", 8), "y": ("M", 4)},
    ),
    "transformed": (
        lambda x, y: (
            torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y), n=x.shape[-1]),
            torch.fft.ifft2(torch.fft.fft2(x, norm="ortho") / 2).abs(),
        ),
        PAIR,
    ),
    "diagonals": (lambda x, y: torch.einsum("bii,ij->bj", x, y), {"x": ("B", "M", "M"), "y": ("M", "N")}),
    "framed": (lambda x: x.unfold(-1, 3, 2).median(-1)[0], MN),
    "shared_out": (lambda x: functional.adaptive_avg_pool2d(x, (2, 3)), {"x": ("B", 2, "M", "N")}),
    "windows_over_the_end": (
        lambda x: (
            functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            functional.max_pool2d(x, 2, 3, ceil_mode=True),
            functional.max_pool2d(x, (3, 2), (2, 1), (1, 0), 1, True, True)[1] * 0.5,
            functional.lp_pool2d(x.abs(), 3, 2),
        ),
        {"x": ("B", 2, 6, 9)},
    ),
    "found": (
        lambda x, y: (
            torch.searchsorted(x.sort(1)[0], y).float(),
            torch.bucketize(y, x[0].sort()[0], right=True).float(),
            torch.histc(x, 5, -2.0, 2.0),
        ),
        PAIR,
    ),
    "bags": (
        lambda x, y: (
            functional.embedding_bag(places(x, y.shape[0]), y, mode="sum"),
            functional.embedding_bag(places(x, y.shape[0]), y, mode="mean"),
        ),
        {"x": ("B", "M"), "y": ("N", "K")},
    ),
    "stored_without_what_was_there": (
        lambda x, y: (
            x.scatter_reduce(1, places(y, x.shape[1]), y, "mean", include_self=False),
            x.scatter_reduce(0, places(y, x.shape[0])[:1], y, "amin", include_self=False),
            x.scatter_reduce(1, places(y, x.shape[1]), y, "mean"),
            torch.empty_like(x).scatter_(1, y.argsort(1), x),
        ),
        PAIR,
    ),
    "of_one_element": (
        lambda x: (
            x.sign() + torch.hypot(x, x + 1) + torch.asinh(x) + torch.lgamma(x.abs() + 1) + x.isfinite(),
            ((x * 9).int() << 2).float() + ((x * 9).long() >> 1) + (x * 9).long() // 4,
        ),
        MN,
    ),
    "bits": (lambda x, y: ((x[:, None] * 9).long() >> (y * 2).long().abs()[:, :, None] % 4).float(), PAIR),
    "notes_statistics": (
        lambda x, a, b: functional.batch_norm(x, a, b, training=True),
        {"x": ("M", "N"), "a": ("N",), "b": ("N",)},
    ),
    "own_gradient": (lambda x: Doubled.apply(x) + 1, MN),
    "cell": (
        lambda x, y, a, b, c: torch.gru_cell(x, y, a, b, c, c),
        {"x": ("M", "K"), "y": ("M", 4), "a": (12, "K"), "b": (12, 4), "c": (12,)},
    ),
    "lstm_layers": (
        lambda x, h, a, b, c: torch.lstm(x, (h, 2 * h), [a, b, c, -c], True, 1, 0.0, False, False, False),
        {"x": ("S", "B", "K"), "h": (1, "B", 3), "a": (12, "K"), "b": (12, 3), "c": (12,)},
    ),
    "gru_both_ways": (
        lambda x, h, a, b, c: torch.gru(x, h, [a, b, c, -c, 2 * a, -b, c, c], True, 1, 0.0, False, True, True),
        {"x": ("B", "S", "K"), "h": (2, "B", 3), "a": (9, "K"), "b": (9, 3), "c": (9,)},
    ),
    "rnn_without_bias": (
        lambda x, h, a, b: (
            torch.rnn_tanh(x, h, [a, b], False, 1, 0.0, False, False, False)[0],
            torch.rnn_relu(x, h, [a, b], False, 1, 0.0, False, False, False)[1],
        ),
        {"x": ("S", "B", "K"), "h": (1, "B", "D"), "a": ("D", "K"), "b": ("D", "D")},
    ),
    "numbers_times_sizes": (
        lambda x: x * math.pi / x.shape[1] + (x * (2 / x.shape[0]) ** 0.5).cos(),
        MN,
    ),
    "functions_by_rules": (
        lambda x, y: (
            torch.cov(x),
            torch.corrcoef(x),
            x.quantile(0.3, 0, keepdim=True) + torch.quantile(x, torch.tensor([0.25, 1.0]), dim=1).sum(0)[:, None],
            torch.cat((x, y), 1) + torch.cat((y, x), 1),
            functional.pad(x[None], (1, 2), mode="circular"),
            torch.take_along_dim(x, y[:1].argsort(1) % x.shape[1], 1),
            ((x > 0).__iand__(x < 1)).float(),
        ),
        {"x": ("M", "N"), "y": ("M", "K")},
    ),
    "triangular": (
        lambda x, y, z: (
            torch.linalg.cholesky(x @ x.mT + torch.eye(x.shape[1])),
            torch.linalg.cholesky((x @ x.mT + torch.eye(x.shape[1])).sin() + 9 * torch.eye(x.shape[1]), upper=True),
            torch.linalg.solve_triangular(x @ x.mT + 3 * torch.eye(x.shape[1]), y, upper=False),
            torch.linalg.solve_triangular(x @ x.mT / 9 + 3, y, upper=True, unitriangular=True),
            torch.linalg.solve_triangular(y @ y.mT + 3 * torch.eye(x.shape[1]), z, upper=True, left=False),
        ),
        {"x": ("B", "M", "N"), "y": ("B", "M", "K"), "z": ("D", "M")},
    ),
    "eliminated": (
        lambda x, y: (
            torch.linalg.inv(x @ x.mT + torch.eye(3)).mT,
            torch.linalg.solve(x @ x.mT + torch.eye(3).flip(0) * 9, y),
            torch.linalg.solve(x[0] @ x[0].mT + 3 * torch.eye(3), y[0, :, 0]),
        ),
        {"x": ("B", 3, "N"), "y": ("B", 3, "K")},
    ),
    "vectors": (
        lambda x, y, z: (y @ x @ z + (x @ z).sum(), torch.mv(x, z).sin()),
        {"x": ("M", "N"), "y": ("M",), "z": ("N",)},
    ),
    "steps": (
        lambda x, y, z, w: (
            scanned(x, y),
            best_path(x, y),
            warped(z, w),
            reduce(lambda made, n: made[1:] * (made[:-1] + n), range(6), w.sin()),
        ),
        {"x": (9, "N"), "y": ("N", "N"), "z": (7,), "w": (8,)},
    ),
    "chain": (lambda x: reduce(lambda made, _: made * torch.tanh(made + made.mean()), range(12), x), MN),
}
