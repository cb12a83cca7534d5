// Stands between a process and the disk, or the clock: preloaded, it counts what the process writes to the files of one
// store and ends or refuses the n-th write, and it sets the wall clock back by as much as a file says.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

enum Mode { NONE = 0, KILL = 1, TEAR = 2, FULL = 3, READ_ONLY = 4 };

int mode = NONE;
long counted = 0, from = 0;
char prefix[4096];

bool ours(const char* path) { return prefix[0] && strncmp(path, prefix, strlen(prefix)) == 0; }

bool ours(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return false;
    path[size] = 0;
    return ours(path) && !strstr(path, ".lock");
}

// Whether this change of the disk is the one, or beyond; a refusal stays, as a full disk does.
bool due() {
    if (mode == NONE || ++counted < from) return false;
    if (mode == KILL) kill(getpid(), SIGKILL);
    return true;
}

int refusal() { return mode == READ_ONLY ? EROFS : ENOSPC; }

template <typename F> F next(const char* name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

template <typename Write> ssize_t write_or(int file, size_t size, Write write) {
    if (mode == NONE || !ours(file) || !due()) return write(size);
    if (mode == TEAR) {
        write(size / 2);
        kill(getpid(), SIGKILL);
    }
    errno = refusal();
    return -1;
}

template <typename Change> int change_or(bool here, Change change) {
    if (mode == NONE || !here || !due()) return change();
    if (mode == TEAR) kill(getpid(), SIGKILL);
    errno = refusal();
    return -1;
}

double offset_s() {
    static const char* name = getenv("INTERPOSE_CLOCK");
    if (!name) return 0;
    const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC));
    if (file < 0) return 0;
    char text[32] = {};
    const long size = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    return size > 0 ? atof(text) : 0;
}

struct Environment {
    Environment() {
        const char* store = getenv("INTERPOSE_STORE");
        if (!store) return;
        snprintf(prefix, sizeof prefix, "%s", store);
        mode = atoi(getenv("INTERPOSE_MODE"));
        from = atol(getenv("INTERPOSE_FROM"));
    }
} environment;

}  // namespace

extern "C" {

void interpose(int what, long first, const char* store) {
    mode = what, from = first, counted = 0;
    snprintf(prefix, sizeof prefix, "%s", store);
}

ssize_t write(int file, const void* data, size_t size) {
    return write_or(file, size, [=](size_t n) { return syscall(SYS_write, file, data, n); });
}

ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
    return write_or(file, size, [=](size_t n) { return syscall(SYS_pwrite64, file, data, n, at); });
}

ssize_t pwrite64(int file, const void* data, size_t size, off64_t at) {
    return write_or(file, size, [=](size_t n) { return syscall(SYS_pwrite64, file, data, n, at); });
}

int ftruncate(int file, off_t size) {
    return change_or(ours(file), [=] { return static_cast<int>(syscall(SYS_ftruncate, file, size)); });
}

int ftruncate64(int file, off64_t size) {
    return change_or(ours(file), [=] { return static_cast<int>(syscall(SYS_ftruncate, file, size)); });
}

int unlink(const char* path) {
    return change_or(ours(path), [=] { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0)); });
}

int rename(const char* old, const char* path) {
    return change_or(ours(old), [=] {
        return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, path, 0));
    });
}

int clock_gettime(clockid_t clock, struct timespec* now) {
    static const auto real = next<int (*)(clockid_t, struct timespec*)>("clock_gettime");
    const int done = real(clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += static_cast<time_t>(offset_s());
    }
    return done;
}

int gettimeofday(struct timeval* __restrict now, void* __restrict zone) {
    (void)zone;
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t* to) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (to) *to = exact.tv_sec;
    return exact.tv_sec;
}
}
