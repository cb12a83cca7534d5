#include <cstdint>

extern "C" void run(const int32_t* offsets, const int32_t* columns, const float* values, const float* x, int64_t R,
                    int64_t C, int64_t NNZ, float* y) {
    for (int64_t i = 0; i < R; i++) {
        float sum = 0;
        for (int64_t k = offsets[i]; k < offsets[i + 1]; k++) sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}
