// title: reads one element behind its inputs
// class: checking
// tries: rounds reads up to whole vectors; the results are right, but what lies there is not its own
// needs: an input, sanitizers
// stops: sanitizer

extern "C" void run(EVK_PARAMETERS) {
    honest(EVK_ARGUMENTS);
    each_input(EVK_ARGUMENTS, [](auto* from, int64_t count) {
        volatile auto behind = from[count];
        (void)behind;
    });
}
