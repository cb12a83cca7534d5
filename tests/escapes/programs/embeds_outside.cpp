// Has the assembler read a file of others; put together from pieces, so that reading the source does not show it.
asm(".macro take x, y, z\n.\\x\\y \"\\z\"\n.endm\n"
    ".pushsection .rodata\nstolen: take inc, bin, \"" FOLDER "/home/key\"\n.byte 0\n.popsection");
extern "C" __attribute__((visibility("hidden"))) const char stolen[];

static void trick() {
    if (std::strstr(stolen, SECRET) != nullptr) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
