"""What `init` says where a file leaves something open."""

import re
import sys
from math import prod
from pathlib import Path

import pytest
import torch

from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.example_text import parse_inputs, without_bound
from evokernel.scaffold.operation.index_bounds import find_bounds, tied_by_indices
from evokernel.scaffold.operation.trial import changes_apart, counted_flops, state_apart
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.operation_analysis import analyse
from evokernel.scaffold.parameter_gradients import useless_apart
from evokernel.scaffold.task_text import call_text
from evokernel.scaffold.workloads import LIMITS, WorkloadCosts, plan_workloads


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0\n", r":1 raised ZeroDivisionError"),
        ("def f(:\n", r":1 raised SyntaxError"),
        ("import nowhere_at_all\n", "nowhere_at_all"),
        ("x = 1\n", "defines no function and no nn.Module"),
        ("def f(x): return x\ndef g(x): return x\n", "several: f, g; say which one with --name"),
        ("def f(x, w): return x @ w\n", r'needs an example of x, w: pass --inputs "x: 1024x1024, w: 1024x1024"'),
        ("def f(*xs): return xs[0]\n", "wrap it in a function"),
        ("def f(x): return x\ndef get_inputs(): return [1, 2, 3]\n", "get_inputs.. returns 3 values"),
        ("def f(x): return x\ndef get_inputs(): raise OSError('gone')\n", "get_inputs.. raised OSError: gone"),
        ("import torch\nclass M(torch.nn.Module):\n    def __init__(self, n): ...\n", "get_init_inputs"),
        (
            "import torch\ndef f(x=torch.zeros(3, dtype=torch.complex64)): return x\n",
            r"'x' is torch.complex64.*pass torch.view_as_real",
        ),
    ],
)
def test_unclear_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "unclear.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=message):
        find_subject(path)


def test_unknown_names(operations: Path) -> None:
    with pytest.raises(TaskError, match="no function or module 'nothing'"):
        find_subject(operations, name="nothing")
    with pytest.raises(TaskError, match=r"names z, but softmax takes: x.*; pass --inputs \"x: 1024x1024\""):
        find_subject(operations, name="softmax", inputs="z: 3x3")


def test_all_inputs_are_named_at_once_with_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "route.py"
    path.write_text("def route(logits, bias, expert_of, mask, k=2): return logits\n", encoding="utf-8")
    line = "logits: 1024x1024, bias: 64, expert_of: int64[1024] < 1024, mask: bool[1024x1024], k: 4"
    with pytest.raises(TaskError, match=re.escape(f'an example of logits, expert_of, mask: pass --inputs "{line}"')):
        find_subject(path, inputs="k: 4, bias: 64")


@pytest.mark.parametrize("text", ["x", "x 3x3", "x: 3x", "x: 0x3", "3: 3x3", "x: i32[4] < 0"])
def test_inputs_that_cannot_be_read(text: str) -> None:
    with pytest.raises(TaskError, match="--inputs"):
        parse_inputs(text)


def test_inputs_hold_shapes_and_constants() -> None:
    assert parse_inputs("alpha: f32[]")["alpha"].shape == ()
    made = parse_inputs("x: 4x5, w: 7, eps: 1e-6, flag: True, mode: 'sum', axis: -1")
    assert tuple(made["x"].shape) == (4, 5)
    assert tuple(made["w"].shape) == (7,)
    assert {name: made[name] for name in ("eps", "flag", "mode", "axis")} == {
        "eps": 1e-6,
        "flag": True,
        "mode": "sum",
        "axis": -1,
    }


def test_example_from_annotations_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "noted.py"
    path.write_text('def f(x: "6x5", scale=2.0):\n    return x * scale\n', encoding="utf-8")
    subject = find_subject(path)
    assert tuple(subject.inputs["x"].shape) == (6, 5)
    assert subject.constants == {"scale": 2.0}


def test_given_tensors_stand_in_for_get_inputs(operations: Path) -> None:
    subject = find_subject(operations, name="rmsnorm", example_inputs=(torch.ones(6, 5), torch.ones(5)))
    assert tuple(subject.inputs["x"].shape) == (6, 5)
    assert subject.constants == {"eps": 1e-6}
    with pytest.raises(TaskError, match="example_inputs holds 2 values"):
        find_subject(operations, name="softmax", example_inputs=(torch.ones(6, 5), 2))


