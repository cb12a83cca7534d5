"""Run as a process of its own: maps the arena it is sent, does what its argument says, and prints what came of it."""

import json
import os
import socket
import sys
from typing import Any

import torch

from evokernel.evaluate.inside.driver import virtual_memory
from evokernel.evaluate.inside.driver.device_sets import DeviceSets


def compute(tensors: dict[str, Any]) -> None:
    torch.mul(tensors["a"], 2, out=tensors["c"])
    tensors["h_out"].copy_(tensors["h"])
    tensors["x"].add_(1)


def write_input(tensors: dict[str, Any]) -> None:
    tensors["a"].add_(1)


def overrun(tensors: dict[str, Any]) -> None:
    out = tensors["c"]
    out.as_strided((out.numel() + 1,), (1,), out.storage_offset()).fill_(3)


def main(channel: socket.socket, action: str) -> None:
    torch.zeros(1, device="cuda")
    message, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 2)
    error = ""
    try:
        for tensors in DeviceSets(json.loads(message), descriptors).tensors:
            {"compute": compute, "write_input": write_input, "overrun": overrun}[action](tensors)
        torch.cuda.synchronize()
    except RuntimeError as caught:
        error = str(caught)
    try:
        virtual_memory.synchronize()
        whole = True
    except virtual_memory.CudaError:
        whole = False
    print(json.dumps({"error": error, "context_ok": whole}), flush=True)
    os._exit(0)  # a broken context cannot be taken down in order


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
