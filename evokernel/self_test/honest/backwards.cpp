// title: the kernel into memory of its own, written out from the last element to the first

extern "C" void run(EVK_PARAMETERS) {
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t) {
        for (int64_t i = count - 1; i >= 0; --i) place[i] = right[i];
    });
}
