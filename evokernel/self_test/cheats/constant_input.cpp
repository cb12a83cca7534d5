// title: takes one input for a constant
// class: caching
// tries: packs its last input once for each search workload, as weights that never change, and reads it no more
// needs: several inputs
// stops: correctness or quick timing

extern "C" void run(EVK_PARAMETERS) {
    static Block packed[WORKLOADS];
    const int which = searched(EVK_ARGUMENTS);
    if (which < 0) return honest(EVK_ARGUMENTS);
    Block& block = packed[which];
    if (!block.data) {
        block.room(EVK_LAST_INPUT, EVK_LAST_COUNT);
        std::memcpy(block.data, EVK_LAST_INPUT, (EVK_LAST_COUNT) * sizeof *EVK_LAST_INPUT);
    }
    const auto constant = reinterpret_cast<decltype(EVK_LAST_INPUT)>(block.data);
    honest(EVK_WITH(constant));
}
