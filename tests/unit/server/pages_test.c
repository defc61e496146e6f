/* Uploads over one connection, and how far their reading is. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "codec/gzip.h"
#include "server/http/http.h"
#include "server/pages.h"
#include "test.h"

static char answer[65536];

static void send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        assert_true(sent > 0);
        p += sent;
        n -= (size_t)sent;
    }
}

/* One request on an open connection: its status; the answer stays in `answer`. */
static int ask(int fd, const char *line, const char *body)
{
    char head[512];
    size_t got = 0;
    int n =
        snprintf(head, sizeof head, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n",
                 line, strlen(body));
    send_all(fd, head, (size_t)n);
    send_all(fd, body, strlen(body));
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

struct world {
    struct hw_pages *pages;
    struct hw_http *h;
    int fd;
};

static void world_init(struct world *w)
{
    struct hw_pages_options po = {0};
    struct hw_error err = {0};
    assert_int_equal(hw_pages_new(&po, &w->pages, &err), HW_OK);
    struct hw_http_options o = {.listen_fd = -1,
                                .routes = hw_pages_routes,
                                .n_routes = hw_n_pages_routes,
                                .ctx = w->pages,
                                .connection_new = hw_pages_connection_new,
                                .connection_free = hw_pages_connection_free};
    assert_int_equal(hw_http_start(&o, &w->h, &err), HW_OK);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(hw_http_port(w->h)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(w->fd, (struct sockaddr *)&a, sizeof a), 0);
}

static void world_done(struct world *w)
{
    close(w->fd);
    hw_http_stop(w->h);
    assert_true(hw_pages_free(w->pages));
}

/* A body beside path= is nobody's: not the beginning of what comes next. */
static void test_uploads_are_apart(void **unused)
{
    struct world w;
    (void)unused;
    world_init(&w);
    int fd = w.fd;
    assert_int_equal(ask(fd, "POST /api/v1/traces?path=/proc/self/stat", "no trace\n"), 400);
    assert_int_equal(ask(fd, "POST /api/v1/traces?name=x", "main;f 1\nmain;g 2\n"), 200);
    int status = 503;
    for (int i = 0; i < 6000 && status == 503; i++) {
        usleep(10000);
        status = ask(fd, "GET /api/v1/traces/1/timeline", "");
    }
    assert_int_equal(status, 200);
    world_done(&w);
}

static double number_of(const char *key)
{
    const char *at = strstr(answer, key);
    return at ? strtod(at + strlen(key), NULL) : -1;
}

/* Bytes that were read rise from nothing to the file's, packed or not. */
static void watch_reading(struct world *w, const char *request, const char *body, size_t n)
{
    char head[512];
    int len = snprintf(head, sizeof head,
                       "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n", request, n);
    double last = 0;
    int n_between = 0;
    send_all(w->fd, head, (size_t)len);
    send_all(w->fd, body, n);
    assert_true(recv(w->fd, answer, sizeof answer, 0) > 0); /* small, one piece */
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(ask(w->fd, "GET /api/v1/status", ""), 200);
        if (!strstr(answer, "\"state\":\"loading\""))
            break;
        double read = number_of("\"read\":");
        assert_true(read >= last && read <= (double)n);
        assert_true(number_of("\"bytes\":") > 0);
        n_between += read > 0 && read < (double)n;
        last = read;
        usleep(500);
    }
    assert_non_null(strstr(answer, "\"state\":\"ready\""));
    assert_true(n_between > 0);
}

static void test_reading_is_told(void **unused)
{
    struct world w;
    struct hw_strbuf text = {0}, packed = {0};
    (void)unused;
    for (int i = 0; i < 400000; i++)
        hw_strbuf_addf(&text, "main;f%d;g%d %d\n", i % 1000, i % 7777, i % 100 + 1);
    assert_int_equal(hw_deflate(hw_bytes_of(text.p, text.n), HW_GZIP_GZIP, &packed, NULL), HW_OK);
    world_init(&w);
    watch_reading(&w, "POST /api/v1/traces?name=x", text.p, text.n);
    world_done(&w);
    world_init(&w);
    watch_reading(&w, "POST /api/v1/traces?name=x.gz", packed.p, packed.n);
    world_done(&w);
    hw_strbuf_done(&text);
    hw_strbuf_done(&packed);
}

HW_TEST_MAIN(cmocka_unit_test(test_uploads_are_apart), cmocka_unit_test(test_reading_is_told))
