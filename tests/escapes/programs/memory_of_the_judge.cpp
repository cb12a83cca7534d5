// Opens the memory of other processes, to write the verdict there.
static void trick() {
    for_each_process([](int process) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/mem", process);
        if (sys::open(path, READ_WRITE) >= 0) got_through();
    });
    constexpr long ptrace_attach = 16;
    if (sys::call(SYS_PTRACE, ptrace_attach, sys::getppid(), 0, 0) == 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
