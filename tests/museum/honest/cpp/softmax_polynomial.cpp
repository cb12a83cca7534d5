// title: an exponential of its own
// task: softmax
#include <cmath>
#include <cstdint>
#include <cstring>

// exp by a power of two and a polynomial of degree six, right to about 2 units in the last place
static inline float fast_exp(float value) {
    value = value < -87.0f ? -87.0f : value;
    const float whole = std::nearbyint(value * 1.44269504f);
    const float rest = std::fma(whole, -0.693145752f, value) - whole * 1.42860677e-6f;
    float p = 1.3888889e-3f;
    p = std::fma(p, rest, 8.3333333e-3f);
    p = std::fma(p, rest, 4.1666667e-2f);
    p = std::fma(p, rest, 1.6666667e-1f);
    p = std::fma(p, rest, 0.5f);
    p = std::fma(p, rest, 1.0f);
    p = std::fma(p, rest, 1.0f);
    const int32_t bits = ((int32_t)whole + 127) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return p * power;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float* out = y + r * C;
        float top = in[0];
        for (int64_t c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
        float parts[16] = {}, sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) out[c] = fast_exp(in[c] - top);
        for (int64_t c = 0; c < C; ++c) parts[c % 16] += out[c];
        for (float part : parts) sum += part;
        const float share = 1.0f / sum;
        for (int64_t c = 0; c < C; ++c) out[c] *= share;
    }
}
