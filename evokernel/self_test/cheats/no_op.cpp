// title: does nothing
// class: stealing
// tries: hopes that its outputs lie where an answer was before
// stops: smoke

extern "C" void run(EVK_PARAMETERS) {}
