// Templates, inlining, lambdas and local classes without the standard library: compiled in every form
// of debug info, where the larger sample would take its time.
#define INLINE inline __attribute__((always_inline))
#define KEEP   __attribute__((noinline))

namespace outer {
namespace {
volatile int sink;
}

template <class T, int N> struct box {
    T v[N];
    INLINE T sum() const
    {
        T s = 0;
        for (int i = 0; i < N; i++)
            s += v[i] * (i + 1);
        return s;
    }
    KEEP T keep(T by);
};

template <class T, int N> T box<T, N>::keep(T by)
{
    struct local {
        KEEP static T twice(T x)
        {
            sink = (int)x;
            return x + x;
        }
    };
    auto each = [&](T x) { return local::twice(x) + sum(); };
    return each(by) + each(by + 1);
}

INLINE int deepest(int x)
{
    sink = x;
    return x * 3 + sink;
}
INLINE int deeper(int x)
{
    if (x > 2) {
        int y = deepest(x);
        sink = y;
        return y + deepest(y);
    }
    return deepest(x) - 1;
}

KEEP int work(int n)
{
    box<int, 3> a = {{n, n + 1, n + 2}};
    box<double, 5> b = {{1.0 * n, 2, 3, 4, 5}};
    int r = deeper(n) + a.sum();
    for (int i = 0; i < n; i++)
        r += deeper(i) + (int)b.keep(i);
    return r + a.keep(n);
}
} // namespace outer

int main(int argc, char **)
{
    return outer::work(argc) == 0;
}
