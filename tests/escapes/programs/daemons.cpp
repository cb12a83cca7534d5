// Busy processes that leave the process group and lose their parent.
static void trick() {
    bool started = false;
    for (int i = 0; i < 3; ++i) {
        const int child = sys::fork();
        started |= child > 0;
        if (child == 0) {
            sys::setsid();
            sys::fork();
            for (volatile int busy = 0;; busy = 1) continue;
        }
    }
    if (started) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
