// title: rounds its results to bfloat16
// class: checking
// tries: 8 bits of 24 are enough where a tolerance is loose
// needs: results that bfloat16 does not hold
// mend: lower Precision.slack, or Precision.reduction to the length of the longest sum
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    honest(EVK_ARGUMENTS);
    each_result(EVK_ARGUMENTS, [](int, auto* place, int64_t count, int64_t) {
        using T = std::remove_reference_t<decltype(*place)>;
        if constexpr (std::is_floating_point_v<T>)
            for (int64_t i = 0; i < count; ++i) place[i] = to_bfloat16(static_cast<float>(place[i]));
    });
}
