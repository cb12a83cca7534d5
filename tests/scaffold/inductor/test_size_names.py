"""Numbers that follow from sizes alone are computed once in a function."""

import ast
import re

from evokernel.scaffold.inductor.size_names import name_sizes

TEXT = """
def kernel(x, ks0, ks1, size_0):
    half = x + libdevice.floor(ks0 / 2).to(tl.int32) * libdevice.floor(libdevice.floor(ks0 / 2) / 2)
    once = libdevice.floor(ks1 / 3)
    return libdevice.floor(libdevice.floor(ks0 / 2) / 2) + libdevice.floor(x / 2) * libdevice.floor(x / 2)
"""
NAMED = """
def kernel(x, ks0, ks1, size_0):
    size_1 = libdevice.floor(ks0 / 2)
    size_2 = libdevice.floor(size_1 / 2)
    half = x + size_1.to(tl.int32) * size_2
    once = libdevice.floor(ks1 / 3)
    return size_2 + libdevice.floor(x / 2) * libdevice.floor(x / 2)
"""


def test_what_stands_more_than_once_is_named_where_it_has_only_sizes() -> None:
    (function,) = ast.parse(TEXT).body
    assert isinstance(function, ast.FunctionDef)
    name_sizes(function, re.compile(r"ks\d+").fullmatch)
    assert ast.unparse(ast.fix_missing_locations(function)) == NAMED.strip()
