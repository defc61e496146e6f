/*
 * allocator_frames.c - which functions are between malloc and the code that asked
 *
 * By name, since a trace has nothing else. Wrappers are listed, not recognized by a name's ending:
 * a program's own `leaky_malloc` is what its developer looks for. Names that mean an allocator in
 * one library only (os::malloc, AllocateHeap) count only there. --wrapper adds what the list lacks.
 *
 * The C library and the dynamic loader are skipped as a whole, like templates of the standard
 * library: fopen's buffer belongs to whoever opened the file. Most of their internal functions have
 * no name in a distribution's symbol table anyway.
 */
#include <fnmatch.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text/text_parts.h"
#include "views/flame/functions.h"

#include "base/banned.h"

static bool has(struct hw_bytes s, const char *what)
{
    return s.p && memmem(s.p, s.n, what, strlen(what)) != NULL;
}

static bool is(struct hw_bytes s, const char *what)
{
    return s.n == strlen(what) && memcmp(s.p, what, s.n) == 0;
}

static bool starts_any(struct hw_bytes s, const char *const *list)
{
    for (; *list; list++)
        if (hw_bytes_start_with(s, *list))
            return true;
    return false;
}

static bool is_any(struct hw_bytes s, const char *const *list)
{
    for (; *list; list++)
        if (is(s, *list))
            return true;
    return false;
}

/* ---- modules ---- */

static bool is_profiler(struct hw_bytes module)
{
    return hw_bytes_start_with(module, "libheapprofd") ||
           hw_bytes_start_with(module, "libheapwise");
}

/* "libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1". */
static bool is_runtime(struct hw_bytes module)
{
    static const char *const names[] = {"libc.so",   "libc-2.",       "ld-linux",      "ld-2.",
                                        "ld-musl",   "libpthread.so", "libpthread-2.", "libdl.so",
                                        "libgcc_s.", "libstdc++.so",  "libc++.so",     "libc++abi",
                                        NULL};
    return starts_any(module, names);
}

static bool is_allocator_library(struct hw_bytes module)
{
    static const char *const names[] = {"libjemalloc", "libtcmalloc", "libmimalloc",
                                        "libumem",     "librpmalloc", NULL};
    return starts_any(module, names);
}

/* Managed functions are in mappings "[java] java.base", "[java] app.jar", "[python]", "[ruby]", "[php]"; a
 * trace's paths begin with a slash: "/[python]". */
#define JAVA   "/[java]"
#define PYTHON "/[python]"
#define RUBY   "/[ruby]"
#define PHP    "/[php]"

/* A frame that says why managed frames are missing: "[java unwind failed: -3]". */
static bool is_note(struct hw_bytes name)
{
    return hw_bytes_start_with(name, "[") && name.p[name.n - 1] == ']';
}

/* Modules of the JDK itself, by name. */
static bool is_jdk(struct hw_bytes module)
{
    return hw_bytes_start_with(module, JAVA " java.") || hw_bytes_start_with(module, JAVA " jdk.");
}

/* "_json.cpython-311-x86_64-linux-gnu.so", "_rust.abi3.so" */
static bool is_extension(struct hw_bytes base)
{
    return has(base, ".cpython-3") || has(base, ".abi3.so");
}

enum hw_function_language hw_function_language_of(struct hw_bytes module)
{
    static const char *const runtimes[] = {
        "libjvm.so", "libjava.so", "libzip.so", "libnio.so", "libnet.so", "libjimage.so",
        "libjli.so", "libpython",  "python2",   "python3",   "libnode",   "libruby",
        "ruby3",     "libphp",     "php8.",     "php-fpm",   NULL};
    if (hw_bytes_start_with(module, JAVA) || hw_bytes_start_with(module, PYTHON) ||
        hw_bytes_start_with(module, RUBY) || hw_bytes_start_with(module, PHP))
        return HW_FUNCTION_MANAGED;
    struct hw_bytes base = hw_bytes_base_name(module);
    if (is_extension(base))
        return HW_FUNCTION_EXTENSION;
    return starts_any(base, runtimes) || is(base, "node") || is(base, "ruby") || is(base, "php")
               ? HW_FUNCTION_RUNTIME
               : HW_FUNCTION_NATIVE;
}

