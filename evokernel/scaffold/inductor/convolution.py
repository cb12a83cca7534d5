"""Convolutions of our own for Inductor's programs: of any dimensions, for all sizes, fused with the nodes around.

Inductor calls a library for most of them. Here they are an implicit product (Chetlur et al., cuDNN, 2014): the rows are
output positions, the columns output channels, and the summed axis runs over input channels and taps. Groups of few
output channels would leave such tiles empty, so they become a sum that Inductor writes itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor import config, ir
from torch._inductor.lowering import lowerings, make_pointwise
from torch._inductor.select_algorithm import SymbolicGridFn, TritonTemplate, autotune_select_algorithm
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv, ModularIndexing, PythonMod

_FEWEST_CHANNELS = 8
"""Output channels of a group, below which the convolution is a sum in place of a product."""
_TILES = ((64, 64, 32, 4, 3), (128, 64, 32, 4, 3), (64, 128, 32, 4, 3), (128, 128, 32, 8, 3), (64, 32, 32, 4, 2),
          (32, 64, 64, 4, 4), (128, 32, 16, 4, 2), (128, 128, 16, 8, 3), (128, 64, 16, 8, 3))  # fmt: skip
"""Values of BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages; all of them become choices of a tunable."""
_MOST_SCATTERED = 128 * 64
"""Elements of a tile of a transposed convolution with strides, beyond which registers spill."""
_MOST_TERMS = 32
"""Terms of such a sum that are written out, one load after the other, in place of a loop."""
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_HEAD = (Path(__file__).parents[1] / "templates" / "convolution.py.txt").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Settings:
    """Attributes of a convolution, one number for each dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    groups: Any
    """A number, or a size that a workload sets, such as that of the channels."""

    @property
    def is_scattered(self) -> bool:
        """True where only some taps meet an input, which takes registers to tell."""
        return self.transposed and max(self.stride) > 1


