/* Functions of one name in several files, and the line that a row of each shows. */
#include <string.h>

#include "test.h"

#include "fill.h"
#include "views/flame/functions.h"
#include "views/flame/places.h"
#include "views/flame/program.h"

struct fixture {
    struct hw_profile *p;
    struct hw_functions *f;
    struct hw_function_at *places;
    hw_values values;
};

/* A frame of this function with a place; rel_pc tells frames of one line apart. */
static hw_frame_id frame_at(struct hw_profile *p, const char *module, const char *name,
                            const char *file, uint32_t line, uint64_t rel_pc)
{
    struct hw_mapping m = {.path = fill_str(p, module), .start = 0x400000, .end = 0x500000};
    struct hw_frame f = {.name = fill_str(p, name), .rel_pc = rel_pc};
    hw_frame_id out;
    assert_int_equal(hw_callsites_mapping(p->callsites, &m, &f.mapping), 0);
    assert_int_equal(hw_callsites_frame(p->callsites, &f, &out), 0);
    struct hw_symbol_line at = {f.name, fill_str(p, file), line};
    if (*file)
        assert_int_equal(hw_symbol_sets_put(hw_callsites_symbol_sets(p->callsites), out, &at, 1),
                         0);
    return out;
}

static hw_callsite_id put(struct fixture *x, const hw_frame_id *frames, size_t n, int64_t space)
{
    struct hw_callsite_value v = {.v = {.space = space, .alloc_space = space}};
    assert_int_equal(hw_callsites_intern(x->p->callsites, frames, n, &v.callsite), 0);
    assert_int_equal(hw_vec_push(&x->values, v), 0);
    return v.callsite;
}

static void make(struct fixture *x)
{
    assert_int_equal(hw_functions_new(x->p->callsites, NULL, &x->f), 0);
    assert_int_equal(hw_places_find(x->p->callsites, x->f, &x->values, HW_METRIC_SPACE, &x->places),
                     0);
}

static void done(struct fixture *x)
{
    free(x->places);
    hw_functions_free(x->f);
    hw_vec_done(&x->values);
    hw_profile_free(x->p);
}

static void assert_where(const struct fixture *x, uint32_t function, const char *expected)
{
    struct hw_strbuf b = {0};
    hw_program_where(NULL, &b, x->p->callsites, hw_functions_get(x->f, function),
                     &x->places[function]);
    assert_string_equal(b.p ? b.p : "", expected);
    hw_strbuf_done(&b);
}

static void python_functions_are_told_by_their_files(void **state)
{
    (void)state;
    struct fixture x = {0};
    assert_int_equal(hw_profile_new(&x.p), 0);
    hw_frame_id small = frame_at(x.p, "/[python]", "load", "/app/pk/small.py", 4, 1);
    hw_frame_id large = frame_at(x.p, "/[python]", "load", "/app/pk/large.py", 9, 2);
    hw_frame_id nowhere = frame_at(x.p, "/[python]", "load", "", 0, 3);
    hw_callsite_id a = put(&x, &small, 1, 3), b = put(&x, &large, 1, 60),
                   c = put(&x, &nowhere, 1, 1);
    make(&x);
    assert_int_equal(hw_functions_count(x.f), 3);
    assert_where(&x, hw_functions_site(x.f, a), "pk/small.py:4");
    assert_where(&x, hw_functions_site(x.f, b), "pk/large.py:9");
    assert_where(&x, hw_functions_site(x.f, c), "[python]");
    done(&x);
}

static void native_functions_are_told_by_source_files(void **state)
{
    (void)state;
    struct fixture x = {0};
    assert_int_equal(hw_profile_new(&x.p), 0);
    hw_frame_id a = frame_at(x.p, "/bin/app", "load", "/src/a.c", 6, 1);
    hw_frame_id b = frame_at(x.p, "/bin/app", "load", "/src/b.c", 7, 2);
    hw_frame_id piece = frame_at(x.p, "/bin/app", "eval", "/src/cases.c.h", 70, 3);
    hw_frame_id whole = frame_at(x.p, "/bin/app", "eval", "/src/eval.c", 7, 4);
    hw_frame_id plain = frame_at(x.p, "/bin/app", "eval", "", 0, 5);
    hw_frame_id other = frame_at(x.p, "/bin/lib.so", "eval", "/src/lib.c", 1, 6);
    hw_callsite_id at[] = {put(&x, &a, 1, 3),     put(&x, &b, 1, 60),    put(&x, &piece, 1, 9),
                           put(&x, &whole, 1, 1), put(&x, &plain, 1, 1), put(&x, &other, 1, 1)};
    make(&x);
    assert_int_equal(hw_functions_count(x.f), 4);
    assert_where(&x, hw_functions_site(x.f, at[0]), "src/a.c:6");
    assert_where(&x, hw_functions_site(x.f, at[1]), "src/b.c:7");
    assert_int_equal(hw_functions_site(x.f, at[2]), hw_functions_site(x.f, at[3]));
    assert_int_equal(hw_functions_site(x.f, at[2]), hw_functions_site(x.f, at[4]));
    assert_where(&x, hw_functions_site(x.f, at[2]), "app"); /* no namesake: its module says it */
    assert_where(&x, hw_functions_site(x.f, at[5]), "lib.so");
    done(&x);
}

