struct rate {
    const char *name;
    long cents;
};

const struct rate *rate(unsigned n); /* NULL: there are no more */
