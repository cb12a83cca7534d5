// Threads that are left behind, until there are no more.
#include <system_error>
#include <thread>

static void trick() {
    int started = 0;
    try {
        for (; started < 1000; ++started)
            std::thread([] { for (volatile int busy = 0;; busy = 1) continue; }).detach();
    } catch (const std::system_error&) {
    }
    if (started > 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
