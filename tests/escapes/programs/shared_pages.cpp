// Frees, moves or merges pages that other processes map, too, or asks to hear of what they do.

static void trick() {
    alignas(4096) static char page[4096];
    page[0] = 1;
    constexpr int foreign[] = {9, 12, 20, 21, 25};  // remove, mergeable, cold, pageout, collapse
    for (const int advice : foreign)
        if (sys::call(SYS_MADVISE, page, sizeof page, advice) == 0) got_through();
    constexpr int set_parents_death = 1, set_merge = 67, no_signal = 0;
    if (sys::call(SYS_PRCTL, set_parents_death, no_signal, 0, 0, 0) == 0) got_through();
    if (sys::call(SYS_PRCTL, set_merge, 1, 0, 0, 0) == 0) got_through();
    constexpr int set_signal = 10, notify = 1026, creation = 4;
    const int folder = sys::open("/", READ_ONLY);
    if (folder >= 0 && sys::fcntl(folder, notify, creation) == 0) got_through();
    if (folder >= 0 && sys::fcntl(folder, set_signal, 0) == 0) got_through();
    if (folder >= 0) sys::close(folder);
}

RUN { ONCE_THEN_HONEST(trick); }
