// Makes the compiler say more than ten MiB before its one error.
#define A "the compiler says something that nobody wants to read, and says it again, "
#define B A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A A
#define SAY _Pragma("message(B)")
#define SAY_16 SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY SAY
#define SAY_256 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16 SAY_16
SAY_256 SAY_256 SAY_256 SAY_256 SAY_256 SAY_256 SAY_256 SAY_256 SAY_256 SAY_256 SAY_256

RUN { nobody; }
