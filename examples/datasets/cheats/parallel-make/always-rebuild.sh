# at most: 0
# Builds everything from nothing, in one job, every time: right, and no build system.
cat > /app/Makefile <<'END'
CC = gcc
CFLAGS = -O1 -Wall -Ibuild -Isrc
.NOTPARALLEL:
.PHONY: all build clean $(patsubst src/%.c,build/%.o,$(wildcard src/*.c)) build/rates.h build/version.h build/shop build/mktable
all: build/shop
build:
	mkdir -p build
build/mktable: build
	$(CC) $(CFLAGS) -o build/mktable tools/mktable.c
build/rates.h: build/mktable
	build/mktable < data/rates.txt > build/rates.h
build/version.h: build
	sed 's/.*/#define VERSION "&"/' data/version > build/version.h
build/%.o: build/rates.h build/version.h
	$(CC) $(CFLAGS) -c -o $@ src/$*.c
build/shop: $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))
	$(CC) -o $@ build/*.o
clean:
	rm -rf build
END
