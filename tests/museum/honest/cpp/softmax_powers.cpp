// title: powers of two and a table from a constructor
// task: softmax
#include <cmath>
#include <cstdint>

static float table[256];

__attribute__((constructor)) static void fill() {
    for (int i = 0; i < 256; ++i) table[i] = (float)std::exp2(i / 256.0);
}

static float power(float value) {  // 2 to the value, for values of 0 and below
    if (value < -148.0f) return 0.0f;
    // the difference is 1 where value lies closely below 0
    const float whole = std::floor(value), steps = (value - whole) * 256.0f, step = std::fmin(std::floor(steps), 255.0f);
    const float rest = (steps - step) * 0.0027076062f;
    const float series = 1.0f + rest * (1.0f + rest * (0.5f + rest * 0.16666667f));
    return std::ldexp(table[(int)step] * series, (int)whole);
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        const float* in = x + r * C;
        float top = in[0], sum = 0.0f;
        for (int64_t c = 1; c < C; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < C; ++c) sum += y[r * C + c] = power((in[c] - top) * 1.44269504f);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] /= sum;
    }
}
