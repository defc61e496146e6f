#include "test.h"

#include "base/text/program_name.h"

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *argv0, *exe, *name;
    } cases[] = {{"redis-server *:17001", "redis-check-rdb", "redis-server"},
                 {"/usr/bin/redis-server 127.0.0.1:6379", "redis-check-rdb", "redis-server"},
                 {"nginx: master process /usr/sbin/nginx -g daemon on;", "nginx", "nginx"},
                 {"postgres: 15/main: checkpointer ", "postgres", "postgres"},
                 {"sshd: root@pts/0", "", "sshd"},
                 {"/usr/sbin/cron", "cron", "cron"},
                 {"python3", "python3.11", "python3"},
                 {"./server", "", "server"},
                 {"/opt/My App/bin/server", "", "server"},
                 {"/opt/My App/bin/My Server", "My Server", "My Server"},
                 {"-bash", "bash", "-bash"},
                 {":", "", ":"},
                 {" x", "", " x"},
                 {"/", "", ""},
                 {"", "", ""}};
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_bytes n =
            hw_program_name(hw_bytes_str(cases[i].argv0), hw_bytes_str(cases[i].exe));
        assert_int_equal(n.n, strlen(cases[i].name));
        assert_memory_equal(n.p, cases[i].name, n.n);
    }
}

HW_TEST_MAIN(cmocka_unit_test(names))
