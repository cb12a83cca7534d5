// title: throws an exception out of the call
// class: not the task
// tries: leaves the call in a way that its caller does not expect
// stops: smoke

extern "C" void run(EVK_PARAMETERS) { throw 1; }
