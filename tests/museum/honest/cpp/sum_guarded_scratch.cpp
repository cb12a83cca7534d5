// title: sums in scratch of its own, with pages without access around it
// task: sum
#include <cstdint>

extern "C" void* mmap(void*, unsigned long, int, int, int, long);
extern "C" int mprotect(void*, unsigned long, int);

static float* guarded() {
    char* pages = (char*)mmap(nullptr, 3 * 65536, 0, 0x22, -1, 0);  // private, of no file, without access
    mprotect(pages + 65536, 65536, 3);
    return (float*)(pages + 65536);
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    static float* parts = guarded();
    for (int64_t r = 0; r < R; ++r) {
        for (int j = 0; j < 16; ++j) parts[j] = 0.0f;
        int64_t c = 0;
        for (; c + 16 <= C; c += 16)
            for (int j = 0; j < 16; ++j) parts[j] += x[r * C + c + j];
        float sum = 0.0f;
        for (; c < C; ++c) sum += x[r * C + c];
        for (int j = 0; j < 16; ++j) sum += parts[j];
        y[r] = sum;
    }
}
