import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.languages.gpu.python_tokens import program_hash

SOURCE = '''\
"""What it does."""
import triton

BLOCK = 64  # tune: 32 64


def run(x, y):
    """Launch."""
    if x:
        kernel[(1,)](x, y, BLOCK)
    return "text"
'''


@pytest.mark.parametrize(
    "same",
    [
        SOURCE.replace("# tune: 32 64", "# tune: 16"),
        SOURCE.replace('"""What it does."""\n', ""),
        SOURCE.replace('    """Launch."""\n', "    # launch\n"),
        SOURCE.replace("    ", "\t"),
        SOURCE.replace("\n", "\r\n"),
        SOURCE.replace("(x, y, BLOCK)", "(\n            x,\n            y, BLOCK\n        )"),
        SOURCE.replace("x, y", "x,y") + "\n\n# the end\n",
        SOURCE.replace("import triton", "import  triton  "),
    ],
)
def test_comments_layout_and_docstrings_do_not_count(same: str):
    assert program_hash(same) == program_hash(SOURCE)


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace("64  #", "32  #"),
        SOURCE.replace('"text"', '"test"'),
        SOURCE.replace('    return "text"', '        return "text"'),
        SOURCE.replace("x, y", "y, x"),
        SOURCE.replace("BLOCK = 64", "BLOCK = 6 4"),
        SOURCE + "(",
        SOURCE + "((",
    ],
)
def test_everything_else_counts(other: str):
    assert program_hash(other) != program_hash(SOURCE)


@given(st.text(max_size=60))
def test_any_text_has_a_hash(text: str):
    assert len(program_hash(text)) == 16
