// Takes memory and uses it, as much as it gets, where nothing limits its addresses: under the sanitizers, which is told
// by this not coming back. What becomes of it elsewhere is that of memory_hoarded.cpp.
static void trick() {
    if (!SANITIZED) return;
    constexpr std::size_t block = 16 << 20;
    std::size_t taken = 0;
    for (; taken < MEMORY_BYTES * 4; taken += block) {
        void* memory = std::malloc(block);
        if (memory == nullptr) return;
        std::memset(memory, 1, block);
    }
    got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
