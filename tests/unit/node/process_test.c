/* Which port a command line and NODE_OPTIONS name. */
#include "node/node_process.h"

#include <string.h>

#include "test.h"

static void test_port(void **unused)
{
    static const struct {
        const char *cmdline, *environ; /* words end in '|' instead of NUL */
        unsigned port;
        bool has_host;
    } cases[] = {
        {"", "", 9229, false},
        {"node|app.js|", "", 9229, false},
        {"node|--inspect|app.js|", "", 9229, false},
        {"node|--inspect=9333|app.js|", "", 9333, false},
        {"node|--inspect-brk=0.0.0.0:9333|app.js|", "", 9333, true},
        {"node|--inspect=::1|", "", 1, true}, /* as Node.js splits it */
        {"node|--inspect=[::1]:80|", "", 80, true},
        {"node|--inspect=some.host|", "", 9229, true},
        {"node|--inspect-port=0|app.js|", "", 0, false},
        {"node|--inspect-port|9444|app.js|", "", 9444, false},
        {"node|--inspect|9444|app.js|", "", 9229, false},
        {"node|--inspect-wait=7|", "", 7, false},
        {"node|--debug-port=:8|", "", 8, false},
        {"node|--inspector=9|--inspect-portal=9|", "", 9229, false},
        {"node|--inspect=70000|", "", 9229, true},
        {"node|--inspect-port", "", 9229, false}, /* without its NUL */
        {"node|app.js|", "A=b|NODE_OPTIONS=--no-warnings --inspect-port=99|", 99, false},
        {"node|--inspect-port=5|app.js|", "NODE_OPTIONS=--inspect-port=99|", 5, false},
        {"node|", "XNODE_OPTIONS=--inspect-port=99|NODE_OPTIONS=", 9229, false},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2][128];
        size_t n[2] = {strlen(cases[i].cmdline), strlen(cases[i].environ)};
        struct hw_node_port got;
        memcpy(text[0], cases[i].cmdline, n[0]);
        memcpy(text[1], cases[i].environ, n[1]);
        for (size_t k = 0; k < 2; k++)
            for (size_t j = 0; j < n[k]; j++)
                text[k][j] = text[k][j] == '|' ? '\0' : text[k][j];
        hw_node_port(text[0], n[0], text[1], n[1], &got);
        if (got.port != cases[i].port || got.has_host != cases[i].has_host)
            fail_msg("%s %s: port %u, host %d", cases[i].cmdline, cases[i].environ, got.port,
                     got.has_host);
    }
}

static void test_long_words(void **unused)
{
    static char text[70000];
    struct hw_node_port got;
    (void)unused;
    memset(text, 'x', sizeof text);
    memcpy(text + 60000, "\0--inspect=77", 14);
    hw_node_port(text, sizeof text, NULL, 0, &got);
    assert_int_equal(got.port, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port),
        cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
