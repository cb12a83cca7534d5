// Ends with SIGABRT.
RUN { std::abort(); }