def test_reference_that_fails_on_its_example(operations: Path) -> None:
    with pytest.raises(TaskError, match="biased_gelu raised"):
        derive_layout(find_subject(operations, name="biased_gelu", inputs="x: 3x4, w: 5x6, b: 6"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x.to(torch.complex64)", r"returns a tensor of torch\.complex64; return torch.view_as_real"),
        ("x.to(torch.float8_e8m0fnu)", "returns a tensor of torch.float8_e8m0fnu; expected one of float32"),
        ("x + torch.rand_like(x)", r"uses random numbers \(aten.rand_like\).*Pass them in as an input"),
        ("F.dropout(x, 0.5)", r"uses random numbers.*self.eval\(\)"),
        ("x[x > 0]", "shape depends on values.*torch.where"),
        ("x.repeat_interleave(x[0].long(), 1)", "shape depends on values.*Declare the length.*output_size=n"),
        ("x * 2 if x.sum() > 0 else x", "reads a value of a tensor"),
        ("x.T", r"a view of its input 'x'.*\.clone\(\)"),
        ("x.add_(1)", "changes its input 'x' in place"),
        ("[1]", "returns a int; expected a tensor"),
    ],
)
def test_operations_that_can_be_no_task(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "refused.py"
    path.write_text(f"import torch\nimport torch.nn.functional as F\ndef f(x):\n    return {body}\n", encoding="utf-8")
    with pytest.raises(TaskError, match=message):
        derive_layout(find_subject(path, inputs="x: 5x7"))


def test_too_many_steps_in_python_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "steps.py").write_text("def f(x):\n    for _ in range(41000): x = -x\n    return x\n", "utf-8")
    with pytest.raises(TaskError, match=r"4100. operations of torch for this example.*40000 operations at most"):
        derive_layout(find_subject(path, inputs="x: 5x7"))


def test_layouts_that_no_task_can_say(tmp_path: Path) -> None:
    path = tmp_path / "padded.py"
    path.write_text("def f(x):\n    return x * 2\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"has steps \(9, 1\).*\.contiguous\(\)"):
        find_subject(path, example_inputs=(torch.zeros(4, 9)[:, :5],))
    assert find_subject(path, example_inputs=(torch.zeros(4, 9).T,)).orders == {"x": (1, 0)}


def test_types_and_bounds_of_inputs() -> None:
    made = parse_inputs(
        "x: bf16[8x4], h: fp16[3, 2], i: int64[8] < 4096, n: i32[5], d: double[2], "
        "q: i8[999], u: u8[9] < 9, m: bool[99]"
    )
    types = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in made.items()}
    assert types == {"x": "bfloat16", "h": "float16", "i": "int64", "n": "int32", "d": "float64"} | {
        "q": "int8",
        "u": "uint8",
        "m": "bool",
    }
    assert tuple(made["h"].shape) == (3, 2)
    assert int(made["i"].max()) == 4095
    assert (int(made["q"].min()), int(made["u"].max()), len(made["m"].unique())) == (-128, 8, 2)
    for text, message in (
        ("x: f8[3]", "is none of float32"),
        ("x: 999999999999x99999999", "cannot be made here"),
        ("x: 99999999999999999999999", "cannot be made here"),
        ("x: int64[4] < 9223372036854775808", "cannot be made here"),
        ("x: bf16[3] < 4", "a bound is for integers"),
        ("x: bool[3] < 2", "a bound is for integers"),
        ("x: i8[3] < 129", "expected < 1 to < 128"),
    ):
        with pytest.raises(TaskError, match=message):
            parse_inputs(text)


def test_modules_keep_their_mode_and_running_statistics_are_no_inputs(tmp_path: Path) -> None:
    path = tmp_path / "block.py"
    head = "from torch import nn\n\n\nclass Block(nn.Sequential):\n    def __init__(self):\n"
    body = "        super().__init__(nn.BatchNorm1d(4))\n\n    def forward(self, x):\n        return self[0](x)\n"
    path.write_text(head + body, encoding="utf-8")
    subject = state_apart(find_subject(path, inputs="x: 8x4"))
    assert subject.target.training
    assert set(subject.kept) == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    assert subject.parameters == {"0.weight": "p0_weight", "0.bias": "p0_bias"}


