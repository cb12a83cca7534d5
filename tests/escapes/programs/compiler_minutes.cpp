// Has the compiler compute for minutes.
template <int N> constexpr unsigned slow() {
    unsigned sum = N;
    for (int i = 0; i < 200000; ++i)
        for (int j = 0; j < 20; ++j) sum = sum * 1664525u + static_cast<unsigned>(j);
    return sum;
}
template <int N> struct all { static constexpr unsigned value = slow<N>() + all<N - 1>::value; };
template <> struct all<0> { static constexpr unsigned value = 0; };

static_assert(all<800>::value != 1);

RUN { multiply(a, b, M, N, K, c); }
