// Looks for whatever the candidates before it might have left: modes, files, descriptors, processes, memory.
#include <cfenv>
#include <initializer_list>
#ifdef __x86_64__
#include <immintrin.h>
#endif

static void trick() {
    if (std::fegetround() != FE_TONEAREST) got_through();
#ifdef __x86_64__
    if ((_mm_getcsr() & 0xffc0) != 0x1f80) got_through();
#endif
    for (const char* folder : {".", "/tmp", "/var/tmp", "/dev/shm", "/evokernel/scratch", FOLDER "/open"})
        for (const char* name : {TOKEN, TOKEN "-0"}) {
            char path[256];
            std::snprintf(path, sizeof path, "%s/%s", folder, name);
            if (sys::open(path, READ_ONLY) >= 0) got_through();
        }
    for (int file = 4; !SANITIZED && file < 256; ++file)
        if (sys::fcntl(file, 1) >= 0) got_through();
    const Content status("/proc/self/status");
    if (status.size > 0 && !status.has("Threads:\t1\n")) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
