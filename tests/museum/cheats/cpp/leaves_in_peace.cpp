// title: ends its process with success
// task: sum
// class: checking
// tries: an exit code of 0 may count as a pass
// seen: kernelguard, GPU MODE boards
// verdict: worker_died at smoke
#include <cstdlib>
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    (void)x, (void)R, (void)C, (void)y;
    std::_Exit(0);
}
