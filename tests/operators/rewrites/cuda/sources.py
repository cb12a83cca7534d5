"""CUDA C++ seeds, and what the rewrites offer on them."""

from evokernel.tasks import load_task
from operators.rewrites.cuda import CUDA_REWRITES
from operators.rewrites.library import RewriteMove

SEEDS = {name: load_task(name).seeds["cuda"].read_text(encoding="utf-8") for name in ("softmax", "histogram", "gemm")}
SOFTMAX, HISTOGRAM, GEMM = SEEDS.values()


def offered(source: str) -> set[str]:
    """Names of the rewrites that a source has a place for."""
    return {move.rewrite for move in CUDA_REWRITES.moves(source)}


def move(source: str, name: str) -> RewriteMove:
    """The first move of that name."""
    return next(each for each in CUDA_REWRITES.moves(source) if each.rewrite == name)


def after(source: str, *names: str) -> str:
    """The source after these rewrites, each at its first place."""
    for name in names:
        source = CUDA_REWRITES.apply(source, move(source, name))
    return source


def changed(source: str, *changes: tuple[str, str]) -> str:
    """The source with texts replaced, each of which it must hold."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source
