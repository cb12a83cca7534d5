"""What keeps the full sandbox from working, as the kernel's files tell."""

from pathlib import Path

import pytest

from evokernel.doctor.machine import sandbox_obstacles

COVERED = "30 29 0:5 /null /proc/keys rw,relatime - devtmpfs udev rw\n"
ALL, NONE = "000001ffffffffff", "0000000000000000"


@pytest.mark.parametrize(
    ("most", "held", "mounts", "root", "said"),
    [
        ("15000", ALL, COVERED, True, []),
        ("15000", NONE, "", False, []),
        ("0", NONE, "", False, ["user namespaces are off"]),
        ("15000", NONE, "", True, ["root without capabilities"]),
        ("15000", NONE, COVERED, False, ["parts of /proc are covered"]),
        ("0", NONE, COVERED, True, ["user namespaces are off", "root without", "parts of /proc"]),
    ],
)
def test_each_obstacle_is_named(tmp_path: Path, most: str, held: str, mounts: str, root: bool, said: list[str]) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "sys" / "user").mkdir(parents=True)
    (tmp_path / "sys" / "user" / "max_user_namespaces").write_text(f"{most}\n")
    (tmp_path / "self" / "status").write_text(f"Name:\tx\nCapEff:\t{held}\n")
    (tmp_path / "self" / "mountinfo").write_text(mounts)
    found = list(sandbox_obstacles(tmp_path, root=root))
    assert len(found) == len(said)
    for sentence, begin in zip(found, said, strict=True):
        assert sentence.startswith(begin)
