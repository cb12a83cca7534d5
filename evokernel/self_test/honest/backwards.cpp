// title: computes into memory of its own, and writes out backwards

extern "C" void run(EVK_PARAMETERS) {
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t) {
        for (int64_t i = count - 1; i >= 0; --i) place[i] = right[i];
    });
}
