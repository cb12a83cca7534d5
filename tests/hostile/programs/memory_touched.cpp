// Takes memory and uses it, as much as it gets; with the sanitizers that is told by this not coming back.
static void trick() {
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
