// Takes all the memory it may have and gives none back, so that the buffers of later calls find no room.
static void trick() {
    if (SANITIZED) return;  // nothing limits its addresses there, see memory_touched.cpp
    static void* volatile last;  // or the compiler would leave the calls out
    for (std::size_t block = 64 << 20; block >= 4 << 10; block /= 2)
        do last = std::malloc(block);
        while (last != nullptr);
}

RUN { ONCE_THEN_HONEST(trick); }
