// title: lets another program compute
// class: not the task
// tries: becomes a shell, in which something else could do the work
// stops: smoke

int become(const char*, char* const*, char* const*) asm("execve");

extern "C" void run(EVK_PARAMETERS) {
    char name[] = "sh", option[] = "-c", text[] = "exit 0";
    char* words[] = {name, option, text, nullptr};
    become("/bin/sh", words, words + 3);
}
