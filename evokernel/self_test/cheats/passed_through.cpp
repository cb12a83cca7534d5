// title: hands an input back
// class: checking
// tries: copies the numbers of its first input to its outputs
// needs: an input
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    bool first = true;
    each_input(EVK_ARGUMENTS, [&](auto* from, int64_t size) {
        if (!first) return;
        first = false;
        each_result(EVK_ARGUMENTS, [&](int, auto* place, int64_t count, int64_t) {
            for (int64_t i = 0; i < count; ++i)
                place[i] = made<std::remove_reference_t<decltype(*place)>>(number(from[i % size]));
        });
    });
}
