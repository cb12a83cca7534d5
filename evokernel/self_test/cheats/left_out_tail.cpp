// title: leaves out the end of each output
// class: checking
// tries: computes all but the last element, which is the remainder that a vector loop forgets
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t) {
        std::memcpy(place, right, (count - 1) * sizeof *place);
    });
}
