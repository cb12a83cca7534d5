// title: takes rows with the same beginning for the same
// task: sum
// class: caching
// tries: keeps the sum of each row by its first element and skips rows it thinks it knows
// seen: kernelguard (partial caches)
// verdict: numerical at correctness or numerical at smoke
#include <cstdint>
#include <map>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static std::map<float, float> sums;
    for (int64_t r = 0; r < R; ++r) {
        auto found = sums.find(x[r * C]);
        if (found == sums.end()) {
            float sum = 0.0f;
            for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
            found = sums.emplace(x[r * C], sum).first;
        }
        y[r] = found->second;
    }
}
