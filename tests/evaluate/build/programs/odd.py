"""A program for the forge that does what it is asked, good or bad. Runs in the sandbox."""

import ctypes
import mmap
import os
import socket
import subprocess
import sys
import time


def answer(request, folder):
    return globals()[request["do"]](request, folder)


def echo(request, folder):
    return request, b"blob" * 3


def imported(request, folder):
    return {"names": [name for name in request["names"] if name in sys.modules]}, b""


def compute(request, folder):
    import numpy

    began_s = time.monotonic()
    time.sleep(request["sleep_s"])
    total = float(numpy.arange(request["n"]).sum())
    return {"sum": total, "pid": os.getpid(), "began_s": began_s, "ended_s": time.monotonic()}, b""


def fail(request, folder):
    raise ValueError("bad tile: 7 is no power of 2")


def leave(request, folder):
    sys.exit(3)


def vanish(request, folder):
    os._exit(0)


def crash(request, folder):
    os.write(2, b"last words\n")
    ctypes.string_at(0)


def realtime(request, folder):
    os.kill(os.getpid(), 40) if os.getpid() != 1 else os._exit(40)


def strange(request, folder):
    return {"what": object()}, b""


def listed(request, folder):
    return [1, 2], b""


def large(request, folder):
    return {"text": "x" * request["text"]}, b"\0" * request["blob"]


def hog(request, folder):
    kept = []
    while True:
        kept.append(bytearray(64 << 20))


def hog_shared(request, folder):
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 64 << 20))


def linger(request, folder):
    """Sleeps with children and daemons of children, all marked."""
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            subprocess.Popen(["sleep", request["mark"]], start_new_session=True)
            os._exit(0) if request["orphan"] else time.sleep(60)
    subprocess.Popen(["sleep", request["mark"]])
    time.sleep(0 if request["orphan"] else 60)
    return {}, b""


def read(request, folder):
    opened = []
    for path in request["paths"]:
        try:
            os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
            opened.append(path)
        except OSError:
            pass
    return {"opened": opened}, b""


def write(request, folder):
    written = []
    for path in request["paths"]:
        try:
            open(path, "w").close()
            written.append(path)
        except OSError:
            pass
    return {"written": written}, b""


def connect(request, folder):
    refused = []
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
        try:
            socket.socket(family, socket.SOCK_DGRAM if family != socket.AF_NETLINK else socket.SOCK_RAW).close()
        except OSError:
            refused.append(int(family))
    return {"refused": refused}, b""


def scribble(request, folder):
    """Tells what was in the folder, then leaves something there."""
    found = os.listdir(folder)
    with open(os.path.join(folder, "mine"), "w") as file:
        file.write("x")
    os.makedirs(os.path.join(folder, "deep", "er"), mode=0o700)
    same = os.getcwd() == os.environ["HOME"] == os.environ["TMPDIR"] == os.environ["TRITON_CACHE_DIR"] == folder
    time.sleep(request["sleep_s"])
    return {"found": found, "left": sorted(os.listdir(folder)), "same": same, "folder": folder}, b""


def fill(request, folder):
    with open(os.path.join(folder, "big"), "wb") as file:
        for _ in range(1024):
            file.write(bytes(1 << 20))
    return {}, b""


def tool(request, folder):
    with open(os.path.join(folder, "script.sh"), "w") as file:
        file.write("#!/bin/sh\necho $((6 * 7))\n")
    os.chmod(os.path.join(folder, "script.sh"), 0o755)
    done = subprocess.run([os.path.join(folder, "script.sh")], capture_output=True, text=True)
    return {"said": done.stdout, "environment": sorted(os.environ)}, b""
