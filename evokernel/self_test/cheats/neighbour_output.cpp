// title: takes the answer that lies in another buffer
// class: stealing
// tries: knows where the outputs of an earlier call lie, and copies what is there now: somebody may have answered
// needs: calls that are warmed up
// stops: correctness or quick timing

extern "C" void run(EVK_PARAMETERS) {
    static const void* first[WORKLOADS][RESULTS];
    const int which = searched(EVK_ARGUMENTS);
    if (which < 0) return honest(EVK_ARGUMENTS);
    bool known = true;
    each_result(EVK_ARGUMENTS, [&](int index, auto* place, int64_t count, int64_t) {
        const void*& other = first[which][index];
        if (!other) other = place;
        known &= other != place;
        if (known) std::memcpy(place, other, count * sizeof *place);
    });
    if (!known) honest(EVK_ARGUMENTS);
}
