// Ends the process as if all were well, without its last rites.
RUN { std::_Exit(0); }
