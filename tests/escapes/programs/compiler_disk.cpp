// Has the assembler write gigabytes.
asm(".data\n.fill 0x100000000, 1, 1\n.text");

RUN { multiply(a, b, M, N, K, c); }
