/*
 * marks.h - a program's own annotations of its allocations: scopes and types
 *
 * Why:     a call stack shows how an allocation was made, not what for. Scopes name the purpose
 *          (they make the pseudo-stack), types name what was allocated.
 * Shapes:  macros, for C99 and C++11 with GCC or Clang; elsewhere, and with HEAPWISE_NO_MARKS, they
 *          expand to nothing. Categories, names and types are string literals or bare words.
 *          Nothing is
 *          linked: a note in the program tells the profiler where one pointer is, and that is null
 *          until somebody records scopes or types.
 * Cost:    off: one or two relaxed loads per scope. On: two calls; recorded as slices, two records.
 * Threads: scopes and types belong to their thread; signal handlers may have some of their own.
 * Errors:  none. Nested scopes beyond 128, or types beyond 16, are counted, not kept.
 *
 *     HEAPWISE_TRACE_EVENT("parser", "ParseSheet");     until the end of the block
 *     HEAPWISE_TYPE_SCOPE("Sheet");                     the same for a type
 *     p = HEAPWISE_TYPED(Node, malloc(sizeof *p));      a type for this one call
 *
 * -DHEAPWISE_NO_TYPES builds without the names of types, -DHEAPWISE_TYPES='"Node,Sheet"' with only
 * these, where the compiler optimizes; others are [unknown] then.
 */
#ifndef HEAPWISE_MARKS_H
#define HEAPWISE_MARKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPWISE_MARKS_VERSION 1

/* One place in the program. The profiler writes into the last three. */
struct heapwise_mark {
    const char *category; /* NULL: a type */
    const char *name;
    uint32_t flags;
    uint32_t state;
    uint64_t id;
};
#define HEAPWISE_MARK_PRETTY 1u /* the name is what the compiler calls a template of T */

/* The profiler's side, one in a process. */
struct heapwise_marks {
    uint32_t version;
    uint32_t on; /* 0: nobody records them */
    uint64_t (*begin)(struct heapwise_mark *mark, const void *return_address);
    void (*end)(uint64_t token);
};
void heapwise_marks_join(const struct heapwise_marks **here);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__) && defined(__ELF__) && !defined(HEAPWISE_NO_MARKS)
#define HEAPWISE_HAS_MARKS

#ifdef __cplusplus
extern "C" {
#endif

/* One in each program and library, which the profiler finds by the note. */
extern const struct heapwise_marks *heapwise_marks_here;
__attribute__((weak, used, visibility("hidden"))) const struct heapwise_marks *heapwise_marks_here =
    NULL;
__asm__(".pushsection .note.heapwise,\"a\",%note\n"
        ".balign 4\n"
        ".long 9, 4, 1\n" /* of the name, of what is behind, version */
        ".asciz \"heapwise\"\n"
        ".balign 4\n"
        ".long heapwise_marks_here - .\n"
        ".popsection\n");

/* A library that is loaded while marks are wanted says so itself. */
extern void heapwise_marks_join(const struct heapwise_marks **here) __attribute__((weak));
#ifdef __PIC__
__attribute__((constructor)) static void heapwise_marks_loaded(void)
{
    if (heapwise_marks_join)
        heapwise_marks_join(&heapwise_marks_here);
}
#endif

struct heapwise_scope {
    const struct heapwise_marks *marks; /* NULL: not begun */
    uint64_t token;
};

__attribute__((always_inline)) static inline struct heapwise_scope
heapwise_scope_begin(struct heapwise_mark *mark)
{
    struct heapwise_scope s;
    s.marks = __atomic_load_n(&heapwise_marks_here, __ATOMIC_RELAXED);
    s.token = 0;
    if (__builtin_expect(s.marks != NULL, 0) && __atomic_load_n(&s.marks->on, __ATOMIC_RELAXED))
        s.token = s.marks->begin(mark, __builtin_return_address(0));
    return s;
}

__attribute__((always_inline)) static inline void heapwise_scope_end(struct heapwise_scope *s)
{
    if (__builtin_expect(s->token != 0, 0))
        s->marks->end(s->token);
}

#ifdef __cplusplus
}

namespace heapwise
{
class scope
{
    heapwise_scope inner;

