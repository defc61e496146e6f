#!/bin/sh
# Walks of real programs against libdwfl: a scripting language, a compiler, a database, a server, a
# JIT. Programs that are not installed are left out.
# Usage: oracle.sh ORACLE short|long     short: 150 samples each; long: 10000
oracle=$1
case $2 in
long) n=10000 s=600 min=99.9 ;;
*) n=150 s=4 min=98 ;; # a hundred samples do not resolve 99.9 %
esac
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cat > "$dir/a.py" <<'END'
import json, random, re
def f(n, d):
    if d == 0:
        return len(re.sub('a+', lambda m: m.group(0).upper(), 'aab' * 30)) + len(json.dumps({'a': [n]}))
    return sorted([f(n, d - 1) for _ in range(2)], key=lambda x: -x)[0]
while True:
    f(3, random.randint(1, 8))
END
cat > "$dir/a.js" <<'END'
function f(d) {
  if (d === 0) return JSON.stringify([1, { a: 'b'.repeat(20) }]).replace(/b+/g, m => m.toUpperCase()).length;
  return [f(d - 1), f(d - 1)].map(x => x + 1).sort((a, b) => a - b)[0];
}
for (;;) f(9);
END
for i in 1 2 3 4 5 6 7 8 9; do
    echo "#include <map>
#include <regex>
#include <string>
std::map<std::string, std::map<int, std::string>> m$i;
bool f$i() { std::regex r(\"a+$i\"); m$i[\"x\"][$i] = \"y\"; return std::regex_match(\"aa\", r); }"
done > "$dir/a.cc"

bad=0 ran=0
run() {
    "$@"
    case $? in
    0) ran=1 ;;
    77) ;;
    *) bad=1 ;;
    esac
}
have() { command -v "$1" >/dev/null 2>&1; }

[ -x /usr/bin/python3 ] && run "$oracle" -n $n -s $s -m $min -- /usr/bin/python3 "$dir/a.py"
have sqlite3 && run "$oracle" -n $n -s $s -m $min -- sqlite3 :memory: \
    "with recursive c(x) as (select 1 union all select x+1 from c where x<1000000000)
     select count(*), sum(length(hex(x)||printf('%d',x))) from c group by x%1000 order by 2;"
have node && run "$oracle" -n $n -s $s -m $min -- node "$dir/a.js"
have g++ && g++ -E "$dir/a.cc" > "$dir/a.ii" 2>/dev/null &&
    run "$oracle" -n $n -s $s -m $min -- "$(g++ -print-prog-name=cc1plus)" -fpreprocessed -quiet -O2 \
        -o /dev/null "$dir/a.ii"
have redis-server && have redis-benchmark && run "$oracle" -n $n -s $s -m $min \
    -l "sleep 0.3; exec redis-benchmark -s $dir/sock -q -l -n 100000" -- \
    redis-server --port 0 --unixsocket "$dir/sock" --save ''
[ $bad = 0 ] || exit 1
[ $ran = 1 ] || exit 77
