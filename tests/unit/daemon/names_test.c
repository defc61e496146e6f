/* names_test.c - first arguments, short names, and those that exec has set */
#include "test.h"

#include "base/bytes.h"
#include "daemon/policy/process_match.h"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *wanted, *cmdline;
        size_t n;
        const char *comm, *exe;
        bool is;
    } rows[] = {
#define LINE(text) text, sizeof(text)
        {"server", LINE("/usr/bin/server\0-x"), "server", "server", true},
        {"/opt/server", LINE("server"), "server", "server", true},
        {"server", LINE("server@1.0"), "server", "server", true},
        {"server", LINE("servers"), "servers", "servers", false},
        {"server", LINE("other"), "server", "other", true},   /* it named itself */
        {"server", LINE("other"), "server", "server", false}, /* exec did, of that file */
        {"run.sh", LINE("/bin/bash\0./run.sh"), "run.sh", "bash", false}, /* of that script */
        {"app", LINE("python3\0-u\0/srv/app"), "app", "python3.11", false},
        {"app", LINE("zygote\0a\0b\0c\0/srv/app"), "app", "zygote", true},
        {"a-name-longer-than-15", LINE("zygote"), "a-name-longer-t", "zygote", true},
        {"a-name-longer-than-15", LINE("zygote"), "a-name-longer", "zygote", false},
        {"server: worker", LINE("server: worker\0\0\0"), "server", "server", true},
        {"redis-server", LINE("redis-server *:6379"), "redis-server", "redis-check-rdb", true},
        {"redis*", LINE("/usr/bin/redis-server *:6379"), "redis-server", "redis-check-rdb", true},
        {"nginx", LINE("nginx: worker process"), "nginx", "nginx", true},
        {"worker", LINE("nginx: worker process"), "nginx", "nginx", false},
        {"/usr/bin/nginx", LINE("/usr/sbin/nginx -g x"), "nginx", "nginx", false},
        {"server", "", 0, "server", "", false}, /* a kernel thread */
        {"", LINE("x"), "", "x", false},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(rows); i++)
        if (hw_name_is_meant(rows[i].wanted, rows[i].cmdline, rows[i].n, rows[i].comm,
                             rows[i].exe) != rows[i].is)
            fail_msg("row %zu: '%s' and '%s' (%s)", i, rows[i].wanted, rows[i].cmdline,
                     rows[i].comm);
}

HW_TEST_MAIN(cmocka_unit_test(test_names))
