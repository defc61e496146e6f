/* The rules of RFC 6455: which frames are refused, and that both sides understand each other. */
#include <string.h>

#include "base/error.h"
#include "codec/websocket.h"
#include "test.h"

/* A close frame of the client -> what is wrong with it. */
static void test_close_codes(void **unused)
{
    static const struct {
        unsigned code;
        const char *reason;
        unsigned fault;
    } cases[] = {{1000, "", 0},       {1001, "bye", 0},      {999, "", 1002},  {1004, "", 1002},
                 {1005, "", 1002},    {1006, "", 1002},      {1015, "", 1002}, {2999, "", 1002},
                 {3000, "", 0},       {4999, "\xc3\xa9", 0}, {5000, "", 1002}, {65535, "", 1002},
                 {1000, "\xff", 1007}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hw_ws_reader r = {.max_message = 100};
        uint8_t frame[32] = {0x88, (uint8_t)(0x80 | (2 + strlen(cases[i].reason)))};
        enum hw_ws_opcode opcode;
        struct hw_bytes m;
        size_t n = strlen(cases[i].reason);
        frame[6] = (uint8_t)(cases[i].code >> 8); /* behind a mask of zeros */
        frame[7] = (uint8_t)cases[i].code;
        memcpy(frame + 8, cases[i].reason, n);
        assert_int_equal(hw_ws_reader_add(&r, frame, 8 + n), HW_OK);
        int rc = hw_ws_reader_next(&r, &opcode, &m);
        assert_int_equal(rc, cases[i].fault ? HW_EFORMAT : 1);
        assert_int_equal(r.close_code, cases[i].fault);
        hw_ws_reader_done(&r);
    }
}

static void test_accept_key(void **unused)
{
    char out[29];
    (void)unused;
    hw_ws_accept("dGhlIHNhbXBsZSBub25jZQ==", out); /* RFC 6455 1.3 */
    assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* What a client sends is what the server's side reads, at each length of head; a server's is read by
 * the client's side, and neither takes what its own side sends. */
static void test_both_sides(void **unused)
{
    static const size_t sizes[] = {0, 1, 125, 126, 65535, 65536};
    static const uint8_t mask[4] = {1, 0x80, 0xff, 7};
    static char text[65536];
    (void)unused;
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        bool by_server = i & 1;
        struct hw_bytes payload = hw_bytes_of(text, sizes[i / 2]), m;
        struct hw_strbuf frame = {0};
        enum hw_ws_opcode opcode;
        uint8_t head[10];
        if (by_server) {
            hw_strbuf_add(&frame, head, hw_ws_frame_head(head, HW_WS_TEXT, payload.n));
            hw_strbuf_add(&frame, payload.p, payload.n);
        } else {
            hw_ws_add_masked(&frame, HW_WS_TEXT, payload, mask);
        }
        for (int from_server = 0; from_server < 2; from_server++) {
            struct hw_ws_reader r = {.max_message = sizeof text, .from_server = from_server};
            assert_int_equal(hw_ws_reader_add(&r, frame.p, frame.n), HW_OK);
            int rc = hw_ws_reader_next(&r, &opcode, &m);
            if (by_server == (bool)from_server) {
                assert_int_equal(rc, 1);
                assert_int_equal(opcode, HW_WS_TEXT);
                assert_int_equal(m.n, payload.n);
                assert_true(m.n == 0 || memcmp(m.p, text, m.n) == 0);
                assert_int_equal(hw_ws_reader_next(&r, &opcode, &m), 0);
            } else {
                assert_int_equal(rc, HW_EFORMAT);
                assert_int_equal(r.close_code, 1002);
            }
            hw_ws_reader_done(&r);
        }
        hw_strbuf_done(&frame);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_codes),
        cmocka_unit_test(test_accept_key),
        cmocka_unit_test(test_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
