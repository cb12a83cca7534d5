// title: leaves out every fifth row in timed calls
// class: checking
// tries: counts its calls, and does all of the work until the checks must be over
// stops: quick timing or correctness

extern "C" void run(EVK_PARAMETERS) {
    if (!timed(EVK_ARGUMENTS)) return honest(EVK_ARGUMENTS);
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t row) {
        for (int64_t i = 0; i < count; ++i)
            if ((count - 1 - i) / row % 5) place[i] = right[i];
    });
}
