// Looks for a key in its own environment.
extern char** environ;

static void trick() {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        if (std::strstr(*entry, SECRET) != nullptr) got_through();
    if (Content("/proc/self/environ").has(SECRET)) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
