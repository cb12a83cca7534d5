// title: sleeps, for a clock that counts only work
// task: sum
// class: clock
// tries: gives its core up in every call, so that a clock of processor time misses what users wait for
// seen: here first, against our own clock
// gains: nothing over sum_lanes
// verdict: ok at quick timing
#include <cstdint>

extern "C" int usleep(unsigned);

static void honest(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float parts[16] = {}, sum = 0.0f;
        int64_t c = 0;
        for (; c + 16 <= C; c += 16)
            for (int j = 0; j < 16; ++j) parts[j] += x[r * C + c + j];
        for (; c < C; ++c) sum += x[r * C + c];
        for (float part : parts) sum += part;
        y[r] = sum;
    }
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    usleep(20);
    honest(x, R, C, y);
}
