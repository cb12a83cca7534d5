"""Files of NVIDIA's driver that a sandboxed process must see: device nodes and the folders of libcuda.

Nothing here touches the driver itself.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libcuda.so.1"
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
LIBRARY_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/run/opengl-driver/lib")
LDCONFIG_TIMEOUT_S = 10.0


def nvidia_nodes() -> tuple[str, ...]:
    """Return the device nodes that computing needs and that exist: the GPUs in order, then the control nodes."""
    found = [re.fullmatch(r"nvidia(\d+)", path.name) for path in Path("/dev").glob("nvidia*")]
    gpus = [f"/dev/nvidia{number}" for number in sorted(int(match[1]) for match in found if match)]
    return tuple(path for path in (*gpus, *CONTROL_NODES) if Path(path).is_char_device())


def cuda_library_folders() -> tuple[str, ...]:
    """Return the folders with libcuda.so.1, those on LD_LIBRARY_PATH first; for a link, its target's folder too."""
    folders: dict[str, None] = {}
    for folder in _candidates():
        library = Path(folder, LIBRARY)
        if folder and library.is_file():
            folders |= {str(library.absolute().parent): None, str(library.resolve().parent): None}
    return tuple(folders)


def _candidates() -> Iterator[str]:
    yield from os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    yield from _known_to_the_loader()
    yield from LIBRARY_FOLDERS


def _known_to_the_loader() -> list[str]:
    program = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if program is None:
        return []
    try:
        listed = subprocess.run(
            [program, "-p"], capture_output=True, text=True, timeout=LDCONFIG_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.findall(rf"^\s{re.escape(LIBRARY)} .*=> (\S+)", listed.stdout, re.MULTILINE)
    return [str(Path(path).parent) for path in found]
