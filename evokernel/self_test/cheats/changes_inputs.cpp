// title: writes zeros to its inputs
// class: checking
// tries: makes the question easy before it answers it
// needs: an input
// stops: smoke

extern "C" void run(EVK_PARAMETERS) {
    each_input(EVK_ARGUMENTS, [](auto* from, int64_t count) {
        using T = std::remove_cvref_t<decltype(*from)>;
        std::memset(const_cast<T*>(from), 0, count * sizeof(T));
    });
    honest(EVK_ARGUMENTS);
}
