// Writes as much as it can wherever it can, many files.
static void trick() {
    static char block[1 << 16];
    std::size_t written = 0;
    const char* folders[] = {".", "/", "/tmp", "/var/tmp", "/dev/shm", "/dev", "/run", "/evokernel/scratch", FOLDER "/open"};
    for (const char* folder : folders) {
        for (int file = 0; file < 64; ++file) {
            char path[256];
            std::snprintf(path, sizeof path, "%s/" TOKEN "-%d", folder, file);
            const int out = sys::open(path, CREATE | READ_WRITE, 0666);
            if (out < 0) break;
            const long size = sys::write(out, block, sizeof block);
            written += size < 0 ? 0 : static_cast<std::size_t>(size);
            sys::close(out);
        }
    }
    if (written > 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
