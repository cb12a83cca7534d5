// Put before every program of this folder. Candidates may include standard headers only, so what else they call is
// declared here, under names of our own. A program whose trick is refused computes the right product; one that gets
// through says so by how it ends.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sys {
extern "C" {
int access(const char*, int) asm("access");
int chmod(const char*, unsigned) asm("chmod");
int close(int) asm("close");
int fcntl(int, int, ...) asm("fcntl");
int fork() asm("fork");
int getpid() asm("getpid");
int getppid() asm("getppid");
unsigned getuid() asm("getuid");
int kill(int, int) asm("kill");
int mkdir(const char*, unsigned) asm("mkdir");
int open(const char*, int, ...) asm("open");
long read(int, void*, std::size_t) asm("read");
int rename(const char*, const char*) asm("rename");
int setsid() asm("setsid");
int socket(int, int, int) asm("socket");
int socketpair(int, int, int, int*) asm("socketpair");
int symlink(const char*, const char*) asm("symlink");
long call(long, ...) asm("syscall");
int truncate(const char*, long) asm("truncate");
int unlink(const char*) asm("unlink");
int utimensat(int, const char*, const void*, int) asm("utimensat");
long write(int, const void*, std::size_t) asm("write");
}
}  // namespace sys

#ifdef __SANITIZE_ADDRESS__
constexpr bool SANITIZED = true;
#else
constexpr bool SANITIZED = false;
#endif
#ifdef __x86_64__
constexpr long SYS_PTRACE = 101, SYS_TGKILL = 234, SYS_TKILL = 200, SYS_PRLIMIT = 302;
constexpr long SYS_MADVISE = 28, SYS_PRCTL = 157;
#else
constexpr long SYS_PTRACE = 117, SYS_TGKILL = 131, SYS_TKILL = 130, SYS_PRLIMIT = 261;
constexpr long SYS_MADVISE = 233, SYS_PRCTL = 167;
#endif
constexpr int READ_ONLY = 0, READ_WRITE = 2, CREATE = 0100;

// A worker says it by a signal, which is told even on hidden shapes; the sanitizers would catch that one.
[[noreturn]] inline void got_through() {
    if (SANITIZED) std::_Exit(42);
    __builtin_trap();
}

inline void multiply(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }
}

// The beginning of a file; empty where it cannot be read.
struct Content {
    char text[1 << 14] = {};
    long size = 0;

    explicit Content(const char* path) {
        const int file = sys::open(path, READ_ONLY);
        if (file < 0) return;
        size = sys::read(file, text, sizeof text - 1);
        if (size < 0) size = 0;
        sys::close(file);
    }

    bool has(const char* words) const {  // in an environment, a NUL follows each variable
        const long length = static_cast<long>(std::strlen(words));
        for (long at = 0; at + length <= size; ++at)
            if (std::memcmp(text + at, words, length) == 0) return true;
        return false;
    }
};

inline int parent_of(int process) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/stat", process);
    const Content stat(path);
    const char* end = std::strrchr(stat.text, ')');
    return end == nullptr ? 0 : std::atoi(end + 4);
}

// Calls a function with the number of each other process: those above this one, and all with a small number.
template <typename F> void for_each_process(F&& look) {
    for (int above = sys::getppid(); above > 0; above = parent_of(above)) look(above);
    for (int number = 1; number < 1 << 16; ++number) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d", number);
        if (number != sys::getpid() && sys::access(path, 0) == 0) look(number);
    }
}

// What a trick does, it does once; then the product is right.
#define ONCE_THEN_HONEST(trick)                \
    static const bool tried = (trick(), true); \
    (void)tried;                               \
    multiply(a, b, M, N, K, c)
#define RUN extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c)
