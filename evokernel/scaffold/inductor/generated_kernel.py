"""One Triton kernel as Inductor wrote it, without its launcher: function, grid, configurations as tunables."""

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import triton
from torch._inductor.runtime.triton_heuristics import GridExpr

from evokernel.languages.device_limits import DeviceLimits
from evokernel.scaffold.inductor.inductor_code import Unusable
from evokernel.scaffold.inductor.narrow_operands import narrow_operands
from evokernel.scaffold.inductor.size_names import name_sizes
from evokernel.scaffold.inductor.template_choice import TemplateSet
from evokernel.source.python_file import load_file

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_SIZE = re.compile(r"ks\d+")
_TILES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")
_LAUNCH = ("num_warps", "num_stages")
_MOST_VALUES, _WARP = 128, 32
"""Values of a block that a thread may hold, beyond which compilers take minutes and registers spill; threads a warp."""
_WIDTHS = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}


class GeneratedKernel:
    """A kernel's parts, to be put into another program."""

    def __init__(self, name: str, text: str, *, number: int, tf32: bool, folder: Path) -> None:
        """Load a kernel's text; Triton reads it from a file in the folder. `tf32`: products may be rounded to TF32."""
        path = folder / f"{name}.py"
        path.write_text(text)
        module = load_file(path, name)
        found = getattr(module, name)
        self.inductor_name = name
        self.name = f"kernel_{number}"
        self._number = number
        self._meta = found.inductor_meta
        self._dtypes = {key: kind[1:] for key, kind in found.triton_meta["signature"].items() if kind.startswith("*")}
        self._tf32 = tf32
        self._params = [param.name for param in found.fn.params]
        self._constant = {param.name for param in found.fn.params if param.is_constexpr}
        self._fixed = found.triton_meta.get("constants", {})
        self._tree = _function(found.fn.src)
        others = [
            each for each in vars(module).values() if isinstance(each, triton.JITFunction) and each is not found.fn
        ]
        self._parts = [_function(inspect.getsource(each.fn)) for each in others]
        first = found.configs[0]
        self._chosen = {**first.kwargs, "num_warps": first.num_warps, "num_stages": first.num_stages}
        self._values = {name: {self._of(each, name) for each in found.configs} for name in self._chosen}
        blocks = [name for name in self._chosen if name.endswith("BLOCK")]
        self._tiles: dict[str, int] | None = None  # those of a product, once it was launched
        self._even = False
        self._wheres = [f"{' * '.join(blocks)} <= {_MOST_VALUES * _WARP} * num_warps"] * (len(blocks) > 1)

    @staticmethod
    def _of(configuration: Any, name: str) -> int:
        return int(getattr(configuration, name) if name in _LAUNCH else configuration.kwargs[name])

    def launch(self, arguments: list[str], menu: TemplateSet | None) -> str:
        """Return a call that launches it. `menu`: the templates it was chosen from, if it is one."""
        free = [name for name in self._params if name not in self._constant]
        extra = self._meta.get("extra_launcher_args", [])
        given = dict(zip([*free, *extra], arguments, strict=True))
        words = [f"{name}={given[name]}" for name in free]
        words += [f"{name}={value}" for name, value in self._fixed.items() if name in self._constant]
        grid = self._grid(given)
        if menu is not None:
            grid[0] = self._free_tiles(grid[0], given, menu)
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        grid = [_WORD.sub(lambda found: self._spelled(found[0]), axis) for axis in grid]
        words += [f"{name}={self._spelled(name)}" for name in self._chosen]
        return f"{self.name}[{', '.join(grid)},]({', '.join(words)})"

    def _spelled(self, name: str) -> str:
        return f"{name.upper()}_{self._number}" if name in self._chosen else name

    def _grid(self, given: Mapping[str, str]) -> list[str]:
        blocks = {name: name for name in self._chosen if name not in _LAUNCH}
        found = GridExpr.from_meta(self._meta, blocks)
        names = {name: f"({text})" if re.search(r"\W", text) else text for name, text in given.items()}
        for step in found.prefix:  # a grid that is too large for one axis
            name, value = step.split(" = ", 1)
            names[name] = f"({_replaced(value, names)})"
        return [_replaced(str(axis), names) for axis in (found.x_grid, found.y_grid, found.z_grid)]

    def _free_tiles(self, axis: str, given: Mapping[str, str], menu: TemplateSet) -> str:
        """Make the tile sizes of a product, literals in its text, parameters; return the first axis of a grid."""
        texts = {name: f"({text})" for name, text in given.items()}
        sizes = {
            name: _replaced(ast.unparse(_OnHost().visit(copy.deepcopy(node.value))), texts)
            for node in self._tree.body
            if isinstance(node, ast.Assign) and (name := ast.unparse(node.targets[0])) in ("M", "N", "K")
        }
        if self._tiles is None:
            self._tiles = self._taken_out(menu, literals=sizes.keys() != {"M", "N", "K"})
            self._widen_launch(menu)
        if not self._tiles:
            return axis
        if self._even:
            known = _known_factor(ast.parse(sizes["K"], mode="eval").body)
            # a size that is a multiple of the tile in a way that is not told here keeps its tile
            where = f"{known if known % self._tiles['BLOCK_K'] == 0 else self._tiles['BLOCK_K']} % BLOCK_K == 0"
            self._wheres += [where] * (where not in self._wheres)
        return f"triton.cdiv({sizes['M']}, BLOCK_M) * triton.cdiv({sizes['N']}, BLOCK_N)"

    def _taken_out(self, menu: TemplateSet, *, literals: bool) -> dict[str, int]:
        """Return the tile sizes, parameters from now on; nothing where they stay `literals`, or there are none."""
        known = {
            node.target.id: node.value
            for node in self._tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        }
        tiles = {name: int(ast.unparse(known[name])) for name in _TILES if name in known}
        if "ALLOW_TF32" in known:
            _set_constant(known["ALLOW_TF32"], self._tf32)
        narrow_operands(self._tree, self._dtypes)
        if literals or tiles.keys() != set(_TILES) or "NUM_SMS" in known:
            return {}
        self._tree.body = [
            node for node in self._tree.body if getattr(node, "value", None) not in [known[name] for name in tiles]
        ]
        self._tree.args.args += [ast.arg(name, ast.parse("tl.constexpr", mode="eval").body) for name in tiles]
        self._chosen = {**tiles, **self._chosen}
        for name, value in tiles.items():
            self._values[name] = {value, *menu.values(name)}
        self._even = ast.unparse(known["EVEN_K"]) == "True"
        width = max(_WIDTHS.get(dtype, 1) for dtype in self._dtypes.values())
        room = DeviceLimits().shared_bytes
        self._wheres.append(f"(BLOCK_M + BLOCK_N) * BLOCK_K * num_stages * {width} <= {room}")
        return tiles

    def _widen_launch(self, menu: TemplateSet) -> None:
        for name in _LAUNCH:
            self._values[name] |= menu.values(name)

    def tunables(self) -> Iterable[str]:
        """Yield the lines that declare its tunables."""
        for name, value in self._chosen.items():
            values = sorted(self._values[name])
            mark = f"  # tune: {' '.join(map(str, values))}" if len(values) > 1 else ""
            yield f"{self._spelled(name)} = {value}{mark}"
        tunable = {name for name in self._chosen if len(self._values[name]) > 1}
        for where in self._wheres:
            text = _WORD.sub(
                lambda found: (
                    self._spelled(found[0]) if found[0] in tunable else str(self._chosen.get(found[0], found[0]))
                ),
                where,
            )
            yield f"# tune-where: {text}"

    def text(self) -> str:
        """Return the function and those it calls, under names of their own."""
        own = {part.name: f"{part.name}_{self._number}" for part in self._parts} | {self.inductor_name: self.name}
        renamed: list[ast.FunctionDef] = [_Plain(own).visit(part) for part in [*self._parts, self._tree]]
        for each in renamed:
            name_sizes(each, _SIZE.fullmatch)
            each.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        return "\n\n\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in renamed)