bool hw_function_is_javascript(struct hw_bytes raw_name, struct hw_bytes module)
{
    static const char *const kinds[] = {
        "JS:", "LazyCompile:", "Function:", "Script:", "Eval:", NULL};
    return hw_bytes_start_with(module, "/[jit]") && starts_any(raw_name, kinds);
}

static enum hw_function_home home_of_javascript(struct hw_bytes raw_name)
{
    if (has(raw_name, " node:"))
        return HW_HOME_STANDARD;
    return has(raw_name, "/node_modules/") ? HW_HOME_PACKAGE : HW_HOME_OWN;
}

/* "/lib/python3.11/", "/lib64/python3/", "/lib/ruby/3.1.0/": digits, then a slash. */
static bool is_below_interpreter(struct hw_bytes file, const char *name)
{
    size_t n = strlen(name);
    const uint8_t *end = file.p + file.n;
    for (const uint8_t *at = file.p; (at = memmem(at, (size_t)(end - at), name, n)); at++) {
        const uint8_t *after = at + n;
        while (after < end && ((*after >= '0' && *after <= '9') || *after == '.'))
            after++;
        bool is_lib = (at - file.p >= 4 && memcmp(at - 4, "/lib", 4) == 0) ||
                      (at - file.p >= 6 && memcmp(at - 6, "/lib64", 6) == 0);
        if (is_lib && after > at + n && after < end && *after == '/')
            return true;
    }
    return false;
}

/* Gems, those of the distribution, and rubygems itself. */
static enum hw_function_home home_of_ruby(struct hw_bytes file)
{
    if (has(file, "/gems/") || has(file, "/vendor_ruby/") || has(file, "/site_ruby/"))
        return has(file, "/vendor_ruby/rubygems") ? HW_HOME_STANDARD : HW_HOME_PACKAGE;
    return hw_bytes_start_with(file, "<internal:") || is_below_interpreter(file, "/ruby/")
               ? HW_HOME_STANDARD
               : HW_HOME_OWN;
}

enum hw_function_home hw_function_home_of(struct hw_bytes raw_name, struct hw_bytes module,
                                          struct hw_bytes file)
{
    if (hw_function_is_javascript(raw_name, module))
        return home_of_javascript(raw_name);
    if (hw_bytes_start_with(module, RUBY))
        return home_of_ruby(file);
    if (hw_bytes_start_with(module, PHP)) /* Composer's, and the distribution's */
        return has(file, "/vendor/") || hw_bytes_start_with(file, "/usr/share/php/")
                   ? HW_HOME_PACKAGE
                   : HW_HOME_OWN;
    if (!hw_bytes_start_with(module, PYTHON))
        return HW_HOME_OWN;
    if (has(file, "/site-packages/") || has(file, "/dist-packages/"))
        return HW_HOME_PACKAGE;
    return hw_bytes_start_with(file, "<frozen ") || is_below_interpreter(file, "/python")
               ? HW_HOME_STANDARD
               : HW_HOME_OWN;
}

struct hw_bytes hw_function_go_library(struct hw_bytes raw_name, struct hw_bytes file)
{
    static const char in[] = "/src/runtime/";
    struct hw_bytes base = hw_bytes_base_name(file);
    size_t n = sizeof in - 1;
    if (!hw_bytes_start_with(raw_name, "runtime.") || file.n < base.n + n ||
        memcmp(base.p - n, in, n) != 0)
        return hw_bytes_of("", 0);
    return hw_bytes_of(file.p, file.n - base.n - strlen("runtime/"));
}

