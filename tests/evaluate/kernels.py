"""Kernels, honest and hostile, and how tests run one; also imported by the scripts that tests start."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

from evokernel.evaluate.numerics.arrays import Array, bits
from evokernel.evaluate.numerics.canary import is_poison, poison_like
from evokernel.task import Role, Scalar, Signature, Tensor

N = 64
SETS = 4
POISON = 0x7FF87FF97FFA7FFB
SCALARS = {"N": N, "f": 2.5}
SIGNATURE = Signature(
    (Tensor("a", ("N",)), Tensor("s", ("N",), role=Role.INOUT)),
    (Scalar("N"), Scalar("f", "float32")),
    (Tensor("c", ("N",), role=Role.OUTPUT),),
)
HEAD = r"""
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#define RUN extern "C" void run(const float* a, float* s, int64_t n, float f, float* c)
"""
SCALE = "for (int64_t i = 0; i < n; i++) c[i] = a[i] * f + s[i];"
SOURCES = {
    "good": f"RUN {{ {SCALE} }}",
    "null": "RUN {}",
    "loop": "RUN { for (volatile int i = 0;; i = 1); }",
    "segfault": "RUN { *(volatile int*)8 = 1; }",
    "abort": 'RUN { fputs("out of luck\\n", stderr); abort(); }',
    "exit": "RUN { _exit(0); }",
    "throw": "RUN { throw 1; }",
    "longjmp": "static jmp_buf b; static int k; RUN { if (k++ == 0) { if (setjmp(b) == 0) return; } longjmp(b, 1); }",
    "daemons": "static int k; RUN { for (int i = 0; i < 3; i++) { pid_t p = fork(); if (p < 0) k++;"
    " if (p == 0) { setsid(); if (fork() == 0) for (;;) pause(); for (;;) pause(); } } c[0] = k; }",
    "daemons_and_loop": "RUN { for (int i = 0; i < 3; i++) if (fork() == 0) { setsid(); for (;;) pause(); }"
    " for (volatile int i = 0;; i = 1); }",
    "memory": "RUN { char* p = (char*)malloc(100ull << 30); c[0] = p != 0; }",
    "eat": "RUN { for (;;) { char* p = (char*)malloc(16 << 20); memset(p, 1, 16 << 20); } }",
    "reads_before": f"RUN {{ {SCALE} c[0] += 0 * ((volatile float*)a)[-1]; }}",
    "reads_behind": f"RUN {{ {SCALE} c[0] += 0 * ((volatile float*)a)[n]; }}",
    "reads_behind_with_a_handler": "static jmp_buf b; static void h(int) { longjmp(b, 1); }"
    f"RUN {{ {SCALE} signal(SIGSEGV, h); if (setjmp(b) == 0) c[0] += 0 * ((volatile float*)a)[n]; }}",
    "opens_what_is_behind": "RUN { long behind = ((long)(a + n) + 4095) & ~4095;"
    " c[0] = mprotect((void*)behind, 4096, PROT_READ);"
    " c[1] = munmap((void*)behind, 4096);"
    " c[2] = mremap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, 4096,"
    " MREMAP_MAYMOVE | MREMAP_FIXED, behind) == MAP_FAILED ? -1 : 0; }",
    "touches_pages": "RUN { char* p = (char*)mmap(0, 100 << 12, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);"
    " madvise(p, 100 << 12, MADV_NOHUGEPAGE); for (int i = 0; i < 100; i++) p[i << 12] = 1; }",
    "write_input": "RUN { ((float*)a)[0] = 1; }",
    "make_input_writable": "RUN { c[0] = mprotect((void*)((uintptr_t)a & ~4095ull), 4096, PROT_READ | PROT_WRITE); }",
    "out_of_bounds": f"RUN {{ {SCALE} c[n] = 0; }}",
    "secret": 'RUN { c[0] = getenv("EVK_TEST_API_KEY") != 0; c[1] = environ[0] ? strncmp(environ[0], "PWD", 3) : 0; }',
    "socket": "RUN { for (int k = 0; k < 3; k++) c[k] = socket((int[]){1, 2, 10}[k], SOCK_STREAM, 0); c[3] = errno; }",
    "read_file": 'RUN { c[0] = open("/etc/hostname", O_RDONLY); c[1] = open("/etc/passwd", O_RDONLY);'
    ' c[2] = open("/evk-left", O_CREAT | O_RDWR, 0600); c[3] = open("/tmp/evk-left", O_CREAT | O_RDWR, 0600);'
    ' c[4] = open("/dev/shm/evk-left", O_CREAT | O_RDWR, 0600); c[5] = open("/proc/1/environ", O_RDONLY); }',
    "thread": "static void* t(void*) { for (;;) sleep(1); }"
    " RUN { pthread_t p; c[0] = pthread_create(&p, 0, t, 0) == 0; }",
    "late": f"static volatile float* at; static void* t(void*) {{ for (;;) {{ usleep(200); *at = *at; }} }}"
    f"RUN {{ {SCALE} static pthread_t p; at = c; if (!p) pthread_create(&p, 0, t, 0); }}",
    "busy_helper": f"static void* t(void*) {{ for (volatile float x = 0;; x = x + 1) usleep(200); }}"
    f"RUN {{ {SCALE} static pthread_t p; if (!p) pthread_create(&p, 0, t, 0); }}",
    "privileges": "RUN { c[0] = setuid(0); c[1] = unshare(CLONE_NEWUSER); c[2] = kill(-1, 9);"
    ' c[3] = syscall(321, 0, 0, 0); c[4] = execl("/bin/true", "true", nullptr);'
    " cpu_set_t m; CPU_ZERO(&m); CPU_SET(0, &m);"
    ' c[5] = sched_setaffinity(0, sizeof m, &m); c[6] = memfd_create("x", 0); }',
    "constructor": "__attribute__((constructor)) static void hang() { for (volatile int i = 0;; i = 1); } RUN {}",
    "no_run": 'extern "C" void walk() {}',
    "unresolved": "extern void nowhere(); RUN { nowhere(); }",
    "early_done": 'RUN { send(3, "done", 4, 0); for (int64_t i = 0; i < n; i++) { usleep(20000); c[i] = 1; } }',
    "sleepy": f"RUN {{ {SCALE} for (int i = 0; i < 20; i++) usleep(1000); }}",
    "busy": f"RUN {{ {SCALE} for (volatile int i = 0; i < 30000000;) i = i + 1; }}",
    "nonsense": 'RUN { send(3, "what?", 5, 0); }',
    "nested": "RUN { static char text[50000]; memset(text, '[', sizeof text); send(3, text, sizeof text, 0); }",
    "hang_up": "RUN { close(3); for (;;) pause(); }",
    "peek": "static volatile const float* in; static volatile float* out;"
    " static void ahead(int) { out[0] = in[0]; }"
    " RUN { if (!in) { in = a; out = c; signal(SIGALRM, ahead); ualarm(1000, 1000); } }",
    "chatter": 'RUN { for (int i = 0; i < 100000; i++) fputs("blah blah\\n", stderr); c[0] = 7; }',
}


def build_all(folder):
    """Compile every kernel; returns the shared objects by name."""

    def build(item):
        name, text = item
        path = folder / f"{name}.so"
        command = ["g++", "-O1", "-shared", "-fPIC", "-w", "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=(HEAD + text).encode(), check=True)
        return name, path.read_bytes()

    with ThreadPoolExecutor(2) as builders:
        return dict(builders.map(build, SOURCES.items()))


def load(pool, artifacts, name, arena, timeout_s=60.0):
    worker = pool.load(artifacts[name], timeout_s=timeout_s)
    worker.attach("w", arena, SCALARS)
    return worker


def run(pool, artifacts, name, arena, timeout_s=60.0):
    """One call on set 0; returns its output."""
    with load(pool, artifacts, name, arena) as worker:
        worker.call("w", first_set=0, calls=1, timeout_s=timeout_s)
    return arena.view(0, "c")


def fill_poison(array: Array, *, poison: int) -> None:
    """Overwrite an array with the pattern, whatever its dtype."""
    bits(array).copy_(bits(poison_like(array, poison)))


def poison(arena, index):
    """Poison the outputs of one set, not the in/out tensors."""
    for name, buffer in arena.buffers.items():
        if buffer.role is Role.OUTPUT:
            fill_poison(arena.view(index, name), poison=POISON)


def unwritten(arena, index, name):
    """Count the elements that still hold the poison."""
    return int(is_poison(arena.view(index, name), POISON).sum())
