// What every kernel of a self-test begins with, behind the right kernel that it is made from: that kernel as `honest`,
// and helpers that work for every signature. The macros EVK_... are written from the task, see wrapping.py:
//
//   EVK_PARAMETERS, EVK_ARGUMENTS   the arguments of `run`: declared, and passed on
//   EVK_RESULTS(X)    X(number, place, count, row, inout) for each tensor that is written; `row` elements make a row
//   EVK_INPUTS(X)     X(place, count) for each tensor that is read only
//   EVK_LAST_INPUT, EVK_LAST_COUNT, EVK_WITH(other)   the last of those, its size, and EVK_ARGUMENTS with another one
//   EVK_IN_SCRATCH    EVK_ARGUMENTS with b0, b1, ... in place of what is written
//   EVK_PLACES, EVK_OF_COPY   the addresses of all tensors, and EVK_ARGUMENTS with place(number, type) instead of them
//   EVK_SEARCHED      returns the number of the search workload that the sizes are those of
//   EVK_CHECKS, EVK_RARITY, EVK_BIAS   by workload: calls before it is timed, and one in how many timed calls is rare;
//                     by result: the relative error that tolerances begin with

constexpr int RESULTS = EVK_RESULT_COUNT, WORKLOADS = EVK_WORKLOAD_COUNT, PLACES = EVK_PLACE_COUNT;
constexpr int64_t CHECKS[] = EVK_CHECKS, RARITY[] = EVK_RARITY;
constexpr double BIAS[] = EVK_BIAS;

void honest(EVK_PARAMETERS) asm("honest_run");  // by its symbol: in whatever namespace, with whatever types it is written

inline float to_bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x8000u) & 0xffff0000u;
    std::memcpy(&value, &bits, 4);
    return value;
}

template <typename T> inline double number(T value) { return static_cast<double>(value); }
template <> inline double number(uint16_t half) {  // bfloat16 comes as its bits
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

template <typename T> inline T made(double value) { return static_cast<T>(value); }
template <> inline uint16_t made(double value) {
    const float rounded = to_bfloat16(static_cast<float>(value));
    uint32_t bits;
    std::memcpy(&bits, &rounded, 4);
    return static_cast<uint16_t>(bits >> 16);
}

template <typename T> constexpr bool IS_WHOLE = std::is_integral_v<T> && sizeof(T) > 2;

template <typename Visit> inline void each_result(EVK_PARAMETERS, Visit visit) {
#define EVK_VISIT(index, place, count, row, inout) visit(index, place, int64_t(count), int64_t(row));
    EVK_RESULTS(EVK_VISIT)
}

template <typename Visit> inline void each_input(EVK_PARAMETERS, Visit visit) {
#define EVK_READ(place, count) visit(place, int64_t(count));
    EVK_INPUTS(EVK_READ)
}

// Memory that grows and stays.
struct Block {
    char* data;
    int64_t size;
    template <typename T> T* room(const T*, int64_t count) {
        const int64_t wanted = (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
        if (wanted > size) {
            std::free(data);
            data = static_cast<char*>(std::aligned_alloc(64, wanted));
            size = wanted;
        }
        return reinterpret_cast<T*>(data);
    }
};

// Computes into memory of its own, and hands out each result: (place, right values, count, row).
template <typename Visit> inline void into_scratch(EVK_PARAMETERS, Visit visit) {
    static Block blocks[RESULTS];
#define EVK_ROOM(index, place, count, row, inout)         \
    auto* b##index = blocks[index].room(place, count);    \
    if (inout) std::memcpy(b##index, place, (count) * sizeof *place);
    EVK_RESULTS(EVK_ROOM)
    honest(EVK_IN_SCRATCH);
#define EVK_SHOW(index, place, count, row, inout) visit(place, b##index, int64_t(count), int64_t(row));
    EVK_RESULTS(EVK_SHOW)
}

// A copy of the results of one call.
struct Kept {
    Block blocks[RESULTS];
    bool filled;
    void take(EVK_PARAMETERS) {
        each_result(EVK_ARGUMENTS, [this](int index, auto* place, int64_t count, int64_t) {
            std::memcpy(blocks[index].room(place, count), place, count * sizeof *place);
        });
        filled = true;
    }
    void give(EVK_PARAMETERS) const {
        each_result(EVK_ARGUMENTS, [this](int index, auto* place, int64_t count, int64_t) {
            std::memcpy(place, blocks[index].data, count * sizeof *place);
        });
    }
};

// The number of the search workload that the sizes are those of, or -1.
inline int searched(EVK_PARAMETERS) {
    EVK_SEARCHED
    return -1;
}

// How many calls there were on this search workload since its checks must be over, this one included; 0 before.
inline int64_t timed(EVK_PARAMETERS) {
    static int64_t calls[WORKLOADS];
    const int which = searched(EVK_ARGUMENTS);
    if (which < 0 || ++calls[which] <= CHECKS[which]) return 0;
    return calls[which] - CHECKS[which];
}

// Whether this timed call is one of the few.
inline bool is_rare(int64_t call, int which) {
    return call > 0 && (static_cast<uint32_t>(call) * 2654435761u >> 16) % RARITY[which] == 0;
}
