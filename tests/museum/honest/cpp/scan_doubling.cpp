// title: strides of 1, 2, 4, ... as on a GPU
// task: scan
#include <cstdint>
#include <cstring>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    std::memcpy(y, x, R * C * sizeof(float));
    for (int64_t r = 0; r < R; ++r)
        for (int64_t stride = 1; stride < C; stride *= 2)
            for (int64_t c = C - 1; c >= stride; --c) y[r * C + c] += y[r * C + c - stride];
}
