/* Turns lines "NAME CENTS" into a table in C. */
#include <stdio.h>

int main(void)
{
    char line[200], name[100];
    long cents;

    puts("static const struct rate rates[] = {");
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%99s %ld", name, &cents) != 2) {
            fprintf(stderr, "mktable: what is this: %s", line);
            return 1;
        }
        printf("    {\"%s\", %ld},\n", name, cents);
    }
    puts("};");
    return 0;
}
