// newdel.cc - operator new and delete in their forms; with jemalloc, tcmalloc or mimalloc in front
// they never reach malloc
#include <cstdio>
#include <cstdlib>
#include <new>

struct alignas(64) wide {
    char b[192];
};
struct plain {
    char b[40];
};

extern "C" __attribute__((noipa)) void *fn_new()
{
    void *volatile p = new plain;
    return p;
}
extern "C" __attribute__((noipa)) void *fn_array(size_t n)
{
    void *volatile p = new char[n];
    return p;
}
extern "C" __attribute__((noipa)) void *fn_aligned()
{
    void *volatile p = new wide;
    return p;
}
extern "C" __attribute__((noipa)) void *fn_nothrow(size_t n)
{
    void *volatile p = new (std::nothrow) char[n];
    return p;
}

int main()
{
    enum { N = 25000 };
    static void *a[N], *b[N], *c[N], *d[N];
    for (int i = 0; i < N; i++) {
        a[i] = fn_new();
        b[i] = fn_array(100);
        c[i] = fn_aligned();
        d[i] = fn_nothrow(60);
    }
    for (int i = 0; i < N; i += 2) {
        delete static_cast<plain *>(a[i]);
        delete[] static_cast<char *>(b[i]);
        delete static_cast<wide *>(c[i]);
        delete[] static_cast<char *>(d[i]);
    }
    std::printf("EXPECT fn_new %d %d %d %d\n", N * 40, N, N * 20, N / 2);
    std::printf("EXPECT fn_array %d %d %d %d\n", N * 100, N, N * 50, N / 2);
    std::printf("EXPECT fn_aligned %d %d %d %d\n", N * 192, N, N * 96, N / 2);
    std::printf("EXPECT fn_nothrow %d %d %d %d\n", N * 60, N, N * 30, N / 2);
    return 0;
}
