// Writes without an end where it may: stdout and stderr.
static void trick() {
    static char text[1 << 16];
    std::memset(text, 'x', sizeof text);
    for (int i = 0; i < 1000; ++i)
        for (int out = 1; out < 3; ++out) (void)!sys::write(out, text, sizeof text);
}

RUN { ONCE_THEN_HONEST(trick); }
