// title: answers NaN
// class: checking
// tries: no comparison with NaN is true, so a careless check finds no error
// needs: a result of floating-point numbers
// stops: smoke

extern "C" void run(EVK_PARAMETERS) {
    honest(EVK_ARGUMENTS);
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t count, int64_t) {
        using T = std::remove_reference_t<decltype(*place)>;
        if constexpr (!IS_WHOLE<T>)
            for (int64_t i = 0; i < count; ++i) place[i] = made<T>(__builtin_nan(""));
    });
}
