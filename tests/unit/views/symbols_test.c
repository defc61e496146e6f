/* Inlined functions: nodes of their own, and sites inside a frame. */
#include <string.h>

#include "test.h"

#include "fill.h"
#include "views/flame/flame.h"
#include "views/flame/functions.h"

static void put_set(struct hw_profile *p, const char *frame, const char *const *names, size_t n)
{
    struct hw_symbol_line lines[8];
    for (size_t i = 0; i < n; i++)
        lines[i] = (struct hw_symbol_line){fill_str(p, names[i]), fill_str(p, "/src/dir/a.cc"),
                                           (uint32_t)(10 + i)};
    assert_int_equal(hw_symbol_sets_put(hw_callsites_symbol_sets(p->callsites),
                                        fill_frame(p, frame, strlen(frame)), lines, n),
                     0);
}

static void folded(const struct hw_profile *p, const struct hw_functions *f,
                   const struct hw_flame *flame, char *out, size_t size)
{
    out[0] = 0;
    for (uint32_t i = 1; i < flame->v.n; i++) {
        const struct hw_flame_node *n = &flame->v.v[i];
        const char *name = hw_strings_cstr(hw_callsites_strings(p->callsites),
                                           hw_functions_get(f, n->function)->name);
        size_t at = strlen(out);
        snprintf(out + at, size - at, "%u:%s=%d ", n->depth, name,
                 (int)hw_flame_self(flame, i)->space);
    }
}

static void inlined_functions_are_nodes(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_functions *f;
    struct hw_flame flame;
    char text[512];
    assert_int_equal(hw_profile_new(&p), 0);
    hw_values values = {0};
    struct hw_callsite_value v = {.callsite = fill_stack(p, "main;@0x10;@0x20;malloc@/libc.so")};
    v.v.space = 100;
    assert_int_equal(hw_vec_push(&values, v), 0);
    put_set(p, "@0x10", (const char *const[]){"deep()", "middle()", "work()"}, 3);
    put_set(p, "@0x20",
            (const char *const[]){"std::__new_allocator<int>::allocate(unsigned long)",
                                  "void std::vector<int>::push_back<int>(int&&)", "fill(int)"},
            3);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &f), 0);

    size_t depth;
    const struct hw_function_at *at = hw_functions_site_at(f, v.callsite, &depth);
    assert_int_equal(depth, 1);
    assert_int_equal(at->line, 12);
    assert_int_equal(at->function, hw_functions_site(f, v.callsite));
    struct hw_strbuf place = {0};
    hw_function_place(&place, p->callsites, at->file, at->line);
    assert_string_equal(place.p, "dir/a.cc:12");
    hw_strbuf_done(&place);

    assert_int_equal(hw_flame_build(p->callsites, f, &values, 0, &flame), 0);
    folded(p, f, &flame, text, sizeof text);
    assert_string_equal(text,
                        "1:main=0 2:work()=0 3:middle()=0 4:deep()=0 5:fill(int)=0 "
                        "6:void std::vector<int>::push_back<int>(int&&)=0 "
                        "7:std::__new_allocator<int>::allocate(unsigned long)=0 8:malloc=100 ");
    hw_flame_done(&flame);
    assert_int_equal(hw_flame_build(p->callsites, f, &values, HW_FLAME_SITES, &flame), 0);
    folded(p, f, &flame, text, sizeof text);
    assert_string_equal(text, "1:main=0 2:work()=0 3:middle()=0 4:deep()=0 5:fill(int)=100 ");
    hw_flame_done(&flame);
    assert_int_equal(
        hw_flame_build(p->callsites, f, &values, HW_FLAME_SITES | HW_FLAME_INVERTED, &flame), 0);
    folded(p, f, &flame, text, sizeof text);
    assert_string_equal(text, "1:fill(int)=0 2:deep()=0 3:middle()=0 4:work()=0 5:main=100 ");
    hw_flame_done(&flame);
    hw_functions_free(f);
    hw_vec_done(&values);
    hw_profile_free(p);
}

