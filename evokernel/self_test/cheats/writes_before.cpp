// title: writes one element before its outputs
// class: checking
// tries: keeps a note where it thinks that nobody looks
// stops: smoke

extern "C" void run(EVK_PARAMETERS) {
    honest(EVK_ARGUMENTS);
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t, int64_t) { place[-1] = place[0]; });
}