bool hw_function_file_is_whole(struct hw_bytes file)
{
    static const char *const pieces[] = {"h",   "hh",  "hpp", "hxx", "h++", "H",  "inc", "inl",
                                         "ipp", "tcc", "tpp", "def", "gen", "y",  "yy",  "ypp",
                                         "l",   "ll",  "lpp", "rl",  "re",  "pc", NULL};
    struct hw_bytes base = hw_bytes_base_name(file);
    const uint8_t *dot = base.n ? memrchr(base.p, '.', base.n) : NULL;
    return dot && !is_any(hw_bytes_of(dot + 1, (size_t)(base.p + base.n - dot - 1)), pieces);
}

/* ---- wrappers in C: a known prefix, what is wrapped, a known tail ---- */

static const char *const prefixes[] = {
#define PREFIX(...) __VA_ARGS__,
#include "views/flame/allocator_frames.def"
    NULL};

static const char *const verbs[] = {
#define VERB(...) __VA_ARGS__,
#include "views/flame/allocator_frames.def"
    NULL};

static const char *const tails[] = {
#define TAIL(...) __VA_ARGS__,
#include "views/flame/allocator_frames.def"
    NULL};

/* Functions between a wrapper and malloc that the pattern above does not match. */
static const char *const wrappers[] = {
#define WRAPPER(...) __VA_ARGS__,
#include "views/flame/allocator_frames.def"
    NULL};

static const char *const wrapper_starts[] = {
#define START(...) __VA_ARGS__,
#include "views/flame/allocator_frames.def"
    NULL};

static bool is_verb_and_tail(struct hw_bytes s)
{
    for (const char *const *v = verbs; *v; v++)
        if (hw_bytes_start_with(s, *v)) {
            size_t n = strlen(*v);
            if (is_any(hw_bytes_of(s.p + n, s.n - n), tails))
                return true;
        }
    return false;
}

/* "realloc.part.0", "malloc.constprop.1": a part that the compiler split off. */
static struct hw_bytes without_clone(struct hw_bytes s)
{
    const uint8_t *dot = s.n ? memchr(s.p, '.', s.n) : NULL;
    return dot && dot > s.p ? hw_bytes_of(s.p, (size_t)(dot - s.p)) : s;
}

static bool is_c_wrapper(struct hw_bytes name)
{
    struct hw_bytes s = without_clone(name);
    if (starts_any(s, wrapper_starts))
        return true;
    while (s.n && s.p[0] == '_' && !hw_bytes_start_with(s, "_P") &&
           !hw_bytes_start_with(s, "_mi_") && !hw_bytes_start_with(s, "_obstack"))
        s = hw_bytes_of(s.p + 1, s.n - 1);
    if (is_any(s, wrappers))
        return true;
    for (const char *const *p = prefixes; *p; p++)
        if (hw_bytes_start_with(s, *p) &&
            is_verb_and_tail(hw_bytes_of(s.p + strlen(*p), s.n - strlen(*p))))
            return true;
    return false;
}

/* ---- C++ and Rust, by their mangled names ---- */

/* operator new, new[]; the allocators that containers call. */
static const char *const cxx_allocators[] = {"_Znw",
                                             "_Zna",
                                             "_ZN9__gnu_cxx13new_allocator",
                                             "_ZNSt15__new_allocator",
                                             "_ZNSt16allocator_traits",
                                             "_ZNSaI",
                                             "_ZSt10__allocate",
                                             "_ZSt17__libcpp_allocate",
                                             "_ZNSt3__19allocator",
                                             "_Z7qMallocm",
                                             "_Z8qReallocPvm",
                                             "_Z14qMallocAlignedmm",
                                             "_Z15qReallocAlignedPvmmm",
                                             "_ZN10QArrayData8allocate",
                                             "_ZN10QArrayData19reallocateUnaligned",
                                             "_ZN10QArrayData20reallocateUnaligned",
                                             "_ZN4llvm15allocate_buffer",
                                             "_ZN4llvm11safe_malloc",
                                             NULL};