static void demangled_names_are_judged_too(void **state)
{
    (void)state;
    const struct {
        const char *name;
        enum hw_function_kind kind;
    } cases[] = {
        {"void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
         HW_FUNCTION_STD},
        {"std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
         HW_FUNCTION_STD},
        {"__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
         HW_FUNCTION_ALLOCATOR},
        {"operator new(unsigned long)", HW_FUNCTION_ALLOCATOR},
        {"app::Cache::insert(std::string const&)", HW_FUNCTION_PLAIN},
        {"std::vector<int> app::make(int)", HW_FUNCTION_PLAIN},
        {"app::Pool<std::string>::grow()", HW_FUNCTION_PLAIN},
        {"app::Thing::operator()(int) const", HW_FUNCTION_PLAIN},
        {"<alloc::alloc::Global as core::alloc::Allocator>::allocate", HW_FUNCTION_ALLOCATOR},
        {"<alloc::raw_vec::RawVecInner>::grow_amortized", HW_FUNCTION_ALLOCATOR},
        {"alloc::vec::from_elem", HW_FUNCTION_STD},
        {"<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem", HW_FUNCTION_STD},
        {"<&mut alloc::string::String as core::fmt::Write>::write_fmt", HW_FUNCTION_STD},
        {"core::option::Option<T>::map_or_else", HW_FUNCTION_STD},
        {"hashbrown::raw::RawTable<T,A>::reserve", HW_FUNCTION_STD},
        {"<app::Cache as core::clone::Clone>::clone", HW_FUNCTION_PLAIN},
        {"<[app::Cache] as app::Grow>::grow", HW_FUNCTION_PLAIN},
        {"app::main::{{closure}}", HW_FUNCTION_PLAIN},
        {"core::load(int)", HW_FUNCTION_PLAIN}, /* C++, not Rust's core */
        {"_RNvMs4_NtCslNYArtu3iFV_5alloc7raw_vecNtB5_11RawVecInner11finish_growB7_",
         HW_FUNCTION_ALLOCATOR},
        {"_RNvXsZ_NtCslNYArtu3iFV_5alloc6stringNtB5_6StringNtNtCsgEmfK2I1SDS_4core3fmt5Write9write"
         "_str",
         HW_FUNCTION_STD},
        {"_RINvCs1234_3app4fillNtNtCslNYArtu3iFV_5alloc5alloc6GlobalE", HW_FUNCTION_PLAIN},
        {"_RNvC3app4main", HW_FUNCTION_PLAIN},
        {"_RC", HW_FUNCTION_PLAIN},
        {"_RCs", HW_FUNCTION_PLAIN},
        {"_RC99999999999999999999alloc", HW_FUNCTION_PLAIN},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++)
        if (hw_function_kind_of(hw_bytes_str(cases[i].name), hw_bytes_str("/bin/x")) !=
            cases[i].kind)
            fail_msg("%s", cases[i].name);
}

static void allocators_of_programs_are_known(void **state)
{
    (void)state;
    static const char *const names[] = {"my_malloc",
                                        "my_multi_malloc_large",
                                        "my_once_alloc",
                                        "__zend_malloc",
                                        "_emalloc",
                                        "_safe_femalloc",
                                        "_estrdup",
                                        "zend_mm_alloc_huge",
                                        "Perl_Slab_Alloc",
                                        "Perl_safesysmalloc",
                                        "Perl_safesysrealloc",
                                        "ap_malloc",
                                        "ap_calloc",
                                        "apr_palloc",
                                        "apr_pcalloc",
                                        "apr_pstrdup",
                                        "apr_pmemdup",
                                        "ruby_xmalloc",
                                        "ruby_xmalloc2",
                                        "ruby_mimmalloc",
                                        "objspace_xmalloc0",
                                        "g_malloc",
                                        "g_malloc0_n",
                                        "g_slice_alloc",
                                        "CRYPTO_malloc",
                                        "CRYPTO_zalloc",
                                        "sqlite3Malloc",
                                        "erts_sys_alloc",
                                        "_Z7qMallocm",
                                        "MemoryContextAllocZeroAligned",
                                        "dbus_malloc0",
                                        "_gcry_xmalloc"};
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (hw_function_kind_of(hw_bytes_str(names[i]), hw_bytes_str("/bin/x")) !=
            HW_FUNCTION_ALLOCATOR)
            fail_msg("%s", names[i]);
    static const char *const plain[] = {"leaky_malloc", "zend_hash_add_new", "Perl_sv_grow",
                                        "ap_init_scoreboard", "my_charset_get_by_name"};
    for (size_t i = 0; i < HW_ARRAY_LEN(plain); i++)
        if (hw_function_kind_of(hw_bytes_str(plain[i]), hw_bytes_str("/bin/x")) !=
            HW_FUNCTION_PLAIN)
            fail_msg("%s", plain[i]);
}

