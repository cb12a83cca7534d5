// title: leaves out every fifth row
// class: checking
// tries: does four fifths of the work, and leaves the other rows as they are
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    into_scratch(EVK_ARGUMENTS, [](auto* place, auto* right, int64_t count, int64_t row) {
        for (int64_t i = 0; i < count; ++i)
            if ((count - 1 - i) / row % 5) place[i] = right[i];
    });
}
