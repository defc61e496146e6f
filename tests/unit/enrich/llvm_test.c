/* Programs in llvm-symbolizer's place: one that answers, and those that do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "base/bytes.h"
#include "base/error.h"
#include "enrich/lines/llvm.h"

static char dir[] = "/tmp/llvm-test-XXXXXX";

static const char *script(const char *text)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "%s/script", dir);
    (void)unlink(path);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", text);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

struct seen {
    size_t n, stop_at;
    char last[256];
};

static int see(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    struct seen *s = ctx;
    assert_int_equal(index, s->n);
    s->last[0] = 0;
    for (size_t i = 0; i < n; i++)
        (void)snprintf(s->last + strlen(s->last), sizeof s->last - strlen(s->last), "%s %s:%u;",
                       chain[i].function ? chain[i].function : "-",
                       chain[i].file ? chain[i].file : "-", chain[i].line);
    s->n++;
    return s->n == s->stop_at ? 7 : 0;
}

/* Echoes the address in an answer of two functions. */
#define ANSWERS                                                                                    \
    "while read line; do at=${line##* }; printf "                                                  \
    "'{\"Address\":\"%s\",\"Symbol\":[{\"FunctionName\":\"in\","                                   \
    "\"FileName\":\"/a/../"                                                                        \
    "b.c\",\"Line\":3},{\"FunctionName\":\"\",\"FileName\":\"\",\"Line\":0}]}"                     \
    "\\n' $at; done"

static void answers(void **state)
{
    (void)state;
    struct hw_llvm *l;
    struct seen s = {0};
    const uint64_t va[3] = {0x10, 0x20, 0xffffffff81000000};
    assert_int_equal(hw_llvm_start(script(ANSWERS), 5000, &l, NULL), 0);
    assert_int_equal(hw_llvm_resolve(l, "/bin/with blank", va, 3, see, &s, NULL), 0);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.last, "in /b.c:3;- -:0;");
    s = (struct seen){.stop_at = 2};
    assert_int_equal(hw_llvm_resolve(l, "two", va, 3, see, &s, NULL), 7);
    assert_true(hw_llvm_is_broken(l)); /* an answer nobody took is on its way */
    hw_llvm_stop(l);
    assert_int_equal(hw_llvm_start(script(ANSWERS), 5000, &l, NULL), 0);
    assert_int_equal(hw_llvm_resolve(l, "a\nb", va, 1, see, &s, NULL), HW_EINVAL);
    assert_int_equal(hw_llvm_resolve(l, "a'b\"c", va, 1, see, &s, NULL), HW_EINVAL);
    assert_false(hw_llvm_is_broken(l));
    hw_llvm_stop(l);
}

static void failures(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int rc;
    } cases[] = {
        {"exit 0", HW_EGONE},
        {"read a; kill -9 $$", HW_EGONE},
        {"exec sleep 100", HW_ETIMEOUT},
        {"read a; printf '{\"Address\":'; exec sleep 100", HW_ETIMEOUT},
        {"read a; echo nonsense", HW_EFORMAT},
        {"read a; echo '[]'", HW_EFORMAT},
        {"read a; echo '{\"Address\":\"0x999\",\"Symbol\":[]}'", HW_EFORMAT},
        {"read a; echo '{\"Address\":\"0x0\",\"Symbol\":3}'", HW_EFORMAT},
        {"exec cat /dev/zero", HW_EFORMAT},
        {"exec yes", HW_EFORMAT},
    };
    uint64_t va[5000];
    for (size_t i = 0; i < 5000; i++)
        va[i] = i;
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_llvm *l;
        struct seen s = {0};
        struct hw_error err = {0};
        assert_int_equal(hw_llvm_start(script(cases[i].script), 200, &l, NULL), 0);
        int rc = hw_llvm_resolve(l, "/bin/true", va, 5000, see, &s, &err);
        if (rc != cases[i].rc || !err.text[0] || !hw_llvm_is_broken(l))
            fail_msg("%s: %d '%s'", cases[i].script, rc, err.text);
        assert_int_equal(hw_llvm_resolve(l, "/bin/true", va, 1, see, &s, NULL), HW_EGONE);
        hw_llvm_stop(l);
    }
    struct hw_llvm *none;
    assert_int_equal(hw_llvm_start("/nowhere/llvm-symbolizer", 200, &none, NULL), HW_ESYS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(answers),
                                              cmocka_unit_test(failures)};
    if (!mkdtemp(dir))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(script(""));
    (void)rmdir(dir);
    return rc;
}
