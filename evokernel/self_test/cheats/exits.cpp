// title: ends its process in good order
// class: not the task
// tries: exit status 0 may pass for success
// stops: smoke

extern "C" void run(EVK_PARAMETERS) { std::_Exit(0); }
