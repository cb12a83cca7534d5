// Looks who it is.
static void trick() {
    if (sys::getuid() == OWNER) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
