// Starts a thread that never ends, where threads may be started at all.
#include <system_error>
#include <thread>

static void trick() {
    try {
        std::thread([] { for (volatile int busy = 0;; busy = 1) continue; }).detach();
    } catch (const std::system_error&) {
    }
}

RUN { ONCE_THEN_HONEST(trick); }
