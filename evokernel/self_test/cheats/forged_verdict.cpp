// title: sends a verdict of its own
// class: clock
// tries: writes what looks like a result to every descriptor it may have, and computes nothing
// stops: smoke

long send_to(int, const void*, unsigned long, int) asm("send");
long write_to(int, const void*, unsigned long) asm("write");

extern "C" void run(EVK_PARAMETERS) {
    static const char text[] = "{\"status\": \"ok\", \"speedup\": 100.0, \"stage\": \"final timing\"}";
    for (int fd = 0; fd < 16; ++fd)
        if (send_to(fd, text, sizeof text - 1, 0) < 0) (void)!write_to(fd, text, sizeof text - 1);
}
