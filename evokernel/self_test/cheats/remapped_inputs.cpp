// title: puts memory of its own over its inputs
// class: checking
// tries: inputs are read-only, so it maps zeros in their place, and answers the easy question
// needs: an input
// stops: smoke or correctness

void* map(void*, unsigned long, int, int, int, long) asm("mmap");

extern "C" void run(EVK_PARAMETERS) {
    each_input(EVK_ARGUMENTS, [](auto* from, int64_t count) {
        const uintptr_t first = reinterpret_cast<uintptr_t>(from) & ~4095ul;
        const uintptr_t end = reinterpret_cast<uintptr_t>(from + count);
        map(reinterpret_cast<void*>(first), end - first, 3, 0x32, -1, 0);
    });
    honest(EVK_ARGUMENTS);
}
