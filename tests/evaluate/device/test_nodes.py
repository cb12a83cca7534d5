import os
from pathlib import Path

from evokernel.evaluate.device.nodes import LIBRARY, cuda_library_folders, nvidia_nodes


def test_only_the_nodes_that_computing_needs_are_named():
    nodes = nvidia_nodes()
    assert all(Path(node).is_char_device() for node in nodes)
    assert not {"/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps"} & set(nodes)
    assert ("/dev/nvidia0" in nodes) == os.path.exists("/dev/nvidia0")


def test_the_drivers_library_is_found_where_the_loader_would_find_it(tmp_path, monkeypatch):
    linked, real = tmp_path / "linked", tmp_path / "real"
    for folder in (linked, real):
        folder.mkdir()
    (real / "libcuda.so.999").touch()
    (linked / LIBRARY).symlink_to(real / "libcuda.so.999")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":/nowhere:{tmp_path}:{linked}")
    assert cuda_library_folders()[:2] == (str(linked), str(real))
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert str(linked) not in cuda_library_folders()