static const char *const cxx_std[] = {"_ZNSt",  "_ZNKSt",        "_ZSt", "_ZNSs",
                                      "_ZNKSs", "_ZN9__gnu_cxx", NULL};

static const char *const rust_allocators[] = {"_ZN5alloc5alloc", "_ZN5alloc7raw_vec", NULL};
static const char *const rust_std[] = {"_ZN4core", "_ZN5alloc", "_ZN3std", "_ZN9hashbrown", NULL};

/* Wrappers in large programs, each in its own file only. */
static const struct {
    const char *module; /* its base name begins with this */
    const char *name;   /* the raw name begins with this */
} in_module[] = {
    {"libjvm.so", "_ZN2os6malloc"},
    {"libjvm.so", "_ZN2os7realloc"},
    {"libjvm.so", "_ZN2os6strdup"},
    {"libjvm.so", "_Z12AllocateHeap"},
    {"libjvm.so", "_Z14ReallocateHeap"},
    {"libjvm.so", "_ZN20NMTPreInitAllocation"},
    {"libjvm.so", "_ZN10NMTPreInit"},
    {"libjvm.so", "_ZN5Arena4grow"},
    {"libjvm.so", "_ZN5Arena6Amalloc"},
    {"libjvm.so", "_ZN15ResourceObjnw"},
    {"node", "_ZN2v88internal21AllocAtLeastWithRetry"},
    {"node", "_ZN2v88internal14AllocWithRetry"},
    {"node", "_ZN2v88internal12AlignedAlloc"},
    {"node", "_ZN2v88internal21AlignedAlloc"},
    {"cc1", "_Z18ggc_internal_alloc"},
    {"cc1", "_Z26ggc_internal_cleared_alloc"},
    {"node", "_ZN4node24NodeArrayBufferAllocator"},
    {"node", "_ZN2v88internal12BackingStore"},
    {"node", "_ZN2v88internal4Heap28AllocateExternalBackingStore"},
    {"libnode", "_ZN4node24NodeArrayBufferAllocator"},
    {"libnode", "_ZN2v88internal12BackingStore"},
    {"libnode", "_ZN2v88internal4Heap28AllocateExternalBackingStore"},
    {"node", "_ZN2v84base6Malloc"},
    {"node", "_ZN2v84base12AlignedAlloc"},
    {"libnode", "_ZN2v88internal21AllocAtLeastWithRetry"},
    {"libnode", "_ZN2v88internal14AllocWithRetry"},
    {"libnode", "_ZN2v88internal21AlignedAlloc"},
    {"libpython", "new_arena"},
    {"libpython", "_PyObject_Arena"},
};

static bool is_wrapper_of_module(struct hw_bytes name, struct hw_bytes module)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(in_module); i++)
        if (hw_bytes_start_with(module, in_module[i].module) &&
            hw_bytes_start_with(name, in_module[i].name))
            return true;
    return false;
}

/* "X::operator new(size_t)": `nw` or `na` after the class, then the first parameter. */
static bool is_class_new(struct hw_bytes name)
{
    return hw_bytes_start_with(name, "_ZN") &&
           (has(name, "nwEm") || has(name, "naEm") || has(name, "nwEj"));
}

/* Rust's older mangling is C++'s with a hash at its end, "17h0123456789abcdefE"; without looking
 * for that, a C++ namespace `core` would pass for Rust's library. */
static bool is_rust_legacy(struct hw_bytes n)
{
    return n.n > 23 && n.p[n.n - 1] == 'E' && memcmp(n.p + n.n - 20, "17h", 3) == 0;
}

/* A crate root in Rust's v0 mangling is "C", its hash "s…_", a length and the name. The first root
 * is that of the item, or of the impl it is in; an identifier after it is its module. */
static struct hw_bytes rust_identifier(struct hw_bytes n, size_t *at)
{
    size_t len = 0, i = *at;
    while (i < n.n && n.p[i] >= '0' && n.p[i] <= '9' && len < n.n)
        len = len * 10 + (size_t)(n.p[i++] - '0');
    if (i < n.n && n.p[i] == '_')
        i++;
    if (i == *at || len == 0 || len > n.n - i)
        return (struct hw_bytes){0};
    *at = i + len;
    return hw_bytes_of(n.p + i, len);
}

