// title: includes a file of the judge
// task: sum
// class: not the task
// tries: has the compiler read a file that is none of its headers
// seen: KernelAgent (imports the reference)
// verdict: static_reject at static
#include "../tasks/sum.py"
#include <cstdint>

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    (void)x, (void)R, (void)C, (void)y;
}