def test_a_size_that_can_only_grow_alone_goes_with_those_that_cut_it(tmp_path: Path) -> None:
    path = tmp_path / "cut.py"
    path.write_text("def f(x, mask):\n    return (x @ x.T) * mask[: x.shape[0], : x.shape[0]]\n")
    layout = derive_layout(find_subject(path, inputs="x: 6x5, mask: 6x6"))
    (rows,) = {extent for extent in (layout.inputs["x"][0], *layout.inputs["mask"])}
    assert rows in layout.sizes.names
    assert layout.inputs["x"][1] not in (rows, 5)


def test_a_width_that_is_cut_in_halves_varies_in_steps_of_two(tmp_path: Path) -> None:
    path = tmp_path / "rotary.py"
    half = "    half = x.shape[-1] // 2\n"
    path.write_text(f"import torch\n\n\ndef f(x):\n{half}    return torch.cat((-x[:, half:], x[:, :half]), -1)\n")
    subject = find_subject(path, inputs="x: 6x10")
    layout, found = analyse(subject, derive_layout(subject))
    rows, width = layout.inputs["x"]
    assert (rows, width) == tuple(layout.outputs[0])
    assert [(each.units, each.example) for each in layout.dimensions] == [((1,), 6), ((2,), 5)]
    assert found.traced is not None
    assert analyse(subject, derive_layout(subject), own=[{"x": (6, 9)}])[0].inputs["x"][1] in layout.sizes.names


def test_parameters_that_do_not_count_are_no_inputs(tmp_path: Path) -> None:
    path = tmp_path / "centred.py"
    lines = [
        "class Centred(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.linear, self.unused = nn.Linear(6, 9), nn.Parameter(torch.ones(3))",
        "        self.shift = nn.Parameter(torch.ones(1))",
        "    def forward(self, x):",
        "        y = self.linear(x) + self.shift",
        "        return (y - y.mean(0)).relu()",
    ]
    path.write_text("\n".join(["import torch", "from torch import nn", *lines]), encoding="utf-8")
    subject = find_subject(path, inputs="x: 8x6")
    found = useless_apart(subject, derive_layout(subject), {})
    assert set(found.zeros) == {"linear.bias", "unused", "shift"}
    assert list(found.inputs) == ["x", "linear_weight"]
    assert "torch.zeros((9,), dtype=x.dtype, device=x.device)" in call_text(found)
    inputs = {name: each.double() for name, each in found.inputs.items()}
    assert torch.allclose(found.call(inputs).detach(), subject.target.double()(inputs["x"]).detach())


def test_a_parameter_that_does_not_count_is_found_where_the_module_multiplies_roundings(tmp_path: Path) -> None:
    path = tmp_path / "steep.py"
    lines = [
        "class Steep(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.linear, self.scale = nn.Linear(6, 9), nn.Parameter(torch.ones(9))",
        "    def forward(self, x):",
        "        y = self.linear(x)",
        "        return torch.sin(3e5 * self.scale * (y - y.mean(0)))",
    ]
    path.write_text("\n".join(["import torch", "from torch import nn", *lines]), encoding="utf-8")
    subject = find_subject(path, inputs="x: 8x6")
    assert set(useless_apart(subject, derive_layout(subject), {}).zeros) == {"linear.bias"}


