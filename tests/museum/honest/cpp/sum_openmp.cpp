// title: sums rows in the threads of OpenMP
// task: sum
// threads: 2
#include <cstdint>

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
#pragma omp parallel for num_threads(2)
    for (int64_t r = 0; r < R; ++r) y[r] = row(x + r * C, C);
}
