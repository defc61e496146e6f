/*
 * hidepid_test.c - which mounts of /proc hide processes
 */
#include "test.h"

#include "proc/rights/hidepid.h"

static void test_mounts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is;
    } cases[] = {
        {"", false},
        {"23 28 0:22 / /proc rw,nosuid shared:12 - proc proc rw\n", false},
        {"23 28 0:22 / /proc rw,nosuid shared:12 - proc proc rw,hidepid=invisible\n", true},
        {"23 28 0:22 / /proc rw - proc proc rw,gid=4,hidepid=2", true},
        {"23 28 0:22 / /proc rw - proc none rw,hidepid=noaccess\n1 2 0:1 / / rw - ext4 a rw\n",
         true},
        {"23 28 0:22 / /proc rw - proc proc rw,hidepid=0\n", false},
        {"23 28 0:22 / /proc rw - proc proc rw,hidepid=off\n", false},
        /* covered by another one; elsewhere; something else with such a word */
        {"23 28 0:22 / /proc rw - proc p rw,hidepid=2\n24 23 0:23 / /proc rw - proc p rw\n", false},
        {"23 28 0:22 / /a/proc rw - proc proc rw,hidepid=2\n", false},
        {"23 28 0:22 / /proc rw - tmpfs ,hidepid=2 rw\n", false},
        {"23 28 0:22 / /proc rw - proc proc rw\n9 2 0:9 / /x rw - tmpfs t rw,hidepid=2\n", false},
        {"\n\n - proc \n / /proc ", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (hw_hidepid_parse(cases[i].text) != cases[i].is)
            fail_msg("wrong for: %s", cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mounts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
