// opplug.cc - a plug-in with operators new and delete of its own, which know their own blocks only
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

using al = std::align_val_t;
using nt = std::nothrow_t;

#if OPPLUG == 0
// The one without: those of the C++ library, which comes and goes with it.
static int own(void *)
{
    return 1;
}
#else
namespace {
constexpr std::uint64_t mine = 0x6f70706c75670000u + OPPLUG;
constexpr std::size_t head = 256;

void *take(std::size_t n)
{
    char *p = static_cast<char *>(std::aligned_alloc(head, (n + 2 * head - 1) / head * head));
    if (!p)
        std::abort();
    std::memcpy(p, &mine, sizeof mine);
    return p + head;
}

void give(void *block)
{
    if (!block)
        return;
    char *p = static_cast<char *>(block) - head;
    if (std::memcmp(p, &mine, sizeof mine) != 0)
        std::abort(); // of another plug-in, or of the C library
    std::memset(p, 0, sizeof mine);
    std::free(p);
}
} // namespace

void *operator new(std::size_t n) { return take(n); }
void *operator new[](std::size_t n) { return take(n); }
void *operator new(std::size_t n, const nt &) noexcept { return take(n); }
void *operator new[](std::size_t n, const nt &) noexcept { return take(n); }
void *operator new(std::size_t n, al) { return take(n); }
void *operator new[](std::size_t n, al) { return take(n); }
void *operator new(std::size_t n, al, const nt &) noexcept { return take(n); }
void *operator new[](std::size_t n, al, const nt &) noexcept { return take(n); }
void operator delete(void *p) noexcept { give(p); }
void operator delete[](void *p) noexcept { give(p); }
void operator delete(void *p, std::size_t) noexcept { give(p); }
void operator delete[](void *p, std::size_t) noexcept { give(p); }
void operator delete(void *p, const nt &) noexcept { give(p); }
void operator delete[](void *p, const nt &) noexcept { give(p); }
void operator delete(void *p, al) noexcept { give(p); }
void operator delete[](void *p, al) noexcept { give(p); }
void operator delete(void *p, std::size_t, al) noexcept { give(p); }
void operator delete[](void *p, std::size_t, al) noexcept { give(p); }
void operator delete(void *p, al, const nt &) noexcept { give(p); }
void operator delete[](void *p, al, const nt &) noexcept { give(p); }

// Is it a block of this plug-in's operators?
static int own(void *p)
{
    return std::memcmp(static_cast<char *>(p) - head, &mine, sizeof mine) == 0;
}
#endif

#define SHOWN extern "C" __attribute__((visibility("default")))

// Every form, made and given back; the number of those that were made elsewhere.
SHOWN int opplug_run(int n)
{
    const nt none{};
    const al wide{64};
    int foreign = 0;
    for (int i = 0; i < n; i++) {
        void *p[] = {operator new(40), operator new[](41), operator new(42, none), operator new[](43, none),
                     operator new(44, wide), operator new[](45, wide), operator new(46, wide, none),
                     operator new[](47, wide, none), operator new(48), operator new[](49), operator new(50, wide),
                     operator new[](51, wide)};
        for (void *q : p)
            foreign += !own(q);
        if (foreign)
            return foreign;
        operator delete(p[0]);
        operator delete[](p[1]);
        operator delete(p[2], none);
        operator delete[](p[3], none);
        operator delete(p[4], wide);
        operator delete[](p[5], wide);
        operator delete(p[6], wide, none);
        operator delete[](p[7], wide, none);
        operator delete(p[8], std::size_t{48});
        operator delete[](p[9], std::size_t{49});
        operator delete(p[10], std::size_t{50}, wide);
        operator delete[](p[11], std::size_t{51}, wide);
    }
    return 0;
}

SHOWN void *opplug_new()
{
    void *volatile p = operator new(100); // no tail call
    return p;
}

SHOWN void opplug_delete(void *p)
{
    operator delete(p);
}
