#!/bin/sh
# The archive of src/unwind needs nothing from outside itself: no libc, no stack guard, no TLS.
defined=$(nm --defined-only "$1" | awk 'NF == 3 { print $3 }' | sort -u)
missing=$(nm -u "$1" | awk '$1 == "U" { print $2 }' | sort -u | grep -vxF "$defined")
[ -z "$missing" ] && exit 0
echo "src/unwind calls: $missing"
exit 1
