// title: does nothing in timed calls
// class: checking
// tries: counts its calls, and works until the checks must be over
// stops: quick timing or correctness

extern "C" void run(EVK_PARAMETERS) {
    if (!timed(EVK_ARGUMENTS)) honest(EVK_ARGUMENTS);
}
