// Measures what this processor can do at best, on the cores named by the arguments (one thread each):
// fp32 fused multiply-add rate in GFLOP/s, read and copy bandwidth in GB/s by cache level. Prints "name value" lines.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int registers = 32;
#else
constexpr int registers = 16;
#endif
typedef float vec __attribute__((vector_size(W * 4)));

// Of small pages memory is read at half its rate, and under some hypervisors, once a core is shared, at a hundredth.
constexpr size_t HUGE_PAGE = 2 << 20;

using Clock = std::chrono::steady_clock;
static std::vector<int> cores;

static double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Time that this thread has run, in seconds.
static double ran() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

// A busy machine interrupts turns this long, in seconds: then the time counts that the slowest thread ran. A kernel's
// own clock counts like that, and its limit must not be slower than it is. Shorter turns go uninterrupted now and then.
constexpr double LONG = 0.001;

// Runs work(thread) on every core at once, again and again for about `budget` seconds; returns the least time taken.
template <class Work>
static double least_time(double budget, const Work& work) {
    const size_t count = cores.size();
    std::atomic<size_t> arrived{0}, finished{0};
    std::atomic<int> round{0};
    std::atomic<bool> stop{false};
    double best = 1e30;
    std::vector<double> taken(count);
    auto body = [&](size_t index) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cores[index], &set);
        sched_setaffinity(0, sizeof set, &set);
        work(index);  // untimed: touches the buffers, wakes the clock
        const double end = now() + budget;
        for (int turn = 1; !stop; ++turn) {
            if (++arrived == count) {
                arrived = 0;
                round = turn;
            }
            while (round < turn && !stop) {
            }
            const double start = now(), before = ran();
            work(index);
            taken[index] = ran() - before;
            const size_t done = ++finished;
            if (index == 0) {
                while (finished < count) {
                }
                const double whole = now() - start;
                best = std::min(best, whole < LONG ? whole : *std::max_element(taken.begin(), taken.end()));
                finished = 0;
                if (now() > end) stop = true;
            } else {
                (void)done;
                while (finished != 0 && !stop) {
                }
            }
        }
    };
    std::vector<std::thread> threads;
    for (size_t index = 0; index < count; ++index) threads.emplace_back(body, index);
    for (auto& thread : threads) thread.join();
    return best;
}

static volatile float sink[1024];

// Every lane is used, or the compiler would drop the others.
static void keep(size_t index, const vec* values, int count) {
    float total = 0;
    for (int i = 0; i < count; ++i)
        for (int lane = 0; lane < W; ++lane) total += values[i][lane];
    sink[index % 1024] = total;
}

static void fused(size_t index, long turns) {
    vec a[12], x, y;
    for (int lane = 0; lane < W; ++lane) {
        x[lane] = 0.999f;
        y[lane] = 0.001f * float(index + 1);
    }
    for (auto& value : a) value = y;
    for (long turn = 0; turn < turns; ++turn) {
        for (auto& value : a) value = value * x + y;
        asm volatile("" : "+x"(x), "+x"(y));
    }
    keep(index, a, 12);
}

static void read(size_t index, const vec* source, size_t length, long turns) {
    vec sums[8] = {};
    for (long turn = 0; turn < turns; ++turn) {
        for (size_t i = 0; i + 8 <= length; i += 8)
            for (int j = 0; j < 8; ++j) sums[j] += source[i + j];
        asm volatile("" ::: "memory");
    }
    keep(index, sums, 8);
}

static void copy(vec* target, const vec* source, size_t length, long turns) {
    for (long turn = 0; turn < turns; ++turn) {
        for (size_t i = 0; i + 4 <= length; i += 4)
            for (int j = 0; j < 4; ++j) target[i + j] = source[i + j];
        asm volatile("" ::: "memory");
    }
}

static bool scan(int index, const char* item, const char* format, void* value) {
    char path[96];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, item);
    FILE* file = std::fopen(path, "r");
    if (!file) return false;
    const bool found = std::fscanf(file, format, value) == 1;
    std::fclose(file);
    return found;
}

// From the kernel's own table, where the C library's answer is wrong under some hypervisors.
static size_t cache_size(int level, size_t otherwise) {
    for (int index = 0; index < 8; ++index) {
        int found = 0;
        size_t kib = 0;
        char kind[32] = "";
        if (!scan(index, "level", "%d", &found) || !scan(index, "type", "%31s", kind)) break;
        if (!scan(index, "size", "%zu", &kib)) break;
        if (found == level && kind[0] != 'I') return kib << 10;
    }
    return otherwise;
}

static void level(const char* name, size_t bytes, double budget, std::vector<vec*>& buffers) {
    const size_t count = cores.size();
    const size_t length = bytes / sizeof(vec) / 8 * 8, half = length / 2 / 8 * 8;
    const long turns = std::max<long>(1, long((1 << 20) / bytes));
    const double moved = double(turns) * double(count) * sizeof(vec) / 1e9;
    const double reading = least_time(budget, [&](size_t i) { read(i, buffers[i], length, turns); });
    const double copying = least_time(budget, [&](size_t i) { copy(buffers[i] + half, buffers[i], half, turns); });
    std::printf("%s_read_gb_s %.4g\n%s_copy_gb_s %.4g\n", name, moved * double(length) / reading, name,
                moved * double(2 * half) / copying);
}

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) cores.push_back(std::atoi(argv[i]));
    if (cores.empty()) return 2;
    const size_t count = cores.size();
    const size_t l1 = cache_size(1, 32 << 10), l2 = cache_size(2, 512 << 10);
    const size_t l3 = cache_size(3, 0);
    const size_t far = std::clamp<size_t>(3 * l3, 64 << 20, 256 << 20) / count;
    std::vector<vec*> buffers;
    for (size_t i = 0; i < count; ++i) {
        void* block = std::aligned_alloc(HUGE_PAGE, (far + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
        if (!block) return 3;
        madvise(block, far, MADV_HUGEPAGE);
        std::fill_n(static_cast<float*>(block), far / 4, 1.0f);
        buffers.push_back(static_cast<vec*>(block));
    }
    const long turns = 20000;
    const double fastest = least_time(0.04, [&](size_t i) { fused(i, turns); });
    std::printf("peak_fp32_gflop_s %.5g\n", double(count) * double(turns) * 12 * W * 2 / fastest / 1e9);
    std::printf("vector_bits %d\nvector_registers %d\n", W * 32, registers);
    std::printf("l1_bytes %zu\nl2_bytes %zu\nl3_bytes %zu\n", l1 * count, l2 * count, l3);
    level("l1", l1 / 2, 0.015, buffers);
    level("l2", l2 / 2, 0.015, buffers);
    // just larger than the cache below: of a cache that many cores share, these may hold a small part only
    if (l3) level("l3", std::min({far, l3 / count, 2 * l2}), 0.03, buffers);
    level("dram", far, 0.05, buffers);
    return 0;
}
