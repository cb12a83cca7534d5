// title: answers zero
// class: checking
// tries: passes where results are small beside an absolute tolerance
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t count, int64_t) {
        std::memset(place, 0, count * sizeof *place);
    });
}
