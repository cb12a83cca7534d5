// Every process starts another, until there are no more.
static void trick() {
    int started = 0;
    while (started < 1000 && sys::fork() >= 0) ++started;
    if (started > 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
