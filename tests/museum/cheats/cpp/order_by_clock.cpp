// title: adds in an order that the processor's clock chooses
// task: sum
// class: checking
// tries: now and then from the other end: near enough, and other bits in each call of one thread
// seen: here first
// verdict: nondeterministic at correctness
#include <cstdint>
#include <ctime>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t bits = now.tv_nsec * 0x9e3779b97f4a7c15u;
    for (int64_t r = 0; r < R; ++r) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        const bool back = bits & 1;
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + (back ? C - 1 - c : c)];
        y[r] = sum;
    }
}
