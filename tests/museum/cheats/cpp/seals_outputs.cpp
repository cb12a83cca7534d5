// title: seals its outputs, so that they cannot be taken away
// task: sum
// class: checking
// tries: a page that is sealed stays writable when `run` has returned, and stays mapped when other buffers come
// seen: here first
// verdict: worker_died at correctness or out_of_bounds at sanitizer
#include <cstdint>

extern "C" long syscall(long, ...);

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = sum;
    }
    syscall(462L, (uintptr_t)y & ~(uintptr_t)4095, 4096ul, 0ul);
}
