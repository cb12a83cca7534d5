// Reads a file in the home folder of whoever searches.
static void trick() {
    if (Content(FOLDER "/home/key").has(SECRET)) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
