/* Uploads over one connection. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "server/http.h"
#include "server/pages.h"
#include "test.h"

/* One request on an open connection: its status. */
static int ask(int fd, const char *line, const char *body)
{
    char text[512], answer[65536];
    size_t got = 0;
    int n = snprintf(text, sizeof text,
                     "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n%s", line,
                     strlen(body), body);
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    for (;;) {
        ssize_t more = recv(fd, answer + got, sizeof answer - 1 - got, 0);
        assert_true(more > 0);
        got += (size_t)more;
        answer[got] = 0;
        const char *end = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
        if (end && length && got >= (size_t)(end - answer) + 4 + strtoul(length + 16, NULL, 10))
            return (int)strtol(answer + 9, NULL, 10);
    }
}

/* A body beside path= is nobody's: not the beginning of what comes next. */
static void test_uploads_are_apart(void **unused)
{
    struct hw_pages_options po = {0};
    struct hw_pages *pages;
    struct hw_http *h;
    struct hw_error err = {0};
    (void)unused;
    assert_int_equal(hw_pages_new(&po, &pages, &err), HW_OK);
    struct hw_http_options o = {.listen_fd = -1,
                                .routes = hw_pages_routes,
                                .n_routes = hw_n_pages_routes,
                                .ctx = pages,
                                .connection_new = hw_pages_connection_new,
                                .connection_free = hw_pages_connection_free};
    assert_int_equal(hw_http_start(&o, &h, &err), HW_OK);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(hw_http_port(h)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(ask(fd, "POST /api/v1/traces?path=/proc/self/stat", "no trace\n"), 200);
    assert_int_equal(ask(fd, "POST /api/v1/traces?name=x", "main;f 1\nmain;g 2\n"), 200);
    int status = 503;
    for (int i = 0; i < 500 && status == 503; i++) {
        usleep(10000);
        status = ask(fd, "GET /api/v1/traces/2/timeline", "");
    }
    assert_int_equal(status, 200);
    close(fd);
    hw_http_stop(h);
    assert_true(hw_pages_free(pages));
}

HW_TEST_MAIN(cmocka_unit_test(test_uploads_are_apart))
