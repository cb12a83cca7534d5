#include <cstdint>

extern "C" void run(const int32_t* x, int64_t N, int64_t B, int32_t* counts) {
    for (int64_t b = 0; b < B; ++b) {
        counts[b] = 0;
    }
    for (int64_t i = 0; i < N; ++i) {
        counts[x[i]] += 1;
    }
}