static struct hw_bytes rust_crate(struct hw_bytes n, struct hw_bytes *module)
{
    for (size_t i = 2; i + 1 < n.n; i++) {
        size_t at = i + 1;
        if (n.p[i] != 'C')
            continue;
        if (n.p[at] == 's') {
            const uint8_t *end = memchr(n.p + at, '_', n.n - at);
            if (!end)
                break;
            at = (size_t)(end - n.p) + 1;
        }
        struct hw_bytes crate = rust_identifier(n, &at);
        *module = rust_identifier(n, &at);
        if (crate.n)
            return crate;
    }
    *module = (struct hw_bytes){0};
    return *module;
}

static const char *const rust_crates[] = {"core", "alloc", "std", "hashbrown", NULL};
static const char *const rust_allocating[] = {"alloc", "raw_vec", NULL}; /* modules of alloc */

static enum hw_function_kind rust_kind(struct hw_bytes name)
{
    struct hw_bytes module, crate = rust_crate(name, &module);
    if (hw_bytes_equal(crate, hw_bytes_str("alloc")) && is_any(module, rust_allocating))
        return HW_FUNCTION_ALLOCATOR;
    return is_any(crate, rust_crates) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
}

static enum hw_function_kind mangled_kind(struct hw_bytes name)
{
    if (hw_bytes_start_with(name, "_Z") && is_rust_legacy(name)) {
        if (starts_any(name, rust_allocators))
            return HW_FUNCTION_ALLOCATOR;
        return starts_any(name, rust_std) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
    }
    if (hw_bytes_start_with(name, "_Z")) {
        if (starts_any(name, cxx_allocators) || is_class_new(name))
            return HW_FUNCTION_ALLOCATOR;
        return starts_any(name, cxx_std) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
    }
    if (has(name, "___rust_alloc") || has(name, "___rustc"))
        return HW_FUNCTION_ALLOCATOR;
    return rust_kind(name);
}

/* Symbol files contain demangled names. Templates begin with their return type: "void
 * std::vector<…>::…(…)"; the function's name starts after the last space outside brackets. */
static struct hw_bytes without_return_type(struct hw_bytes n)
{
    size_t start = 0;
    int depth = 0;
    for (size_t i = 0; i < n.n; i++) {
        if (n.p[i] == '<')
            depth++;
        else if (n.p[i] == '>')
            depth--;
        else if (depth == 0 && n.p[i] == '(')
            break;
        else if (depth == 0 && n.p[i] == ' ' && i + 1 < n.n && n.p[i + 1] != '(')
            start = i + 1;
    }
    return hw_bytes_skip(n, start);
}

static const char *const demangled_allocators[] = {
    "__gnu_cxx::new_allocator", "std::__new_allocator", "std::allocator<",
    "std::allocator_traits<",   "std::__allocate",      "std::__1::allocator",
    "alloc::alloc::",           "alloc::raw_vec::",     NULL};
static const char *const demangled_std[] = {"std::", "__gnu_cxx::", "hashbrown::", NULL};

static const char *const demangled_rust[] = {"core::", "alloc::", "std::", "hashbrown::", NULL};

/* Rust's demangled names have no parameter list; C++'s have one, or are too short to tell. */
static bool has_parameters(struct hw_bytes n)
{
    int depth = 0;
    for (size_t i = 0; i < n.n; i++) {
        depth += n.p[i] == '<' || n.p[i] == '{';
        depth -= n.p[i] == '>' || n.p[i] == '}';
        if (depth == 0 && n.p[i] == '(')
            return true;
    }
    return false;
}

/* "<u8 as alloc::vec::SpecFromElem>::from_elem", "<&mut std::fs::File>::read": the type
 * decides; if it has no path, it is built in or generic, and the trait decides. */
