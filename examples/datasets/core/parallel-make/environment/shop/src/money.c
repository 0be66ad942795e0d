#include <stdio.h>

#include "money.h"

const char *money(long cents)
{
    static char text[40];

    snprintf(text, sizeof text, "%ld.%02ld %s", cents / 100, cents % 100, CURRENCY);
    return text;
}
