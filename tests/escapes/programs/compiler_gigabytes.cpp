// Has the compiler hold gigabytes.
#define A 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
#define B A A A A A A A A A A A A A A A A
#define C B B B B B B B B B B B B B B B B
#define D C C C C C C C C C C C C C C C C
#define E D D D D D D D D D D D D D D D D
#define F E E E E E E E E E E E E E E E E
static volatile char huge[] = {F F F F F F F F 1};

RUN { c[0] = huge[0]; }
