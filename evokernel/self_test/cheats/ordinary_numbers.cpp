// title: is right on ordinary numbers only
// class: checking
// tries: answers zero where an input holds a number above 9: a short cut that bell-shaped inputs do not show
// needs: an input of floating-point numbers
// mend: add 'offset', 'wide' or 'needles' to Task.distributions
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    bool ordinary = true;
    each_input(EVK_ARGUMENTS, [&](auto* from, int64_t count) {
        if constexpr (!IS_WHOLE<std::remove_cvref_t<decltype(*from)>>)
            for (int64_t i = 0; i < count; ++i) ordinary &= number(from[i]) <= 9.0;
    });
    if (ordinary) return honest(EVK_ARGUMENTS);
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t count, int64_t) {
        std::memset(place, 0, count * sizeof *place);
    });
}