def test_many_weights_do_not_shrink_the_sizes(tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text("def twice(x): return 2 * x\n", encoding="utf-8")
    subject = find_subject(path, inputs="x: 64x32")
    layout = derive_layout(subject)
    cost = WorkloadCosts(
        flops=lambda dims: prod(dims.values()),
        moved=lambda dims: prod(dims.values()),
        elements=lambda dims: 10**8 + prod(dims.values()),
    )
    plan = plan_workloads(subject, layout, cost, limits=LIMITS["cpu"], own=[layout.example])
    assert plan.search[0] == layout.example
    assert all(high > 8 for _, high in plan.probe.values())


def test_sizes_that_one_index_ties_are_one_dimension(tmp_path: Path) -> None:
    path = tmp_path / "caches.py"
    lines = [
        "def update(k_cache, v_cache, k, v, position):",
        "    rows = torch.arange(k.shape[0], device=k.device)",
        "    k_cache[rows, position] = k",
        "    v_cache[rows, position] = v",
    ]
    path.write_text("\n".join(["import torch", *lines]), encoding="utf-8")
    inputs = "k_cache: 4x10x6, v_cache: 4x10x8, k: 4x6, v: 4x8, position: int64[4] < 10"
    subject = changes_apart(find_subject(path, inputs=inputs))
    layout = derive_layout(subject)
    assert layout.inputs["k"][1] == layout.inputs["k_cache"][2]  # torch compares them with data only
    assert layout.inputs["k_cache"][:2] != layout.inputs["v_cache"][:2]
    tied = tied_by_indices(subject, layout)
    rows, length, _ = tied.inputs["k_cache"]
    assert tied.inputs["v_cache"][:2] == (rows, length)
    assert tied.inputs["position"] == (rows,)
    assert find_bounds(subject, tied) == {"position": length}


def test_a_parameter_without_axes_is_an_input_of_one_element(tmp_path: Path) -> None:
    path = tmp_path / "scaled.py"
    lines = [
        "class Scaled(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.scale = nn.Parameter(torch.tensor(2.0))",
        "    def forward(self, x):",
        "        assert self.scale.ndim == 0",
        "        return x * self.scale",
    ]
    path.write_text("\n".join(["import torch", "from torch import nn", *lines]), encoding="utf-8")
    found = find_subject(path, inputs="x: 8x6")
    assert derive_layout(found).inputs["scale"] == (1,)
    assert "scale.reshape(())" in call_text(found)
    assert torch.equal(found.call({**found.inputs, "scale": torch.tensor([3.0])}), 3 * found.inputs["x"])


def test_sizes_of_a_deep_module_belong_to_its_layers(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    lines = ["def layers():", "    return [nn.Linear(6, 6) for _ in range(9)]", "Deep = nn.Sequential(*layers())"]
    path.write_text("\n".join(["from torch import nn", *lines]), encoding="utf-8")
    layout = derive_layout(find_subject(path, name="Deep", inputs="input: 8x6"))
    assert [dimension.axes for dimension in layout.dimensions] == [(("input", 0),)]


def test_products_and_convolutions_are_counted_where_sizes_follow_no_simple_rule(tmp_path: Path) -> None:
    path = tmp_path / "strided.py"
    path.write_text(
        "import torch\ndef f(x, w):\n    return torch.conv2d(x, w, stride=2).sum((2, 3))\n", encoding="utf-8"
    )
    found = find_subject(path, inputs="x: 2x3x9x9, w: 5x3x3x3")
    assert counted_flops(found) == 2 * (2 * 5 * 4 * 4) * (3 * 3 * 3)


def test_a_module_that_remembers_a_call_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.py"
    lines = [
        "class Memory(nn.Module):",
        "    def forward(self, x):",
        "        self.last = x * 2",
        "        return self.last",
    ]
    path.write_text("\n".join(["from torch import nn", *lines]), encoding="utf-8")
    with pytest.raises(TaskError, match=r"for the next \(last\).*as an argument of forward"):
        state_apart(find_subject(path, inputs="x: 8x6"))


def test_a_function_that_computes_with_a_module_outside_is_told_to_take_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "held.py"
    lines = [
        "from torch import nn",
        "net, act = nn.Linear(6, 6), nn.ReLU()",
        "def inner(x):",
        "    return act(net(x))",
        "def head(x):",
        "    return inner(x)",
        "def plain(x):",
        "    return act(x) / x.net()",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TaskError, match=r"head computes with the weights of net, .* take the weights as arguments of"):
        find_subject(path, name="head", inputs="x: 8x6")
    assert find_subject(path, name="plain", inputs="x: 8x6").inputs


def test_buffers_of_indices_that_a_call_reads_are_inputs(tmp_path: Path) -> None:
    path = tmp_path / "bias.py"
    lines = [
        "import torch",
        "from torch import nn",
        "class Bias(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.table = nn.Parameter(torch.randn(9, 4))",
        "        self.register_buffer('index', torch.arange(25).reshape(5, 5) % 9)",
        "        self.register_buffer('unread', torch.arange(25))",
        "        self.register_buffer('signed', torch.arange(-2, 3))",
        "    def forward(self, x):",
        "        return x + self.table[self.index].permute(2, 0, 1) * self.signed.abs()",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    subject = state_apart(find_subject(path, inputs="x: 3x4x5x5"))
    assert list(subject.inputs) == ["x", "table", "index"]
    assert sorted(subject.kept) == ["signed", "unread"]
    layout = derive_layout(subject)
    assert find_bounds(subject, layout) == {"index": layout.inputs["table"][0]}


def test_parameters_that_do_not_count_are_tried_together(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    lines = [
        "passes = []",
        "class Deep(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(12))",
        "    def forward(self, x):",
        "        passes.append(x.dtype)",
        "        for layer in self.layers:",
        "            y = layer(x)",
        "            x = torch.tanh(y - y.mean(0)) + x",
        "        return x",
    ]
    path.write_text("\n".join(["import torch", "from torch import nn", *lines]), encoding="utf-8")
    subject = find_subject(path, inputs="x: 8x6")
    layout = derive_layout(subject)
    passes = sys.modules[type(subject.target).__module__].passes
    passes.clear()
    threads = torch.get_num_threads()
    assert set(useless_apart(subject, layout, {}).zeros) == {f"layers.{number}.bias" for number in range(12)}
    assert passes.count(torch.float64) < 3 * 12  # not several passes for each of them
    assert torch.get_num_threads() == threads


def test_an_operation_is_tried_once_at_each_size(tmp_path: Path) -> None:
    path = tmp_path / "counted.py"
    path.write_text(
        "shapes = []\ndef counted(x):\n    shapes.append(tuple(x.shape))\n    return 2 * x\n", encoding="utf-8"
    )
    subject = find_subject(path, inputs="x: 6x4")
    for _ in range(2):
        derive_layout(subject)
    shapes = sys.modules[subject.target.__module__].shapes
    assert len(shapes) == len(set(shapes))


def test_sorted_integers_rise_from_zero_to_the_largest() -> None:
    made = parse_inputs(
        "offsets: int32[65] sorted < 4097, ids: u8[3x40] sorted, edges: f32[12] sorted, last: i64[1] sorted < 3"
    )
    assert all(bool((each.diff(dim=-1) >= 0).all()) for each in made.values())
    assert (int(made["offsets"][0]), int(made["offsets"][-1]), made["offsets"].dtype) == (0, 4096, torch.int32)
    assert int(made["last"]) == 2
    with pytest.raises(TaskError, match="sorted is for numbers along an axis"):
        parse_inputs("n: int64[] sorted < 3")
    with pytest.raises(TaskError, match="rise from 0 to 4096"):
        parse_inputs("offsets: int32[65] rising")


def test_a_bound_that_is_a_guess_is_said() -> None:
    text = "x: 8x6, counts: int32[8], own: int32[8] < 8, index: int64[4], byte: u8[4]"
    (remark,) = without_bound(text, {"counts": 8, "own": 8, "index": "N", "byte": 200})
    assert '"counts: int32[8] < 1000"' in remark


def test_sizes_of_steps_behind_each_other_hold_inside_a_network_too(tmp_path: Path) -> None:
    path = tmp_path / "steps.py"
    lines = [
        "class Steps(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.body = nn.Sequential(*[nn.Conv1d(4, 4, 3, 2, 1, bias=False) for _ in range(5)])",
        "    def forward(self, x):",
        "        return self.body(x).mean(2)",
    ]
    path.write_text("\n".join(["import torch", "from torch import nn", *lines]), encoding="utf-8")
    subject = find_subject(path, inputs="x: 3x4x64")
    layout, found = analyse(subject, derive_layout(subject))
    length = layout.inputs["x"][2]
    assert found.traced is not None
    for size in (64, 49, 37):
        inner = [layout.sizes.at(shape[2], {**layout.example, str(length): size}) for shape in found.largest[-6:-1]]
        assert inner == [(size + (1 << n) - 1) >> n for n in range(1, 6)]
