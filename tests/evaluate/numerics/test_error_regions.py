"""Wrong elements are described as an author would, and hidden shapes stay hidden."""

from typing import Any

import pytest
import torch

from evokernel.evaluate.numerics.error_regions import describe

ALL = slice(None)
PATTERNS: dict[str, list[Any]] = {
    "a single element (row 3, column 5)": [(3, 5)],
    "a single row, number 7": [7],
    "every second column": [(ALL, slice(1, None, 2))],
    "every second row": [slice(0, None, 2)],
    "1 of every 16 columns": [(ALL, slice(3, None, 16))],
    "the last 3 of 96 columns": [(ALL, slice(93, None))],
    "the last 5 of 64 rows": [slice(59, None)],
    "one block of columns, 32 to 47 in one block of rows, 16 to 31": [(slice(16, 32), slice(32, 48))],
    "every element": [ALL],
    "whole tiles of 16x16": [(slice(i, i + 16), slice(i, i + 16)) for i in (0, 16, 32)],
    "scattered": [(i * 7 % 64, i * 11 % 96) for i in range(40)],
}


@pytest.mark.parametrize("text", PATTERNS)
def test_patterns_are_named(text):
    mask = torch.zeros(64, 96, dtype=torch.bool)
    for place in PATTERNS[text]:
        mask[place] = True
    assert text in describe(mask, hidden=False).text
    told = describe(mask, hidden=True).text
    assert not any(str(number) in told for number in (59, 64, 93, 96, 31, 47))


def test_an_output_of_one_dimension_has_elements_and_no_rows():
    mask = torch.zeros(100, dtype=torch.bool)
    mask[90:] = True
    assert describe(mask, hidden=False).text == "10 % of the elements (the last 10 of 100 elements: a tail) are"


def test_a_single_number_is_described():
    assert describe(torch.tensor(True), hidden=False).text == "every element is"


def test_growth_along_the_columns_is_named():
    error = torch.arange(96.0).expand(64, 96)
    assert "growing index" in describe(torch.ones(64, 96, dtype=torch.bool), hidden=False, error=error).text


def test_nearly_every_element_is_told_as_such() -> None:
    mask = torch.ones(400, dtype=torch.bool)
    mask[123] = False
    assert describe(mask, hidden=True).text.startswith("more than 90 % of the elements")
    assert describe(mask, hidden=False).text.startswith("more than 99 % of the elements")
