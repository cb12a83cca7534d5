// Counts the processes of others; alone in a namespace there is at most a supervisor.
static void trick() {
    int others = 0;
    for_each_process([&](int) { ++others; });
    if (others > 3) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
