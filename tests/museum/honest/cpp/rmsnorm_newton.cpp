// title: a rough reciprocal root and two steps of Newton
// task: rmsnorm
#include <cstdint>
#include <cstring>

static float reciprocal_root(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = 0x5f375a86 - (bits >> 1);
    float root;
    std::memcpy(&root, &bits, 4);
    for (int step = 0; step < 4; ++step) root *= 1.5f - 0.5f * value * root * root;
    return root;
}

extern "C" void run(const float* x, const float* gain, int64_t R, int64_t C, float eps, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float parts[8] = {}, sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) parts[c % 8] += x[r * C + c] * x[r * C + c];
        for (float part : parts) sum += part;
        const float scale = reciprocal_root(sum / (float)C + eps);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = gain[c] * (x[r * C + c] * scale);
    }
}
