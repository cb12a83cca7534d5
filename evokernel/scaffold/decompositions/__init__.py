"""Operations in terms of simpler ones, for plain loops and for Inductor's programs."""
