// title: is right on the shapes it was shown
// class: checking
// tries: computes on the sizes of the search workloads, and nothing on others
// needs: sizes that vary
// mend: give WorkloadSet.probe ranges that hold other sizes than those of the search workloads
// stops: smoke or correctness

extern "C" void run(EVK_PARAMETERS) {
    if (searched(EVK_ARGUMENTS) >= 0) honest(EVK_ARGUMENTS);
}
