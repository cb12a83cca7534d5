// title: halves of k into two buffers, added in the end
// task: gemm
#include <cstdint>
#include <vector>

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    std::vector<float> second(M * N);
    float* __restrict halves[] = {c, second.data()};
    for (int half = 0; half < 2; ++half)
        for (int64_t i = 0; i < M; ++i) {
            float* __restrict row = halves[half] + i * N;
            for (int64_t j = 0; j < N; ++j) row[j] = 0.0f;
            for (int64_t k = half * K / 2; k < (half + 1) * K / 2; ++k)
                for (int64_t j = 0; j < N; ++j) row[j] += a[i * K + k] * b[k * N + j];
        }
    for (int64_t i = 0; i < M * N; ++i) c[i] += second[i];
}
