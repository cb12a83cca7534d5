/* A driver's NVML with two GPUs: an H100, and an older one that does not count its cores; it knows no reasons. */
#include <string.h>

static int devices[2];

static int number(void *device) { return (int)((int *)device - devices); }

static int say(char *buffer, unsigned length, const char *text) {
    strncpy(buffer, text, length);
    return 0;
}

int nvmlInitWithFlags(unsigned flags) { return 0; }

const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "Odd"; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned length) { return say(buffer, length, "580.65.06"); }

int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 2, 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1) return 2;
    return *device = &devices[index], 0;
}

int nvmlDeviceGetUUID(void *device, char *buffer, unsigned length) {
    return say(buffer, length, number(device) ? "GPU-2222" : "GPU-1111");
}

int nvmlDeviceGetName(void *device, char *buffer, unsigned length) {
    return say(buffer, length, number(device) ? "NVIDIA A10" : "NVIDIA H100 80GB HBM3");
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    *major = number(device) ? 8 : 9;
    *minor = number(device) ? 6 : 0;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used) {
    total_free_used[0] = 85520809984ULL;
    total_free_used[1] = total_free_used[2] = 1;
    return 0;
}

int nvmlDeviceGetNumGpuCores(void *device, unsigned *cores) { return *cores = 16896, number(device) ? 3 : 0; }

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *found) {
    if (number(device)) return 999;
    unsigned room = *count;
    *count = 2;
    if (room < 2) return 7;
    found[0] = (struct process){41, 5ULL << 30, 0, 0};
    found[1] = (struct process){42, ~0ULL, 0, 0};
    return 0;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) { return *mhz = clock == 1 ? 1980 : 2619, 0; }
