// Ends the process as if all were well.
RUN { std::exit(0); }
