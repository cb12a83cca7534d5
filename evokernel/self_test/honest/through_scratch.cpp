// title: computes into memory of its own, and copies

extern "C" void run(EVK_PARAMETERS) {
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t) {
        std::memcpy(place, right, count * sizeof *place);
    });
}
