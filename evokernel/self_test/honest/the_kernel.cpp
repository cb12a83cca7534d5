// title: calls the right kernel

extern "C" void run(EVK_PARAMETERS) { honest(EVK_ARGUMENTS); }
