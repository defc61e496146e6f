#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "record/web/control_group.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Below a unit of the machine's the names are those of whom it was given to. */
static void units(void **state)
{
    (void)state;
    static const struct {
        const char *text, *unit, *own;
    } cases[] = {
        {"0::/system.slice/nginx.service\n", "nginx.service", "nginx.service"},
        {"0::/system.slice/system-web.slice/web@1.service\n", "web@1.service", "web@1.service"},
        {"0::/system.slice/build.service/checkout.service\n", "build.service", "build.service"},
        {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/checkout.service\n",
         "user@1000.service/checkout.service", "checkout.service"},
        {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.service/b.service\n",
         "user@1000.service/a.service", "a.service"},
        {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope/b.service\n", NULL,
         NULL},
        {"0::/user.slice/user-1000.slice/session-3.scope\n", NULL, NULL},
        {"0::/system.slice/docker-" ID ".scope/system.slice/checkout.service\n", NULL, NULL},
        {"0::/docker/" ID "/checkout.service\n", NULL, NULL},
        {"12:pids:/\n1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n",
         "a.service", "a.service"},
        {"0::/.service\n", NULL, NULL},
        {"0::/user@.service\n", NULL, NULL},
        {"0::/\n", NULL, NULL},
        {"0:/system.slice/a.service\n", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++)
        for (int own = 0; own < 2; own++) {
            const char *want = own ? cases[i].own : cases[i].unit;
            char *unit = hw_control_group_unit(cases[i].text, own);
            if (want)
                assert_string_equal(unit, want);
            else
                assert_null(unit);
            free(unit);
        }
}

static void containers(void **state)
{
    (void)state;
    char *id = hw_control_group_container("0::/system.slice/docker-" ID ".scope\n");
    assert_string_equal(id, ID);
    free(id);
    id = hw_control_group_container("0::/a/" ID "/b/ff" ID "\n");
    assert_string_equal(id, ID);
    free(id);
    assert_null(hw_control_group_container("0::/docker-0123.scope\n"));
    assert_null(hw_control_group_container(""));
}

HW_TEST_MAIN(cmocka_unit_test(units), cmocka_unit_test(containers))
