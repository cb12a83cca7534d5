
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

@ENTRY@;

extern "C" void* __asan_get_report_address(void);
extern "C" int __asan_get_report_access_type(void);
extern "C" std::size_t __asan_get_report_access_size(void);

extern "C" const char* __asan_default_options() {
    return "detect_leaks=0:exitcode=@FOUND@:abort_on_error=0:redzone=2048:max_redzone=2048:symbolize=1"
           ":allocator_may_return_null=1:print_legend=0:color=never:detect_stack_use_after_return=0";
}

extern "C" const char* __ubsan_default_options() { return "exitcode=@FOUND@:print_stacktrace=0:color=never"; }

namespace {

struct Argument {
    const char* name;
    char* data;
    std::uint64_t size;
};

Argument arguments[] = {@TABLE@};

void read_exactly(void* to, std::size_t size) {
    char* place = static_cast<char*>(to);
    while (size > 0) {
        const ssize_t count = read(0, place, size);
        if (count <= 0) _exit(@BAD_JOB@);
        place += count;
        size -= static_cast<std::size_t>(count);
    }
}

template <typename T> T take() {
    T value;
    read_exactly(&value, sizeof value);
    return value;
}

template <typename T> T* tensor(std::size_t index) {
    Argument& argument = arguments[index];
    argument.size = take<std::uint64_t>();
    void* block = nullptr;
    if (posix_memalign(&block, 64, argument.size) != 0 || block == nullptr) _exit(@BAD_JOB@);
    argument.data = static_cast<char*>(block);
    read_exactly(block, argument.size);
    return static_cast<T*>(block);
}

std::int64_t distance(const Argument& argument, const char* address) {
    const std::int64_t offset = address - argument.data;
    if (offset < 0) return -offset;
    const std::int64_t past = offset - static_cast<std::int64_t>(argument.size);
    return past < 0 ? 0 : past;
}

}  // namespace

// Called by the sanitizer when it found something: name the argument that lies nearest.
extern "C" void __asan_on_error() {
    const char* address = static_cast<const char*>(__asan_get_report_address());
    const Argument* nearest = nullptr;
    for (const Argument& argument : arguments) {
        if (argument.data == nullptr) continue;
        if (nearest == nullptr || distance(argument, address) < distance(*nearest, address)) nearest = &argument;
    }
    if (nearest == nullptr || address == nullptr) return;
    std::fprintf(stderr, "evokernel: %s %llu bytes, %s of %zu at %lld\n", nearest->name,
                 static_cast<unsigned long long>(nearest->size), __asan_get_report_access_type() ? "write" : "read",
                 __asan_get_report_access_size(), static_cast<long long>(address - nearest->data));
}

int main() {
    int status = 0;
    for (int calls = 0;; ++calls) {
        char magic[8];
        const ssize_t begun = read(0, magic, 1);
        if (begun == 0 && calls > 0) return status;
        if (begun != 1) return @BAD_JOB@;
        read_exactly(magic + 1, sizeof magic - 1);
        if (std::memcmp(magic, "@MAGIC@", 7) != 0) return @BAD_JOB@;
        status = magic[7];
@TAKE@
        run(@PASS@);
        for (Argument& argument : arguments) std::free(argument.data), argument.data = nullptr;
    }
}
