// Throws out of `run`.
RUN { throw 1; }
