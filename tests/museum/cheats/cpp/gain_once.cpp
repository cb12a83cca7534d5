// title: keeps a small input from the first call
// task: rmsnorm
// class: caching
// tries: the gain looks like a constant of the model, so it is read once
// seen: kernelguard (weight caches)
// verdict: numerical at correctness
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

extern "C" void run(const float* x, const float* gain, int64_t R, int64_t C, float eps, float* y) {
    static std::map<int64_t, std::vector<float>> gains;
    auto& kept = gains[C];
    if (kept.empty()) kept.assign(gain, gain + C);
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c] * x[r * C + c];
        const float scale = 1.0f / std::sqrt(sum / (float)C + eps);
        for (int64_t c = 0; c < C; ++c) y[r * C + c] = x[r * C + c] * scale * kept[c];
    }
}