class _OnHost(ast.NodeTransformer):
    """Turns a kernel's text of a size, which may have a type, into one for the host."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name == "tl.full":
            return node.args[1]
        if name.endswith("div_floor_integer"):
            return ast.BinOp(node.args[0], ast.FloorDiv(), node.args[1])
        if name == "libdevice.floor":
            return ast.Call(ast.parse("math.floor", mode="eval").body, node.args, [])
        if isinstance(node.func, ast.Attribute) and re.match(r"math\.floor\(.*\)\.to$", name):
            return node.func.value
        return node


class _Plain(ast.NodeTransformer):
    """Takes what only Inductor knows out of a kernel."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return ast.Name(node.attr, node.ctx) if ast.unparse(node.value) == "triton_helpers" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Write `x.to(dtype)` of a size as a cast, and its broadcast as a fill: a size of 1 arrives as a constant."""
        self.generic_visit(node)
        callee = node.func
        if ast.unparse(callee) == "tl.broadcast_to" and _is_size(node.args[0]):
            kind = ast.parse("tl.int64", mode="eval").body
            return ast.Call(ast.parse("tl.full", mode="eval").body, [node.args[1], node.args[0], kind], [])
        if isinstance(callee, ast.Attribute) and callee.attr == "to" and _is_size(callee.value):
            return ast.Call(ast.parse("tl.cast", mode="eval").body, [callee.value, *node.args], node.keywords)
        return node


def _known_factor(node: ast.expr) -> int:
    """Return what a size is a multiple of: 32 for `32 * K`, and a number itself."""
    match node:
        case ast.Constant(int(number)):
            return number
        case ast.BinOp(left, ast.Mult(), right):
            return _known_factor(left) * _known_factor(right)
    return 1


def _is_size(node: ast.expr) -> bool:
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    return bool(names) and all(_SIZE.fullmatch(name) or name.endswith("numel") for name in names)


def _function(source: str) -> ast.FunctionDef:
    made = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def _set_constant(node: ast.expr, value: bool) -> None:
    if isinstance(node, ast.Constant):
        node.value = value


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda found: names.get(found[0], found[0]), text)


def refuse_random(text: str) -> None:
    """Refuse a program that draws random numbers."""
    if re.search(r"inductor_seeds|inductor_random|\btl\.rand|randint64", text):
        raise Unusable("the reference draws random numbers, which no judge can compare")
