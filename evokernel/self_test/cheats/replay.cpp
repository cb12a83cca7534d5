// title: gives the last result again
// class: caching
// tries: once the checks must be over, answers with what it computed in the last of them
// stops: quick timing or correctness

extern "C" void run(EVK_PARAMETERS) {
    static Kept kept[WORKLOADS];
    const int which = searched(EVK_ARGUMENTS);
    if (timed(EVK_ARGUMENTS)) return kept[which].give(EVK_ARGUMENTS);
    honest(EVK_ARGUMENTS);
    if (which >= 0) kept[which].take(EVK_ARGUMENTS);
}