/* The largest stack is of line 9; more came by line 7, and it was line 3 that called. */
static void a_place_is_where_most_came_by(void **state)
{
    (void)state;
    struct fixture x = {0};
    assert_int_equal(hw_profile_new(&x.p), 0);
    hw_frame_id ask9 = frame_at(x.p, "/bin/app", "ask", "/src/a.c", 9, 1);
    hw_frame_id call1 = frame_at(x.p, "/bin/app", "call", "/src/a.c", 1, 2);
    hw_frame_id call3 = frame_at(x.p, "/bin/app", "call", "/src/a.c", 3, 3);
    hw_frame_id malloc_ = fill_frame(x.p, "malloc@/libc.so", 15);
    hw_callsite_id last =
        put(&x, (hw_frame_id[]){call1, ask9, malloc_}, 3, 50); /* the largest stack */
    for (uint32_t i = 0; i < 20; i++) {
        hw_frame_id ask7 = frame_at(x.p, "/bin/app", "ask", "/src/a.c", 7, 100 + i);
        (void)put(&x, (hw_frame_id[]){call3, ask7, malloc_}, 3, 5);
    }
    make(&x);
    uint32_t ask = hw_functions_site(x.f, last);
    uint32_t call = hw_functions_of_frame(x.f, call1);
    assert_int_equal(x.places[ask].line, 7);
    assert_int_equal(x.places[call].line, 3);
    assert_int_equal(x.places[hw_functions_of_frame(x.f, malloc_)].file.v, 0);
    done(&x);
}

/* Go's library, known by the runtime's own files, asks for whoever called it; a package of the program
 * in a folder src does not. */
static void the_library_of_go(void **state)
{
    (void)state;
    struct fixture x = {0};
    assert_int_equal(hw_profile_new(&x.p), 0);
    static const char go[] = "/srv/shop";
    hw_frame_id runtime =
        frame_at(x.p, go, "runtime.main", "/usr/lib/go-1.19/src/runtime/proc.go", 250, 1);
    hw_frame_id own = frame_at(x.p, go, "main.newShop", "/go/src/shop/main.go", 63, 2);
    hw_frame_id package = frame_at(x.p, go, "shop/db.open", "/go/src/shop/db/open.go", 7, 3);
    hw_frame_id library =
        frame_at(x.p, go, "strings.genSplit", "/usr/lib/go-1.19/src/strings/strings.go", 250, 4);
    const hw_frame_id by_library[] = {runtime, own, library};
    const hw_frame_id by_package[] = {runtime, own, package};
    const hw_frame_id alone[] = {runtime, library};
    hw_callsite_id a = put(&x, by_library, 3, 4096), b = put(&x, by_package, 3, 1024),
                   c = put(&x, alone, 2, 512);
    make(&x);
    uint32_t shop = hw_functions_of_frame(x.f, own), db = hw_functions_of_frame(x.f, package),
             split = hw_functions_of_frame(x.f, library);
    assert_int_equal(hw_functions_site(x.f, a), shop);
    assert_int_equal(x.places[shop].line, 63);
    assert_int_equal(hw_functions_site(x.f, b), db);
    assert_int_equal(hw_functions_site(x.f, c), split);
    struct hw_shown_program program = {hw_functions_get(x.f, shop)->module, hw_bytes_str("shop")};
    assert_int_equal(hw_function_owner_of(&program, x.p->callsites, hw_functions_get(x.f, split)),
                     HW_OWNER_RUNTIME);
    assert_int_equal(hw_function_owner_of(&program, x.p->callsites, hw_functions_get(x.f, db)),
                     HW_OWNER_PROGRAM);
    done(&x);
}

HW_TEST_MAIN(cmocka_unit_test(the_library_of_go),
             cmocka_unit_test(python_functions_are_told_by_their_files),
             cmocka_unit_test(native_functions_are_told_by_source_files),
             cmocka_unit_test(a_place_is_where_most_came_by))
