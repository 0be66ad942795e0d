#include <stdio.h>

#include "lookup.h"
#include "money.h"
#include "version.h"

int main(void)
{
    const struct rate *r;

    printf("shop %s\n", VERSION);
    for (unsigned n = 0; (r = rate(n)); n++)
        printf("%s %s\n", r->name, money(r->cents));
    return 0;
}
