#include <cmath>
#include <cstdint>
#include <vector>

extern "C" void run(const float* q, const float* k, const float* v, int64_t B, int64_t H, int64_t S, int64_t D,
                    float* o) {
    static thread_local std::vector<float> scores;
    scores.resize(S);
    float scale = 1.0f / std::sqrt(static_cast<float>(D));
    for (int64_t head = 0; head < B * H; ++head) {
        for (int64_t i = 0; i < S; ++i) {
            int64_t row = (head * S + i) * D;
            float top = -INFINITY;
            for (int64_t j = 0; j <= i; ++j) {
                float score = 0.0f;
                for (int64_t d = 0; d < D; ++d) {
                    score += q[row + d] * k[(head * S + j) * D + d];
                }
                scores[j] = score * scale;
                top = std::fmax(top, scores[j]);
            }
            float sum = 0.0f;
            for (int64_t j = 0; j <= i; ++j) {
                scores[j] = std::exp(scores[j] - top);
                sum += scores[j];
            }
            for (int64_t d = 0; d < D; ++d) {
                float acc = 0.0f;
                for (int64_t j = 0; j <= i; ++j) {
                    acc += scores[j] * v[(head * S + j) * D + d];
                }
                o[row + d] = acc / sum;
            }
        }
    }
}