  public:
    __attribute__((always_inline)) explicit scope(heapwise_mark &mark)
        : inner(heapwise_scope_begin(&mark))
    {
    }
    __attribute__((always_inline)) ~scope()
    {
        heapwise_scope_end(&inner);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
};
} // namespace heapwise
#define HEAPWISE_SCOPE_OF(n)                                                                       \
    ::heapwise::scope heapwise_scope_##n                                                           \
    {                                                                                              \
        heapwise_mark_##n                                                                          \
    }
#else
#define HEAPWISE_SCOPE_OF(n)                                                                       \
    __attribute__((cleanup(heapwise_scope_end),                                                    \
                   unused)) struct heapwise_scope heapwise_scope_##n =                             \
        heapwise_scope_begin(&heapwise_mark_##n)
#endif

#define HEAPWISE_SCOPE_AT(n, category, name)                                                       \
    static struct heapwise_mark heapwise_mark_##n = {category, name, 0, 0, 0};                     \
    HEAPWISE_SCOPE_OF(n)
#define HEAPWISE_SCOPE(n, category, name) HEAPWISE_SCOPE_AT(n, category, name)

#if defined(HEAPWISE_NO_TYPES)
#define HEAPWISE_TYPE_NAME(name) "[unknown]"
#elif defined(HEAPWISE_TYPES)
#define HEAPWISE_TYPE_NAME(name)                                                                   \
    (__builtin_strstr("," HEAPWISE_TYPES ",", "," name ",") ? "" name : "[unknown]")
#else
#define HEAPWISE_TYPE_NAME(name) "" name
#endif

#define HEAPWISE_TRACE_EVENT(category, name) HEAPWISE_SCOPE(__COUNTER__, "" category, "" name)
#define HEAPWISE_TYPE_SCOPE(name)            HEAPWISE_SCOPE(__COUNTER__, NULL, HEAPWISE_TYPE_NAME(name))
#define HEAPWISE_TYPED(type, call)                                                                 \
    __extension__({                                                                                \
        HEAPWISE_TYPE_SCOPE(#type);                                                                \
        call;                                                                                      \
    })

#else /* no such compiler, or not wanted */

#define HEAPWISE_TRACE_EVENT(category, name) ((void)0)
#define HEAPWISE_TYPE_SCOPE(name)            ((void)0)
#define HEAPWISE_TYPED(type, call)           (call)

#endif

#ifdef __cplusplus
#include <new>

namespace heapwise
{
/* What f allocates is of type T, named as the compiler does. */
template <class T, class F> auto typed(F f) -> decltype(f())
{
#ifdef HEAPWISE_HAS_MARKS
#ifdef HEAPWISE_NO_TYPES
    static heapwise_mark mark = {nullptr, "[unknown]", 0, 0, 0};
#else
    static heapwise_mark mark = {nullptr, __PRETTY_FUNCTION__, HEAPWISE_MARK_PRETTY, 0, 0};
#endif
    scope here{mark};
#endif
    return f();
}

/* std::vector<int, heapwise::typed_allocator<int>> */
template <class T> struct typed_allocator {
    typedef T value_type;
    typed_allocator() = default;
    template <class U> typed_allocator(const typed_allocator<U> &)
    {
    }
    T *allocate(std::size_t n)
    {
        if (n > static_cast<std::size_t>(-1) / sizeof(T))
            throw std::bad_alloc();
        return typed<T>([n] { return static_cast<T *>(::operator new(n * sizeof(T))); });
    }
    void deallocate(T *p, std::size_t)
    {
        ::operator delete(p);
    }
    template <class U> bool operator==(const typed_allocator<U> &) const
    {
        return true;
    }
    template <class U> bool operator!=(const typed_allocator<U> &) const
    {
        return false;
    }
};
} // namespace heapwise

/* In a class: `new Class` is of type Class. */
#define HEAPWISE_TYPED_NEW(Class)                                                                  \
    static void *operator new(std::size_t n)                                                       \
    {                                                                                              \
        return ::heapwise::typed<Class>([n] { return ::operator new(n); });                        \
    }                                                                                              \
    static void *operator new[](std::size_t n)                                                     \
    {                                                                                              \
        return ::heapwise::typed<Class>([n] { return ::operator new[](n); });                      \
    }                                                                                              \
    static void operator delete(void *p)                                                           \
    {                                                                                              \
        ::operator delete(p);                                                                      \
    }                                                                                              \
    static void operator delete[](void *p)                                                         \
    {                                                                                              \
        ::operator delete[](p);                                                                    \
    }
#endif

#endif
