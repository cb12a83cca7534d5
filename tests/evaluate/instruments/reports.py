"""What the tools print, in the formats of Nsight Compute 2024 and 2025 and of compute-sanitizer 2024 and 2025."""

from collections.abc import Mapping, Sequence

from evokernel.evaluate.instruments.counters import METRICS

COLUMNS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
)
UNITS = {
    "time_ns": "ns",
    "issue_cycles": "inst",
    "memory_wait_cycles": "inst",
    "barrier_wait_cycles": "inst",
    "registers": "register/thread",
    "grid_blocks": "",
    "waves": "",
    "shared_wavefronts": "",
    "bank_conflicts": "",
    "load_requests": "request",
    "store_requests": "request",
}
QUIET: Mapping[str, float] = {
    "time_ns": 50_000.0,
    "dram_pct": 20.0,
    "l2_pct": 20.0,
    "l2_sectors": 1_000_000.0,
    "tensor_pct": 0.0,
    "fma_pct": 20.0,
    "alu_pct": 20.0,
    "special_pct": 5.0,
    "issue_pct": 30.0,
    "warps_pct": 60.0,
    "shared_pct": 10.0,
    "shared_wavefronts": 100_000.0,
    "bank_conflicts": 1_000.0,
    "load_sectors": 800_000.0,
    "load_requests": 50_000.0,
    "store_sectors": 200_000.0,
    "store_requests": 12_500.0,
    "local_sectors": 0.0,
    "issue_cycles": 10.0,
    "memory_wait_cycles": 1.0,
    "barrier_wait_cycles": 0.5,
    "grid_blocks": 4096.0,
    "waves": 3.9,
    "registers": 40.0,
}
"""Counters of a kernel about which there is nothing to say."""
REFUSED = (
    "==PROF== Connected to process 17664 (/usr/bin/python3.12)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n==PROF== Disconnected from process 17664\n"
)
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_RACE = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale+0xd0 in /home/somebody/tmp/kernel.py:9
=========     by thread (31,0,0) in block (137,0,0)
=========     Access at 0x7f241b0001e0 is out of bounds
=========     and is 33 bytes after the nearest allocation at 0x7f241b000000 of size 448 bytes
=========
========= Invalid __global__ read of size 16 bytes
=========     at 0x250 in /home/somebody/tmp/kernel.py:7:scale
=========     by thread (0,0,0) in block (138,0,0)
=========     Address 0x7f241b0003e2 is misaligned
=========
========= ERROR SUMMARY: 2 errors
"""
OPERANDS = """\
========= COMPUTE-SANITIZER
========= Invalid __shared__ ? of size 2048 bytes
=========     at 0x2570 in /root/kernel.py:223:matmul
=========     by thread (224,0,0) in block (4,0,0)
=========     Address 0x1bc20 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reverse+0x150 in kernel.cu:27
=========     and Read access at reverse+0x160 in kernel.cu:30 [4194304 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SAME_PLACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at total+0x5ad20 in /usr/lib/triton/language/standard.py:237
=========     and Write access at total+0x5ad20 in /usr/lib/triton/language/standard.py:237 [6136 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def launch(kernel: str = "scale", **counters: float) -> tuple[str, Mapping[str, float]]:
    """Return a launch of a quiet kernel but for some counters."""
    return kernel, {**QUIET, **counters}


def raw_page(*launches: tuple[str, Mapping[str, float]], grouped: bool = True) -> str:
    """Return what `--csv --page raw` prints: a row of units, then a row for each launch."""
    header = [*COLUMNS, *METRICS.values()]
    units = [""] * len(COLUMNS) + [_unit(name) for name in METRICS]
    rows = [header, units]
    for number, (kernel, counters) in enumerate(launches):
        fixed = [str(number), "4321", "python3.12", "127.0.0.1", kernel, "1", "7", "(256, 1, 1)", "(4096, 1, 1)", "0"]
        values = [f"{counters[name]:{',' if grouped else ''}.6g}" if name in counters else "n/a" for name in METRICS]
        rows.append([*fixed, "9.0", *values])
    return _around([_line(row) for row in rows])


def details_page(*launches: tuple[str, Mapping[str, float]]) -> str:
    """Return what `--csv` alone prints: a row for each counter of each launch."""
    rows = [[*COLUMNS, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]]
    for number, (kernel, counters) in enumerate(launches):
        fixed = [str(number), "4321", "python3.12", "127.0.0.1", kernel, "1", "7", "(256, 1, 1)", "(4096, 1, 1)", "0"]
        for name, value in counters.items():
            rows.append([*fixed, "9.0", "Command line profiler metrics", METRICS[name], _unit(name), f"{value:,.6g}"])
    return _around([_line(row) for row in rows])


def _unit(name: str) -> str:
    return UNITS.get(name, "%" if name.endswith("_pct") else "sector")


def _line(cells: Sequence[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def _around(lines: Sequence[str]) -> str:
    begin = "==PROF== Connected to process 4321 (/usr/bin/python3.12)\n"
    progress = '==PROF== Profiling "scale" - 0: 0%....50%....100% - 9 passes\n'
    return begin + progress + "==PROF== Disconnected from process 4321\n" + "\n".join(lines) + "\n"
