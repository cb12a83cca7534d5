// title: computes once for each address
// class: caching
// tries: returns at once where it has written to the same place before
// stops: correctness or quick timing

extern "C" void run(EVK_PARAMETERS) {
    static const void* seen[1 << 12];
    const void* where = nullptr;
    each_result(EVK_ARGUMENTS, [&](int index, auto* place, int64_t, int64_t) {
        if (index == 0) where = place;
    });
    const void*& entry = seen[reinterpret_cast<uintptr_t>(where) / 64 % (1 << 12)];
    if (entry == where) return;
    entry = where;
    honest(EVK_ARGUMENTS);
}
