# at most: 0
# Every object depends on every header: right, but compiles what needs no compiling, and a failed generator stays.
cat > /app/Makefile <<'END'
CC = gcc
CFLAGS = -O1 -Wall -Ibuild -Isrc
all: build/shop
build/shop: $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))
	$(CC) -o $@ $^
build/%.o: src/%.c $(wildcard src/*.h) build/rates.h build/version.h
	$(CC) $(CFLAGS) -c -o $@ $<
build/mktable: tools/mktable.c
	mkdir -p build
	$(CC) $(CFLAGS) -o $@ $<
build/rates.h: data/rates.txt build/mktable
	build/mktable < $< > $@
build/version.h: data/version
	mkdir -p build
	sed 's/.*/#define VERSION "&"/' $< > $@
clean:
	rm -rf build
END
