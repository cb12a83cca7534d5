import re

import pytest

from evokernel.languages.gpu.triton_static_check import static_check
from evokernel.source import SIZE_LIMIT_BYTES

HEAD = "import triton\nimport triton.language as tl\n"
KERNEL = "\n@triton.jit\ndef k(x, BLOCK: tl.constexpr):\n    pass\n"
RUN = "\ndef run(x):\n    k[(1,)](x, 1)\n"


@pytest.mark.parametrize(
    "source",
    [
        HEAD + KERNEL + RUN,
        "import math\nimport torch\n" + HEAD + "from triton.tools.tensor_descriptor import TensorDescriptor\n" + RUN,
        "from triton import jit, language as tl\nfrom triton.language.extra import libdevice\n@jit\ndef k(): pass\n"
        + RUN,
        HEAD + "\n@triton.jit(do_not_specialize=['n'])\ndef k(n): pass\n" + RUN,
        HEAD + "\n@triton.heuristics({'EVEN': lambda a: True})\n@triton.jit\ndef k(EVEN): pass\n" + RUN,
        HEAD + "BLOCK = 64  # tune: 32 64\n# tune-where: BLOCK <= 64\n" + RUN,
        "import torch\n"
        + HEAD
        + KERNEL
        + "\ndef run(x):\n    s = torch.empty((2, 3), dtype=torch.float32, device=x.device)\n"
        "    n = torch.cuda.get_device_properties(x.device).multi_processor_count\n    k[(n,)](s, 1)\n",
    ],
)
def test_honest_sources_pass(source: str):
    assert static_check(source) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "entry point"),
        ("class run: pass", "entry point"),
        ("def outer():\n    def run(): pass", "entry point"),
        ("def run(:", "line 1"),
        (RUN + "\0", "NUL"),
        (RUN + "# \ud800", "line 4: a character"),
        (RUN + "#" * SIZE_LIMIT_BYTES, "the limit is"),
        ("x = " + "(" * 300 + ")" * 300 + RUN, ""),
        ("import os" + RUN, "import of os is not allowed"),
        ("import triton.runtime" + RUN, "import of triton.runtime"),
        ("from ctypes import CDLL" + RUN, "import of ctypes.CDLL"),
        ("from triton import runtime" + RUN, "triton.runtime is not allowed"),
        ("from triton import *" + RUN, "name what is used"),
        ("from . import x" + RUN, "relative"),
        ("from triton import autotune" + RUN, "# tune:"),
        (HEAD + "@triton.autotune(configs=[], key=[])\n@triton.jit\ndef k(): pass" + RUN, "# tune:"),
        (HEAD + "tuned = triton.autotune(configs=[], key=[])" + RUN, "# tune:"),
        (HEAD + "@other\ndef k(): pass" + RUN, "decorator other is not allowed"),
        (HEAD + "@property\nclass K: pass" + RUN, "decorator property"),
        (RUN + "    exec('1')", "line 4: exec is not allowed"),
        (RUN + "    eval('1')", "eval"),
        (RUN + "    open('x')", "open"),
        (RUN + "    __import__('os')", "__import__"),
        (RUN + "    x.__class__", "__class__"),
        (RUN + "    setattr(x, 'y', 1)", "setattr"),
        (RUN + "    triton.runtime.driver", r"\.runtime is not allowed"),
        ("import torch\ndef run(a, b, c):\n    torch.mm(a, b, out=c)", "line 3: torch.mm is not allowed"),
        ("import torch as t\ndef run(a, b, c):\n    t.ops.aten.mm(a, b)", "torch.ops is not allowed"),
        ("import torch\ntorch.cuda.synchronize = print" + RUN, "assigning to .synchronize"),
        ("import torch\ndef run(x):\n    torch.cuda.synchronize()", "torch.cuda.synchronize is not allowed"),
        ("import torch\ndef run(x):\n    torch.sys.modules['os']", "torch.sys is not allowed"),
        ("from torch import compile" + RUN, "torch.compile is not allowed"),
        ("def run(x):\n    del x.grad", "assigning to .grad"),
        ("def run(x):\n    x._base", "_base is not allowed"),
        ("N = 0\ndef run(x):\n    global N\n    N += 1", "line 3: global"),
        ("async def f(): pass" + RUN, "async"),
        ("def kernel_é(): pass" + RUN, "ASCII"),
        ("A = 1  # tune: 1 2\nA = 2  # tune: 1 2" + RUN, "'A' is declared twice"),
        ("A = 2  # tune: 1 2\n# tune-where: A <= 1" + RUN, "break a constraint"),
        ("A = 2  # tune: 1 2\n# tune-where: B <= 1" + RUN, "not tunables"),
    ],
)
def test_the_rest_is_refused_with_a_reason(source: str, reason: str):
    found = static_check(source)
    assert found
    assert re.search(reason, found)
