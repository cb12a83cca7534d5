// As much of CUDA as the plain seeds and the museum's kernels use, on a processor: blocks one after the other, each thread
// of a block a fiber.
//
// All threads of a block come to the same barriers and exchanges in the same order, so each of these is a hand-over to
// the scheduler, which lets the threads go on in turn, now from the first to the last, now the other way round. Who reads
// too early or too late gets what he should not. An exchange within a warp holds up the whole block, so a barrier that is
// missing right beside one is not noticed.
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __constant__ static
#define __launch_bounds__(threads)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __syncthreads() hand_over()

constexpr int THREADS_AT_MOST = 1024, STACK_BYTES = 1 << 17;

struct Place {
    unsigned x, y, z;
};
static Place threadIdx, blockIdx, blockDim, gridDim;
alignas(16) static char dynamic_shared[232448];
static ucontext_t scheduler, fibers[THREADS_AT_MOST];
static char* stacks[THREADS_AT_MOST];
static bool ended[THREADS_AT_MOST];
static int current;
static std::function<void()> kernel;

static void hand_over() {
    const int own = current;
    swapcontext(&fibers[own], &scheduler);
}

static void fiber() {
    kernel();
    ended[current] = true;
    hand_over();
}

static void run_block() {
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    for (int i = 0; i < threads; ++i) {
        if (!stacks[i]) stacks[i] = static_cast<char*>(malloc(STACK_BYTES));
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i];
        fibers[i].uc_stack.ss_size = STACK_BYTES;
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], fiber, 0);
        ended[i] = false;
    }
    memset(dynamic_shared, 0x55, sizeof dynamic_shared);
    for (bool working = true; working;) {
        working = false;
        const bool backwards = rand() % 2;
        for (int turn = 0; turn < threads; ++turn) {
            const unsigned i = backwards ? threads - 1 - turn : turn;
            if (ended[i]) continue;
            current = i;
            threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
            swapcontext(&scheduler, &fibers[i]);
            working |= !ended[i];
        }
    }
}

static void launch(Place grid, Place block, std::function<void()> called) {
    kernel = called;
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                blockIdx = {x, y, z};
                run_block();
            }
}

static void launch(unsigned blocks_x, unsigned blocks_y, unsigned threads, std::function<void()> called) {
    launch(Place{blocks_x, blocks_y, 1}, Place{threads, 1, 1}, called);
}

static float __int_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float __uint_as_float(unsigned bits) { return __int_as_float(bits); }

static unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float rsqrtf(float value) { return 1 / std::sqrt(value); }

template <typename T>
static T exchanged(T value, int from) {
    static T given[THREADS_AT_MOST];
    given[current] = value;
    hand_over();
    const T taken = given[from];
    hand_over();
    return taken;
}

template <typename T>
static T __shfl_xor_sync(unsigned, T value, int apart) {
    return exchanged(value, current ^ apart);
}
template <typename T>
static T __shfl_down_sync(unsigned, T value, int apart) {
    return exchanged(value, current % 32 + apart < 32 ? current + apart : current);
}
template <typename T>
static T __shfl_up_sync(unsigned, T value, int apart) {
    return exchanged(value, current % 32 - apart >= 0 ? current - apart : current);
}
template <typename T>
static T __shfl_sync(unsigned, T value, int lane) {
    return exchanged(value, current / 32 * 32 + lane % 32);
}

// Nothing comes between two threads here but at a barrier, so an addition is in one piece anyway.
template <typename T>
static T atomicAdd(T* at, T value) {
    const T before = *at;
    *at += value;
    return before;
}

template <typename T>
static T atomicMax(T* at, T value) {
    const T before = *at;
    if (before < value) *at = value;
    return before;
}

static void __threadfence() {}

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

// ---------------------------------------------------------------------------- bf16 and tensor cores

static float bf16_of(unsigned bits) { return __int_as_float(bits << 16); }

static unsigned short rounded(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: fragments as in the PTX manual, "Matrix Fragments for
// mma.m16n8k16 with floating point type". Each register of `a` and `b` holds two elements, the first in the low half.
static void multiply(float* c, const unsigned* a, const unsigned* b) {
    static unsigned all_a[THREADS_AT_MOST][4], all_b[THREADS_AT_MOST][2];
    memcpy(all_a[current], a, sizeof all_a[0]);
    memcpy(all_b[current], b, sizeof all_b[0]);
    hand_over();
    const int warp = current / 32 * 32, lane = current % 32;
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            const int quad = k % 8 / 2, half = k % 2 * 16, upper = k / 8;
            const unsigned left = all_a[warp + row % 8 * 4 + quad][row / 8 + 2 * upper] >> half & 0xffff;
            const unsigned right = all_b[warp + col * 4 + quad][upper] >> half & 0xffff;
            c[i] += bf16_of(left) * bf16_of(right);
        }
    }
    hand_over();
}
