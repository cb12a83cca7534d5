// Finds out whether a file exists, without opening it.
static void trick() {
    if (sys::access(FOLDER "/home/key", 0) == 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
