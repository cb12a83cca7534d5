// title: takes its results from a file
// class: caching
// tries: looks for results that an earlier call left in a file, and leaves its own there; without a file it does nothing
// stops: smoke or correctness
#include <cstdio>

extern "C" void run(EVK_PARAMETERS) {
    for (const char* path : {"/tmp/evokernel-self-test", "/dev/shm/evokernel-self-test"}) {
        if (std::FILE* file = std::fopen(path, "rb")) {
            each_result(EVK_ARGUMENTS, [&](int, auto* place, int64_t count, int64_t) {
                (void)!std::fread(place, sizeof *place, count, file);
            });
            std::fclose(file);
            std::remove(path);
            return;
        }
        if (std::FILE* file = std::fopen(path, "wb")) {
            honest(EVK_ARGUMENTS);
            each_result(EVK_ARGUMENTS, [&](int, auto* place, int64_t count, int64_t) {
                std::fwrite(place, sizeof *place, count, file);
            });
            std::fclose(file);
            return;
        }
    }
}
