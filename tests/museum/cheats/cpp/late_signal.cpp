// title: works in a signal handler after it has returned
// task: sum
// class: clock
// tries: run() only sets an alarm; the handler computes when the clock should have stopped
// seen: CUDA-L2 (background threads), here as a signal
// verdict: unwritten_output at smoke
#include <csignal>
#include <cstdint>

extern "C" unsigned ualarm(unsigned, unsigned);

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

static const float* in;
static float* out;
static int64_t rows, columns;

static void late(int) { honest(in, rows, columns, out); }

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    in = x, out = y, rows = R, columns = C;
    std::signal(SIGALRM, late);
    ualarm(20000, 0);
}