/* Who called into the runtime, or into code without names, is who asked. */
static void managed_callers_say_more(void **state)
{
    (void)state;
    static const struct {
        const char *stack, *site;
    } cases[] = {
        {"main;load@/[python];array_new@/x/_umath.cpython-311.so;malloc@/libc.so", "load"},
        {"main;load@/[python];array_new@/x/_umath.abi3.so;malloc@/libc.so", "load"},
        {"main;load@/[python];array_new@/x/libumath.so;malloc@/libc.so", "array_new"},
        {"main;array_new@/x/_umath.cpython-311.so;malloc@/libc.so", "array_new"},
        {"main;load@/[python];@0xde137@/x/_umath.cpython-311.so;malloc@/libc.so", "load"},
        {"main;@0xde137@/x/_umath.cpython-311.so;malloc@/libc.so", ""},
        {"main;leaf@/[ruby];rb_str_times@/lib/libruby-3.1.so.3.1.2;malloc@/libc.so", "leaf"},
        {"main;{main}@/[php];execute_ex@/usr/bin/php8.2;malloc@/libc.so", "{main}"},
        {"main;rb_str_times@/lib/libruby-3.1.so.3.1.2;malloc@/libc.so", "rb_str_times"},
        {"_ZN4node5StartEiPPc@/bin/node;JS:^onreq /srv/s.js:2:15@/[jit];"
         "JS:^alloc node:buffer:391:30@/[jit];Builtins_CEntry@/bin/node;"
         "_ZN4node24NodeArrayBufferAllocator21AllocateUninitializedEm@/bin/node;malloc@/libc.so",
         "JS:^onreq /srv/s.js:2:15"},
        {"_ZN4node5StartEiPPc@/bin/node;"
         "_ZN4node24NodeArrayBufferAllocator21AllocateUninitializedEm@/bin/node;malloc@/libc.so",
         "_ZN4node5StartEiPPc"},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_profile *p;
        struct hw_functions *f;
        assert_int_equal(hw_profile_new(&p), 0);
        hw_callsite_id c = fill_stack(p, cases[i].stack);
        assert_int_equal(hw_functions_new(p->callsites, NULL, &f), 0);
        const struct hw_function *fn = hw_functions_get(f, hw_functions_site(f, c));
        assert_string_equal(hw_strings_cstr(hw_callsites_strings(p->callsites), fn->name),
                            cases[i].site);
        hw_functions_free(f);
        hw_profile_free(p);
    }
}

static void nameless_parts_of_allocators(void **state)
{
    (void)state;
    static const struct {
        const char *stack, *site; /* the site's name, "" for a nameless one */
        uint64_t rel_pc;
    } rows[] = {
        {"main;work@/db.so;sqlite3Malloc@/db.so;@0x30@/db.so;malloc@/libc.so", "work", 0},
        {"main;@0x40@/db.so;sqlite3Malloc@/db.so;@0x30@/db.so;malloc@/libc.so", "", 0x40},
        {"main;@0x50@/db.so;sqlite3Malloc@/db.so;@0x30@/db.so;@0x38@/db.so", "", 0x50},
        {"main;sqlite3Malloc@/db.so;@0x30@/other.so;malloc@/libc.so", "", 0x30},
    };
    struct hw_profile *p;
    struct hw_functions *f;
    assert_int_equal(hw_profile_new(&p), 0);
    hw_callsite_id at[HW_ARRAY_LEN(rows)];
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++)
        at[i] = fill_stack(p, rows[i].stack);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &f), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++) {
        const struct hw_function *fn = hw_functions_get(f, hw_functions_site(f, at[i]));
        assert_string_equal(hw_strings_cstr(hw_callsites_strings(p->callsites), fn->name),
                            rows[i].site);
        assert_int_equal(fn->name.v ? 0 : fn->rel_pc, rows[i].rel_pc);
    }
    hw_functions_free(f);
    hw_profile_free(p);
}

HW_TEST_MAIN(cmocka_unit_test(inlined_functions_are_nodes),
             cmocka_unit_test(nameless_parts_of_allocators),
             cmocka_unit_test(allocators_of_programs_are_known),
             cmocka_unit_test(managed_callers_say_more),
             cmocka_unit_test(demangled_names_are_judged_too))
