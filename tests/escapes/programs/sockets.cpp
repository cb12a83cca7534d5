// Opens sockets: TCP and UDP of both versions, unix, raw, netlink; and a pair, which forks could share.

static void trick() {
    constexpr int kinds[][2] = {{2, 1}, {10, 1}, {2, 2}, {10, 2}, {1, 1}, {1, 2}, {2, 3}, {16, 3}, {17, 3}};
    for (const auto& kind : kinds)
        if (sys::socket(kind[0], kind[1], 0) >= 0) got_through();
    int pair[2];
    if (sys::socketpair(1, 1, 0, pair) == 0) got_through();
}

RUN { ONCE_THEN_HONEST(trick); }
