#define CURRENCY "EUR"

const char *money(long cents);
