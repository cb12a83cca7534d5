"""Files that hold what was looked at and found good; EVOKERNEL_GOLDEN=write writes them anew."""

import os
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def compare_golden(name: str, text: str) -> None:
    """Compare a text with a golden file, without blanks at the ends of lines."""
    text = "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"
    file = GOLDEN / name
    if os.environ.get("EVOKERNEL_GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()
