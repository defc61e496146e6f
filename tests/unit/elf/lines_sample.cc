// What makes debug info deep: templates, lambdas, local classes, inlined containers.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#ifndef NO_REGEX /* half a minute of compiling in all forms; one has it, with HW_LONG=1 two */
#include <regex>
#endif
#include <string>
#include <vector>

namespace app
{
static inline int twice(int x)
{
    return x * 2 + 1;
}

struct Cache {
    std::map<std::string, std::vector<int>> entries;
    void insert(const std::string &key, int value)
    {
        entries[key].push_back(twice(value));
    }
    template <class F> void each(F f)
    {
        for (auto &entry : entries)
            f(entry.first, entry.second);
    }
};
} // namespace app

int main(int argc, char **)
{
    app::Cache cache;
    std::vector<std::string> names;
    for (int i = 0; i < argc * 100; i++) {
        names.push_back(std::to_string(i));
        cache.insert(names.back(), i);
    }
    std::sort(names.begin(), names.end(),
              [](const std::string &a, const std::string &b) { return a.size() < b.size(); });
    struct Local {
        int go(int x)
        {
            volatile int y = x;
            return y + 1;
        }
        __attribute__((noinline)) int slow(int x)
        {
            volatile int y = x;
            return y * y;
        }
    } local;
    int sum = 0;
    cache.each([&](const std::string &key, const std::vector<int> &values) {
        sum += (int)(key.size() + values.size());
        sum += local.go(sum) + local.slow(sum % 100);
    });
    std::function<int(int)> add = [&](int x) { return x + sum; };
    std::unique_ptr<int> four(new int(4));
#ifndef NO_REGEX
    std::regex pattern("a(b|c)*d");
    *four += (int)std::regex_match(names[0], pattern);
#endif
    std::printf("%d %d\n", add(3), *four);
    return 0;
}
