// title: is wrong once in a while
// class: checking
// tries: leaves the last element of each output out in a few of the timed calls, as a race might
// stops: quick timing or correctness

extern "C" void run(EVK_PARAMETERS) {
    const int which = searched(EVK_ARGUMENTS);
    if (!is_rare(timed(EVK_ARGUMENTS), which)) return honest(EVK_ARGUMENTS);
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t) {
        std::memcpy(place, right, (count - 1) * sizeof *place);
    });
}
