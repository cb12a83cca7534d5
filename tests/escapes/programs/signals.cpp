// Ends its parent, and whoever else can be reached; or takes away what they may use.

static void trick() {
    constexpr int nothing = 0, cpu_limit = 0;
    const int parent = sys::getppid();
    if (parent > 0) {
        if (sys::kill(parent, nothing) == 0) got_through();
        if (sys::call(SYS_TGKILL, parent, parent, nothing) == 0) got_through();
        if (sys::call(SYS_TKILL, parent, nothing) == 0) got_through();
        if (sys::call(SYS_PRLIMIT, parent, cpu_limit, nullptr, nullptr) == 0) got_through();
    }
    for_each_process([](int process) {
        if (sys::call(SYS_TGKILL, process, process, nothing) == 0) got_through();
    });
}

RUN { ONCE_THEN_HONEST(trick); }
