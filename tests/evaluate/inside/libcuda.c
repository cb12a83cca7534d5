/* A CUDA driver without a device: it maps memory of the host, and tells on stderr what it is asked to do. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned long long u64;
#define TELL(...) (fprintf(stderr, __VA_ARGS__), 0)
#define DONE(name) \
    int name(void) { return 0; }

static u64 nodes[64], latest = 100, handles = 1000;
static size_t count;
static int capturing;

DONE(cuInit) DONE(cuDeviceGet) DONE(cuCtxSetCurrent) DONE(cuCtxSynchronize) DONE(cuModuleUnload) DONE(cuFuncSetAttribute)
DONE(cuStreamSynchronize) DONE(cuGraphInstantiateWithFlags) DONE(cuGraphUpload) DONE(cuGraphLaunch)
DONE(cuGraphExecDestroy) DONE(cuGraphDestroy) DONE(cuEventCreate) DONE(cuMemRelease) DONE(cuMemAddressFree)

static u64 node(void) {
    if (capturing) nodes[0] = ++latest, count = 1;
    return latest;
}

int cuGetErrorName(int code, const char **name) { return *name = "CUDA_ERROR_OF_A_TEST", 0; }
int cuGetErrorString(int code, const char **text) { return *text = "an error of a test", 0; }
int cuDevicePrimaryCtxRetain(u64 *context, int device) { return *context = 1, 0; }
int cuCtxResetPersistingL2Cache(void) { return TELL("release lines\n"); }
int cuDeviceGetAttribute(int *value, int which, int device) {
    return *value = which == 16 ? 132 : which == 39 ? 2048 : which == 97 ? 232448 : -1, 0;
}

int cuModuleLoadData(u64 *module, const char *image) { return *module = 1, 0; }
int cuModuleGetFunction(u64 *function, u64 module, const char *name) {
    return *function = !strcmp(name, "touch") ? 1 : !strcmp(name, "scrub") ? 2 : 3, 0;
}
int cuFuncGetAttribute(int *value, int which, u64 function) { return *value = which == 3 && function == 3 ? 64 : 0, 0; }
int cuFuncGetParamInfo(u64 function, size_t index, size_t *offset, size_t *size) {
    if (index >= (function == 3 ? 1 : 4)) return 1;
    return *offset = 0, *size = function == 2 && index ? 4 : 8, 0;
}
struct launch {
    unsigned grid[3], block[3], shared;
    u64 stream, attributes;
    unsigned count;
};
int cuLaunchKernelEx(struct launch *launch, u64 function, u64 **parameters, void *extra) {
    static const char *names[] = {"", "touch", "scrub", "kernel"};
    const unsigned threads = launch->grid[0] * launch->block[0];
    return TELL("%llu %s %u threads, %u attributes\n", node(), names[function], threads, launch->count);
}

int cuStreamCreate(u64 *stream, unsigned flags) { return *stream = 5, 0; }
int cuStreamBeginCapture_v2(u64 stream, int mode) { return capturing = 1, count = 0, 0; }
int cuStreamEndCapture(u64 stream, u64 *graph) { return capturing = 0, *graph = 9, 0; }
int cuStreamGetCaptureInfo_v2(u64 stream, int *status, u64 *id, u64 *graph, u64 **found, size_t *number) {
    return *found = nodes, *number = count, 0;
}
int cuStreamUpdateCaptureDependencies(u64 stream, u64 *more, size_t number, unsigned flags) {
    for (size_t i = 0; i < number; ++i) nodes[count++] = more[i];
    return flags;
}
int cuEventRecordWithFlags(u64 event, u64 stream, unsigned flags) {
    fprintf(stderr, "event after");
    for (size_t i = 0; i < count; ++i) fprintf(stderr, " %llu", nodes[i]);
    return node(), TELL("\n");
}
int cuEventElapsedTime(float *ms, u64 begin, u64 end) { return *ms = 0.5, 0; }

int cuMemsetD32Async(u64 address, unsigned word, size_t words, u64 stream) {
    return TELL("%llu fill %zu words with %x\n", node(), words, word);
}
int cuMemcpyDtoDAsync_v2(u64 target, u64 source, size_t size, u64 stream) {
    return TELL("%llu copy %zu\n", node(), size);
}
int cuMemGetAllocationGranularity(size_t *size, void *properties, int which) { return *size = 2 << 20, 0; }
int cuMemCreate(u64 *handle, size_t size, void *properties, u64 flags) { return *handle = ++handles, 0; }
int cuMemImportFromShareableHandle(u64 *handle, u64 descriptor, int kind) { return *handle = ++handles, 0; }
int cuMemAddressReserve(u64 *address, size_t size, size_t alignment, u64 fixed, u64 flags) {
    return *address = (u64)mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0;
}
int cuMemMap(u64 address, size_t size, size_t offset, u64 handle, u64 flags) { return TELL("map %llu\n", handle); }
int cuMemUnmap(u64 address, size_t size) { return TELL("unmap\n"); }
int cuMemSetAccess(u64 address, size_t size, int *access, size_t number) {
    return TELL(access[2] == 3 ? "writable\n" : "read-only\n");
}
