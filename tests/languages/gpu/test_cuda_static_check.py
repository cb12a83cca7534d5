import pytest

from evokernel.languages.gpu.cuda import digest_failure
from evokernel.languages.gpu.cuda_static_check import static_check

HEAD = "from evokernel.cuda import Module\n"
RUN = '\nk = Module("")\n\ndef run(x):\n    k.f[1, 32](x)\n'


@pytest.mark.parametrize(
    "source",
    [
        HEAD + RUN,
        '"""Doc."""\nimport math\nimport torch\n' + HEAD + RUN,
        HEAD + "N = 64  # tune: 32 64\n# tune-where: N <= 64\n" + RUN,
        HEAD + RUN + "    s = torch.empty((2, 3), dtype=torch.float32, device=x.device)\n",
    ],
)
def test_honest_sources_pass(source: str):
    assert static_check(source) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (RUN, "must say `from evokernel.cuda import Module`"),
        (HEAD + HEAD + RUN, "once"),
        ("from evokernel.cuda import Module as M\n" + RUN, "line 1: write it as"),
        ("import evokernel.cuda\n" + HEAD + RUN, "line 1: write it as"),
        (RUN + "    " + HEAD, "at the top level"),
        ("import triton\n" + HEAD + RUN, "import of triton is not allowed"),
        ("from evokernel.engine import search\n" + HEAD + RUN, "import of evokernel.engine.search is not allowed"),
        ("import ctypes\n" + HEAD + RUN, "import of ctypes is not allowed"),
        (HEAD + RUN + "    Module.launcher = None\n", "assigning to .launcher"),
        (HEAD + RUN + "    k._source\n", "_source is not allowed"),
        (HEAD + "@property\ndef f(): pass\n" + RUN, "decorator property is not allowed: none are"),
        (HEAD, "entry point"),
        ("", "entry point"),
    ],
)
def test_what_is_refused_and_why(source: str, reason: str):
    assert reason in (static_check(source) or "")


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("shared memory", "300000 bytes of shared memory"),
        ("threads", "smaller blocks"),
        ("registers", "__launch_bounds"),
    ],
)
def test_resources_say_what_to_change(resource: str, words: str):
    failure = {"stage": "resources", "resource": resource, "required": 300000, "limit": 232448, "hidden": False}
    message = digest_failure(failure, "N = 4  # tune: 2 4\n")
    assert words in message
    assert "tunables here: N" in message


@pytest.mark.parametrize(
    "failure", [{}, {"stage": "resources"}, {"stage": "odd"}, {"stage": "resources", "resource": []}]
)
def test_made_up_failures_are_refused(failure: dict[str, object]):
    with pytest.raises(ValueError, match="not a failure"):
        digest_failure(failure, "")
