// title: the kernel itself, called from another function

extern "C" void run(EVK_PARAMETERS) { honest(EVK_ARGUMENTS); }
