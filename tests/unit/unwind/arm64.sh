#!/bin/sh
# The walker for arm64: cross-built, with the table of its own ELF file, under emulation.
# Usage: arm64.sh SOURCE-DIR TABLE_OF
cc=aarch64-linux-gnu-gcc
command -v $cc >/dev/null 2>&1 || { echo "no $cc"; exit 77; }
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || { echo "no qemu-aarch64"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
for extra in "" "-mbranch-protection=standard"; do
    $cc -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -no-pie -fno-omit-frame-pointer $extra \
        -I"$1/src" -o "$dir/walk" "$1/tests/unit/unwind/arm64_walk.c" "$1/src/unwind/walk.c" \
        "$1/src/unwind/table.c" || exit 1
    "$2" "$dir/walk" "$dir/table" || exit 1
    "$qemu" -cpu max "$dir/walk" "$dir/table" || exit 1
done
# Random programs (known_random_test.c); there is no cmocka for arm64.
$cc -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -no-pie -I"$1/tests/unit/unwind/plain" -I"$1/src" -o "$dir/random" \
    "$1/tests/unit/unwind/known_random_test.c" "$1/src/unwind/walk.c" "$1/src/unwind/table.c" "$1/src/cfi/build.c" \
    "$1/src/base/memory/map64.c" "$1/src/base/memory/vec.c" "$1/src/base/error.c" || exit 1
"$qemu" -cpu max "$dir/random" || exit 1
