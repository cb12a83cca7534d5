#include <cstdint>

extern "C" void run(const float* table, const int64_t* tokens, int64_t T, int64_t V, int64_t C, float* y) {
    for (int64_t t = 0; t < T; ++t) {
        for (int64_t c = 0; c < C; ++c) {
            y[t * C + c] = table[tokens[t] * C + c];
        }
    }
}
