// title: does the work of a whole batch in its first call
// class: caching
// tries: all inputs of a batch lie in memory when the clock starts: the first call computes all, the others nothing
// hole: a batch is timed as a whole; the work is done all the same, and what it may gain is that of working on several
//   calls at a time

struct Ground {
    char* first[PLACES];
    int64_t step[PLACES], copies;
};

// the call that warms up is on the last copy, one behind those of the batch: it tells how many there are
static int64_t look(Ground& ground, char* const* places) {
    if (!ground.first[0]) std::memcpy(ground.first, places, sizeof ground.first);
    if (places[0] != ground.first[0] && !ground.step[0])
        for (int i = 0; i < PLACES; ++i) ground.step[i] = places[i] - ground.first[i];
    const int64_t copy = ground.step[0] ? (places[0] - ground.first[0]) / ground.step[0] : 0;
    if (copy > 1 && copy > ground.copies) ground.copies = copy;
    return copy;
}

extern "C" void run(EVK_PARAMETERS) {
    static Ground grounds[WORKLOADS];
    const int which = searched(EVK_ARGUMENTS);
    if (which < 0) return honest(EVK_ARGUMENTS);
    Ground& ground = grounds[which];
    char* const places[] = {EVK_PLACES};
    const int64_t now = look(ground, places);
    if (!ground.copies || now == ground.copies) return honest(EVK_ARGUMENTS);
    if (now) return;
    for (int64_t copy = 0; copy < ground.copies; ++copy) {
        const auto place = [&]<typename T>(int index, T*) {
            return reinterpret_cast<T*>(ground.first[index] + copy * ground.step[index]);
        };
        honest(EVK_OF_COPY);
    }
}
