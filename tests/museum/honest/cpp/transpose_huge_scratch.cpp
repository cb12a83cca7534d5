// title: tiles through scratch that it advises the system about
// task: transpose
#include <algorithm>
#include <cstdint>
#include <cstdlib>

extern "C" int madvise(void*, unsigned long, int);

constexpr int64_t B = 32;
constexpr unsigned long SIZE = 2 << 20;

static float* scratch() {
    void* made = std::aligned_alloc(SIZE, SIZE);
    constexpr int huge = 14, populate = 23;
    madvise(made, SIZE, huge);
    madvise(made, SIZE, populate);
    return static_cast<float*>(made);
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static float* const tile = scratch();
    for (int64_t r0 = 0; r0 < R; r0 += B)
        for (int64_t c0 = 0; c0 < C; c0 += B) {
            const int64_t rows = std::min(B, R - r0), columns = std::min(B, C - c0);
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < columns; ++c) tile[c * B + r] = x[(r0 + r) * C + c0 + c];
            for (int64_t c = 0; c < columns; ++c)
                for (int64_t r = 0; r < rows; ++r) y[(c0 + c) * R + r0 + r] = tile[c * B + r];
        }
}
