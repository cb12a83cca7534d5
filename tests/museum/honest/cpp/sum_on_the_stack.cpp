// title: copies each row to its stack, which grows with the row
// task: sum
#include <alloca.h>

#include <cstdint>
#include <cstring>

static float row(const float* x, int64_t C) {
    float parts[16] = {}, sum = 0.0f;
    int64_t c = 0;
    for (; c + 16 <= C; c += 16)
        for (int j = 0; j < 16; ++j) parts[j] += x[c + j];
    for (; c < C; ++c) sum += x[c];
    for (float part : parts) sum += part;
    return sum;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    auto* copy = static_cast<float*>(alloca(C * sizeof(float)));
    for (int64_t r = 0; r < R; ++r) {
        std::memcpy(copy, x + r * C, C * sizeof(float));
        y[r] = row(copy, C);
    }
}
