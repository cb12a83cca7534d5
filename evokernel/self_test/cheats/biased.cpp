// title: is off by a little everywhere
// class: checking
// tries: an error of four tolerances in each element, and of one in whole numbers
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    honest(EVK_ARGUMENTS);
    each_result(EVK_ARGUMENTS, [](int index, auto* place, int64_t count, int64_t) {
        using T = std::remove_reference_t<decltype(*place)>;
        for (int64_t i = 0; i < count; ++i) {
            if constexpr (IS_WHOLE<T>)
                place[i] += 1;
            else
                place[i] = made<T>(number(place[i]) * (1.0 + 4.0 * BIAS[index]));
        }
    });
}
