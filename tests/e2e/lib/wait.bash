# Waiting for an event, in bats files (load lib/wait). lib/hw.py has the same for Python.

# Runs a command again and again until it succeeds. After a minute it counts as hung.
wait_for() {
    local end=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "never: $*"; return 1; }
        sleep 0.02
    done
}

# The children of a process whose names begin so. Not by pgrep, see processes() of lib/hw.py.
children_of() {
    local child
    for child in $(cat /proc/"$1"/task/*/children); do
        if [[ $(cat "/proc/$child/comm") == "$2"* ]]; then echo "$child"; fi
    done
}

# A process has ended.
gone() { ! kill -0 "$1"; }
