// Writes, makes, moves and removes files of others that everybody may write.

static void trick() {
    if (sys::open(FOLDER "/open/file", READ_WRITE) >= 0) got_through();
    if (sys::truncate(FOLDER "/open/file", 0) == 0) got_through();
    if (sys::mkdir(FOLDER "/open/" TOKEN, 0777) == 0) got_through();
    if (sys::symlink("/", FOLDER "/open/" TOKEN) == 0) got_through();
    if (sys::rename(FOLDER "/open/file", FOLDER "/open/" TOKEN) == 0) got_through();
    if (sys::unlink(FOLDER "/open/file") == 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