static enum hw_function_kind kind_of_rust_impl(struct hw_bytes n)
{
    struct hw_bytes type = hw_bytes_of(n.p + 1, n.n - 1);
    static const char *const marks[] = {"&", "*", "[", "(", "mut ", "const ", "dyn ", NULL};
    for (size_t i = 0; marks[i];)
        if (hw_bytes_start_with(type, marks[i])) {
            type = hw_bytes_of(type.p + strlen(marks[i]), type.n - strlen(marks[i]));
            i = 0;
        } else {
            i++;
        }
    if (starts_any(type, demangled_allocators))
        return HW_FUNCTION_ALLOCATOR;
    if (starts_any(type, demangled_rust))
        return HW_FUNCTION_STD;
    const uint8_t *as = memmem(type.p, type.n, " as ", 4);
    const uint8_t *path = memmem(type.p, type.n, "::", 2);
    if (!as || (path && path < as))
        return HW_FUNCTION_PLAIN;
    struct hw_bytes trait = hw_bytes_of(as + 4, type.n - (size_t)(as + 4 - type.p));
    return starts_any(trait, demangled_rust) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
}

static enum hw_function_kind kind_of_demangled(struct hw_bytes n)
{
    if (!has_parameters(n)) {
        if (hw_bytes_start_with(n, "<"))
            return kind_of_rust_impl(n);
        if (starts_any(n, demangled_rust))
            return starts_any(n, demangled_allocators) ? HW_FUNCTION_ALLOCATOR : HW_FUNCTION_STD;
    }
    struct hw_bytes name = without_return_type(n);
    if (starts_any(name, demangled_allocators))
        return HW_FUNCTION_ALLOCATOR;
    return starts_any(name, demangled_std) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
}

enum hw_function_kind hw_function_kind_of(struct hw_bytes raw_name, struct hw_bytes module)
{
    const size_t n_mark = sizeof HW_FOLDED_MARK - 1;
    if (raw_name.n > n_mark &&
        memcmp(raw_name.p + raw_name.n - n_mark, HW_FOLDED_MARK, n_mark) == 0)
        raw_name.n -= n_mark;
    struct hw_bytes base = hw_bytes_base_name(module);
    if (hw_function_is_javascript(raw_name, module))
        return home_of_javascript(raw_name) == HW_HOME_STANDARD ? HW_FUNCTION_STD
                                                                : HW_FUNCTION_PLAIN;
    if (hw_function_language_of(module) == HW_FUNCTION_MANAGED)
        return is_jdk(module) || is_note(raw_name) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
    if (is_profiler(base) || is_allocator_library(base))
        return HW_FUNCTION_ALLOCATOR;
    if (raw_name.n == 0)
        return is_runtime(base) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
    if (is_wrapper_of_module(raw_name, base))
        return HW_FUNCTION_ALLOCATOR;
    if (hw_bytes_start_with(raw_name, "_Z") || hw_bytes_start_with(raw_name, "_R")) {
        enum hw_function_kind kind = mangled_kind(raw_name);
        return kind == HW_FUNCTION_PLAIN && is_runtime(base) ? HW_FUNCTION_STD : kind;
    }
    if (is_c_wrapper(raw_name))
        return HW_FUNCTION_ALLOCATOR;
    if (has(raw_name, "::"))
        return kind_of_demangled(raw_name);
    return is_runtime(base) ? HW_FUNCTION_STD : HW_FUNCTION_PLAIN;
}

bool hw_function_is_wrapper(struct hw_bytes raw_name, const struct hw_wrappers *w)
{
    char name[512];
    if (!w || w->n == 0 || raw_name.n == 0 || raw_name.n >= sizeof name)
        return false;
    memcpy(name, raw_name.p, raw_name.n);
    name[raw_name.n] = 0;
    for (size_t i = 0; i < w->n; i++)
        if (fnmatch(w->v[i], name, 0) == 0)
            return true;
    return false;
}
