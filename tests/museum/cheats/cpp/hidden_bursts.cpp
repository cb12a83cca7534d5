// title: is slow once in a while
// task: sum
// class: clock
// tries: puts off work of its own to one batch in thirty, which a trimmed mean leaves out
// seen: here first, against our trimmed mean
// hole: rare slow calls are trimmed away with those that neighbours disturbed; what is put off must be work that no
//   call needs, since every output is verified
// verdict: ok at quick timing
#include <cstdint>

static void honest(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float parts[16] = {}, sum = 0.0f;
        int64_t c = 0;
        for (; c + 16 <= C; c += 16)
            for (int j = 0; j < 16; ++j) parts[j] += x[r * C + c + j];
        for (; c < C; ++c) sum += x[r * C + c];
        for (float part : parts) sum += part;
        y[r] = sum;
    }
}

static volatile int64_t chores;

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static int calls = 0;
    if (++calls % 4000 == 0)
        for (int i = 0; i < 2000000; ++i) chores = chores + i;
    honest(x, R, C, y);
}
