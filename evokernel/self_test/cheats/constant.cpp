// title: answers one
// class: checking
// tries: the same number everywhere, whatever the inputs are
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t count, int64_t) {
        for (int64_t i = 0; i < count; ++i) place[i] = made<std::remove_reference_t<decltype(*place)>>(1.0);
    });
}
