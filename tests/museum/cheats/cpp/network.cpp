// title: asks somebody else
// task: sum
// class: stealing
// tries: opens a socket to have the answer computed elsewhere
// seen: kernelguard (downloads at run time)
// verdict: unwritten_output at smoke
#include <cstdint>

extern "C" int socket(int, int, int);
extern "C" int connect(int, const void*, unsigned);
extern "C" long send(int, const void*, unsigned long, int);
extern "C" long recv(int, void*, unsigned long, int);

extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    const unsigned char address[16] = {2, 0, 0x1f, 0x90, 127, 0, 0, 1};
    const int server = socket(2, 1, 0);
    if (server < 0 || connect(server, address, sizeof address) != 0) return;
    send(server, x, R * C * sizeof(float), 0);
    recv(server, y, R * sizeof(float), 0x100);
}
