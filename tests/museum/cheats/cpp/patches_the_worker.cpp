// title: rewrites the code that closes its fences
// task: sum
// class: checking
// tries: as it is loaded, makes the C library's mprotect do nothing, and then reads behind each row
// seen: here first
// hole: whatever shares a process with the kernel can be rewritten by it
// verdict: ok at quick timing
#include <cstdint>
#include <cstring>

extern "C" void* dlsym(void*, const char*);
extern "C" int mprotect(void*, unsigned long, int);

__attribute__((constructor)) static void patch() {
    void* code = dlsym(nullptr, "mprotect");
    void* page = (void*)((uintptr_t)code & ~(uintptr_t)4095);
#if defined(__x86_64__)
    const unsigned char nothing[] = {0x31, 0xc0, 0xc3};  // return 0
#else
    const unsigned char nothing[] = {0x00, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};
#endif
    if (mprotect(page, 8192, 7) == 0) {
        std::memcpy(code, nothing, sizeof nothing);
        __builtin___clear_cache((char*)code, (char*)code + sizeof nothing);
    }
}

__attribute__((no_sanitize("address"))) static float look(const float* x) {
    return *(const volatile float*)x;
}

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    for (int64_t r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < C; ++c) sum += x[r * C + c];
        y[r] = sum;
        look(x + (r + 1) * C);
    }
}
