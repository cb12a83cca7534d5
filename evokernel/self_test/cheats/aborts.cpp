// title: aborts
// class: not the task
// tries: a crash may pass for an answer
// stops: smoke

extern "C" void run(EVK_PARAMETERS) { std::abort(); }