def _tiles(*arguments: Any, cdiv: Any) -> Any:
    *sizes, numbers = arguments
    batch, channels, *spatial = sizes
    tiles = cdiv(batch * sympy_product(spatial), numbers["BLOCK_M"])
    return (tiles * cdiv(channels // numbers["GROUPS"], numbers["BLOCK_N"]), numbers["GROUPS"], 1)


_grid = SymbolicGridFn(_tiles)


def convolution(x: Any, weight: Any, bias: Any, *numbers: Any) -> Any:
    """Lower `aten.convolution`; sizes stay free, the numbers of the operation are constants.

    `numbers`: stride, padding, dilation, transposed, output padding, groups.
    """
    stride, padding, dilation, transposed, output_padding, groups = numbers
    spatial = len(weight.get_size()) - 2
    if len(x.get_size()) == spatial + 1:
        whole = lowerings[torch.ops.aten.unsqueeze.default](x, 0)
        made = convolution(whole, weight, bias, *numbers)
        return lowerings[torch.ops.aten.squeeze.dim](made, 0)

    def each_axis(values: Sequence[int]) -> tuple[int, ...]:
        made = tuple(V.graph.sizevars.guard_int_seq(values))
        return made * spatial if len(made) == 1 else made

    groups = int(groups) if sympy.sympify(groups).is_Integer else groups
    settings = _Settings(each_axis(stride), each_axis(padding), each_axis(dilation), transposed, groups)
    sizes = _output_sizes(x.get_size(), weight.get_size(), settings, each_axis(output_padding))
    channels = sizes[1] // settings.groups
    if not isinstance(groups, int) or _size_of_example(channels) < _FEWEST_CHANNELS or x.get_dtype() not in _FLOATS:
        made = _as_sum(x, weight, settings, sizes)
    else:
        made = _as_product(x, weight, settings, sizes)
    if bias is None:
        return made
    wide = lowerings[torch.ops.aten.view.default](bias, [sizes[1], *[1] * spatial])
    return lowerings[torch.ops.aten.add.Tensor](made, wide)


def _size_of_example(extent: Any) -> int:
    """Return an extent at the sizes of the trace: what is fast there decides, and the program holds for all."""
    sizes = V.graph.sizevars
    hint = sizes.optimization_hint if hasattr(sizes, "optimization_hint") else sizes.size_hint  # torch before 2.12
    return int(hint(extent))


def _output_sizes(
    given: Sequence[Any], weight: Sequence[Any], settings: _Settings, output_padding: Sequence[int]
) -> list[Any]:
    channels = weight[1] * settings.groups if settings.transposed else weight[0]
    made = [given[0], channels]
    for axis, (extent, taps) in enumerate(zip(given[2:], weight[2:], strict=True)):
        stride, padding, dilation = settings.stride[axis], settings.padding[axis], settings.dilation[axis]
        if settings.transposed:
            made.append((extent - 1) * stride - 2 * padding + dilation * (taps - 1) + output_padding[axis] + 1)
        else:
            made.append((extent + 2 * padding - dilation * (taps - 1) - 1) // stride + 1)
    return [sympy.expand(V.graph.sizevars.simplify(each)) for each in made]


def _as_product(x: Any, weight: Any, settings: _Settings, sizes: Sequence[Any]) -> Any:
    x, weight = (ir.ExternKernel.realize_input(each) for each in (x, weight))
    layout = ir.FixedLayout(x.get_device_or_error(), x.get_dtype(), sizes, ir.FlexibleLayout.contiguous_strides(sizes))
    template = _template(len(sizes) - 2, settings)
    choices: list[Any] = []
    for rows, columns, depth, warps, stages in _TILES:
        if settings.is_scattered and rows * columns > _MOST_SCATTERED:
            continue
        template.maybe_append_choice(
            choices,
            input_nodes=(x, weight),
            layout=layout,
            num_stages=stages,
            num_warps=warps,
            BLOCK_M=rows,
            BLOCK_N=columns,
            BLOCK_K=depth,
            GROUP_M=8,
            GROUPS=settings.groups,
            EVEN_K=False,
            ALLOW_TF32=False,
        )
    made = autotune_select_algorithm("convolution", choices, [x, weight], layout)
    return made[0] if isinstance(made, tuple) else made


_TEMPLATES: dict[tuple[int, _Settings], Any] = {}


def _template(spatial: int, settings: _Settings) -> Any:
    """Return the template for a number of dimensions, one for each set of numbers."""
    if (spatial, settings) not in _TEMPLATES:
        _TEMPLATES[spatial, settings] = TritonTemplate(
            name=f"evokernel_convolution_{len(_TEMPLATES)}", grid=_grid, source=_source(spatial, settings)
        )
    return _TEMPLATES[spatial, settings]


def _source(spatial: int, settings: _Settings) -> str:
    axes = range(spatial)
    transposed = settings.transposed
    size = '({{{{size("{}", {})}}}})'.format
    stride = '({{{{stride("{}", {})}}}})'.format
    shared = f" // {settings.groups}" if settings.groups > 1 else ""
    rows = " * ".join(f"({{{{size(None, {axis})}}}})" for axis in (0, *(axis + 2 for axis in axes)))
    channels = size("X", 1) + shared
    places = "\n".join(
        f"    idx_{axis} = rest % ({{{{size(None, {axis + 2})}}}})\n    rest = rest // ({{{{size(None, {axis + 2})}}}})"
        for axis in reversed(axes)
    )
    taps = "\n".join(
        f"        tap_{axis} = tap % {size('W', axis + 2)}\n        tap = tap // {size('W', axis + 2)}"
        for axis in reversed(axes)
    )
    inputs = "\n".join(_input_lines(axis, settings, size("X", axis + 2), stride("X", axis + 2)) for axis in axes)
    column = f"column * {stride('W', 1)}" if transposed else f"(group * N + column) * {stride('W', 0)}"
    first = f"(group * ({channels}) + channel) * {stride('W', 0)}" if transposed else f"channel * {stride('W', 1)}"
    weights = " + ".join([first, *(f"tap_{axis} * {stride('W', axis + 2)}" for axis in axes)])
    ends = "\n".join(f"    idx_{axis} = idx_{axis}[:, None]" for axis in axes)
    names = str(("idx_n", "idx_c", *(f"idx_{axis}" for axis in axes))).replace("'", '"')
    inner = " * ".join([f"({channels})", *(size("W", axis + 2) for axis in axes)])
    return _HEAD.format(
        rows=rows,
        columns="({{size(None, 1)}})" + shared,
        inner=inner,
        group="tl.program_id(1).to(INDEX_DTYPE)" if settings.groups > 1 else "0",  # a rule may add an axis to the grid
        places=places,
        column=column,
        taps=taps,
        channels=channels,
        inputs=inputs,
        weights=weights,
        ends=ends,
        names=names,
    )


def _input_lines(axis: int, settings: _Settings, size: str, stride: str) -> str:
    """Return the lines that find the input position of an output position and a tap."""
    step, padding, dilation = settings.stride[axis], settings.padding[axis], settings.dilation[axis]
    at = f"at_{axis}"
    if settings.transposed:
        lines = [f"{at} = idx_{axis}[:, None] + {padding} - (tap_{axis} * {dilation})[None, :]"]
        lines += [f"x_in = x_in & ({at} >= 0) & ({at} % {step} == 0)", f"{at} = {at} // {step}"] * (step > 1)
    else:
        lines = [f"{at} = (idx_{axis} * {step} - {padding})[:, None] + (tap_{axis} * {dilation})[None, :]"]
    lines += [f"x_in = x_in & ({at} >= 0) & ({at} < {size})", f"x_at = x_at + {at} * {stride}"]
    return "\n".join("        " + line for line in lines)


def _as_sum(x: Any, weight: Any, settings: _Settings, sizes: Sequence[Any]) -> Any:
    x.realize()
    weight.realize()
    given, kernel = x.get_size(), weight.get_size()
    loads, weights = x.make_loader(), weight.make_loader()
    dtype = x.get_dtype()
    wide = torch.float32 if dtype in _FLOATS else dtype
    inner, outer = (FloorDiv(extent, settings.groups) for extent in (given[1], sizes[1]))

    def term(index: Sequence[Any], across: Sequence[Any]) -> Any:
        batch, channel, *places = index
        source, *taps = across
        group = FloorDiv(channel, outer)
        at, inside = [], []
        for axis, (place, tap) in enumerate(zip(places, taps, strict=True)):
            found, conditions = _position(axis, settings, place, tap, given[axis + 2])
            at.append(found)
            inside += conditions
        mask = inside[0]
        for each in inside[1:]:
            mask = ops.and_(mask, each)
        value = ops.masked(mask, lambda: ops.to_dtype(loads([batch, group * inner + source, *at]), wide), 0)
        first = (
            [group * inner + source, ModularIndexing(channel, 1, outer)] if settings.transposed else [channel, source]
        )
        return value * ops.to_dtype(weights([*first, *taps]), wide)

    with config.patch(unroll_reductions_threshold=_MOST_TERMS + 1):
        total = ir.Reduction.create(
            device=x.get_device_or_error(),
            dst_dtype=wide,
            src_dtype=wide,
            inner_fn=term,
            ranges=list(sizes),
            reduction_ranges=[inner, *kernel[2:]],
            reduction_type="sum",
        )
    total.realize()
    return make_pointwise(lambda each: ops.to_dtype(each, dtype), override_return_dtype=dtype)(total)


def _position(axis: int, settings: _Settings, place: Any, tap: Any, extent: Any) -> tuple[Any, list[Any]]:
    """Return the input position of an output position and a tap, and the conditions that it is one."""
    step, padding, dilation = settings.stride[axis], settings.padding[axis], settings.dilation[axis]
    conditions = []
    if settings.transposed:
        at = place + padding - tap * dilation
        conditions.append(ops.ge(_number(at), _number(0)))
        if step > 1:
            conditions.append(ops.eq(_number(PythonMod(at, step)), _number(0)))
            at = FloorDiv(at, step)
    else:
        at = place * step - padding + tap * dilation
        conditions.append(ops.ge(_number(at), _number(0)))
    conditions.append(ops.lt(_number(at), _number(extent)))
    return at, conditions


def _number(value: Any) -> Any:
    return ops.index_expr(sympy.sympify(value), torch.int64)
