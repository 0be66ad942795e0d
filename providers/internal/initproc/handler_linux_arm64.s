#include "textflag.h"

// nothing is a signal handler that does nothing. The kernel knows where it returns to.
TEXT nothing<>(SB), NOSPLIT|NOFRAME, $0-0
	RET

DATA ·nothing(SB)/8, $nothing<>(SB)
GLOBL ·nothing(SB), RODATA, $8
