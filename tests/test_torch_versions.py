"""Private parts of torch come and go: what our modules need of them as they load must be in every version we take."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Names as of torch 2.11, which `pytest -m gpu` has run with. What a later version brings needs a `try` or another way.
KNOWN = {
    "torch._decomp": {"decomposition_table"},
    "torch._dispatch.python": {"enable_python_dispatcher"},
    "torch._inductor": {"config", "ir", "lowering", "select_algorithm"},
    "torch._inductor.compile_fx": {"compile_fx"},
    "torch._inductor.decomposition": {"select_decomp_table"},
    "torch._inductor.graph": {"GraphLowering"},
    "torch._inductor.lowering": {"lowerings", "make_pointwise"},
    "torch._inductor.runtime": {"triton_helpers"},
    "torch._inductor.runtime.triton_heuristics": {"GridExpr"},
    "torch._inductor.select_algorithm": {"SymbolicGridFn", "TritonTemplate", "autotune_select_algorithm"},
    "torch._inductor.utils": {"sympy_product"},
    "torch._inductor.virtualized": {"V", "ops"},
    "torch._subclasses.fake_impls": {"op_implementations_dict"},
    "torch._subclasses.fake_tensor": {
        *("DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode"),
    },
    "torch.utils._sympy.functions": {"FloorDiv", "ModularIndexing", "PythonMod"},
    "torch.utils._sympy.printers": {"PythonPrinter"},
    "torch.utils._python_dispatch": {"TorchDispatchMode"},
    "torch.utils._pytree": {"tree_any", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_unflatten"},
}


def private_imports() -> Iterator[tuple[str, str, str]]:
    """Yield the module of ours, and the module of torch and the name, of what is imported as a module loads."""
    for folder in ("evokernel", "islands", "operators", "archive"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                if isinstance(node, ast.ImportFrom) and module.startswith("torch.") and "._" in module:
                    yield from ((str(path.relative_to(ROOT)), module, each.name) for each in node.names)


def test_modules_load_with_every_torch_that_they_are_for():
    found = list(private_imports())
    assert len(found) > 20
    assert [each for each in found if each[2] not in KNOWN.get(each[1], ())] == []
