// title: leaves the work to a thread and returns
// class: clock
// tries: starts a thread for the work and does not wait for it
// stops: smoke

int start(unsigned long*, const void*, void* (*)(void*), void*) asm("pthread_create");
int sleep_us(unsigned) asm("usleep");

static void (*job)();

extern "C" void run(EVK_PARAMETERS) {
    static auto work = [=] { honest(EVK_ARGUMENTS); };
    job = [] { work(); };
    unsigned long thread;
    const auto body = [](void*) -> void* {
        sleep_us(3000);
        job();
        return nullptr;
    };
    start(&thread, nullptr, body, nullptr);
}
