#include "textflag.h"

// nothing is a signal handler that does nothing.
TEXT nothing<>(SB), NOSPLIT|NOFRAME, $0-0
	RET

// restore is where nothing returns to: rt_sigreturn(2).
TEXT restore<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ $15, AX
	SYSCALL
	INT  $3

DATA ·nothing(SB)/8, $nothing<>(SB)
GLOBL ·nothing(SB), RODATA, $8
DATA ·restore(SB)/8, $restore<>(SB)
GLOBL ·restore(SB), RODATA, $8
