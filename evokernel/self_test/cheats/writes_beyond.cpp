// title: writes one element behind its outputs
// class: checking
// tries: rounds the work up to whole vectors, which no comparison of the outputs shows
// stops: smoke

extern "C" void run(EVK_PARAMETERS) {
    honest(EVK_ARGUMENTS);
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t count, int64_t) { place[count] = place[0]; });
}
