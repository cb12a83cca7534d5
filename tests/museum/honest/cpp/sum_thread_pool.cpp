// title: sums half of the rows in a thread that waits on a condition between calls
// task: sum
// threads: 2
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

static float row(const float* x, int64_t C) {
    float parts[16] = {}, sum = 0.0f;
    int64_t c = 0;
    for (; c + 16 <= C; c += 16)
        for (int j = 0; j < 16; ++j) parts[j] += x[c + j];
    for (; c < C; ++c) sum += x[c];
    for (float part : parts) sum += part;
    return sum;
}

static auto& mutex = *new std::mutex;  // never destroyed: a program could not end while a thread waits on them
static auto& changed = *new std::condition_variable;
static const float* in;
static float* out;
static int64_t rows, columns;
static bool busy = false;

static void work() {
    for (std::unique_lock<std::mutex> lock(mutex);;) {
        changed.wait(lock, [] { return busy; });
        for (int64_t r = 0; r < rows; ++r) out[r] = row(in + r * columns, columns);
        busy = false;
        changed.notify_all();
    }
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static auto* helper = new std::thread(work);
    (void)helper;
    {
        std::lock_guard<std::mutex> lock(mutex);
        in = x, out = y, rows = R / 2, columns = C, busy = true;
    }
    changed.notify_all();
    for (int64_t r = R / 2; r < R; ++r) y[r] = row(x + r * C, C);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return !busy; });
}
