#include "import/hprof/hprof_file.h"

#include <string.h>

#include "base/banned.h"

enum { RECORD_HEAD = 9 };

/* ---- values ---- */

uint64_t hw_hprof_u(struct hw_hprof_cursor *c, unsigned n_bytes)
{
    uint64_t v = 0;
    if ((size_t)(c->end - c->p) < n_bytes) {
        c->bad = true;
        c->p = c->end;
        return 0;
    }
    for (unsigned i = 0; i < n_bytes; i++)
        v = v << 8 | *c->p++;
    return v;
}

uint64_t hw_hprof_id(struct hw_hprof_cursor *c)
{
    if (c->id_bytes == 8 && c->end - c->p >= 8) {
        uint64_t v = __builtin_bswap64(hw_load_u64(c->p));
        c->p += 8;
        return v;
    }
    return hw_hprof_u(c, c->id_bytes);
}

struct hw_bytes hw_hprof_bytes(struct hw_hprof_cursor *c, uint64_t n)
{
    if (n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        n = (uint64_t)(c->end - c->p);
    }
    struct hw_bytes b = hw_bytes_of(c->p, (size_t)n);
    c->p += n;
    return b;
}

unsigned hw_hprof_type_bytes(uint64_t type, uint32_t id_bytes)
{
    static const uint8_t bytes[HW_HPROF_TYPE_COUNT] = {
        [HW_HPROF_BOOLEAN] = 1, [HW_HPROF_CHAR] = 2,  [HW_HPROF_FLOAT] = 4, [HW_HPROF_DOUBLE] = 8,
        [HW_HPROF_BYTE] = 1,    [HW_HPROF_SHORT] = 2, [HW_HPROF_INT] = 4,   [HW_HPROF_LONG] = 8,
    };
    if (type == HW_HPROF_OBJECT)
        return id_bytes;
    return type < HW_HPROF_TYPE_COUNT ? bytes[type] : 0;
}

/* ---- the file ---- */

bool hw_hprof_open(struct hw_bytes file, struct hw_hprof_file *out)
{
    static const char magic[] = "JAVA PROFILE 1.0.";
    const size_t n_magic = sizeof magic - 1;
    if (file.n < n_magic + 14 || memcmp(file.p, magic, n_magic) != 0 || file.p[n_magic + 1] != 0)
        return false;
    struct hw_hprof_cursor c = {file.p + n_magic + 2, hw_bytes_end(file), 4, false};
    *out = (struct hw_hprof_file){.all = file};
    out->is_art = file.p[n_magic] == '3';
    out->id_bytes = (uint32_t)hw_hprof_u(&c, 4);
    out->time_ms = hw_hprof_u(&c, 8);
    hw_hprof_rewind(out);
    return out->id_bytes == 4 || out->id_bytes == 8;
}

void hw_hprof_rewind(struct hw_hprof_file *f)
{
    f->pos = sizeof "JAVA PROFILE 1.0.2" + 12;
    f->segment_end = 0;
    f->truncated = false;
    f->n_damaged = 0;
}

static struct hw_hprof_cursor cursor_at(const struct hw_hprof_file *f, size_t pos)
{
    return (struct hw_hprof_cursor){f->all.p + pos, hw_bytes_end(f->all), f->id_bytes, false};
}

/* Skips n values { id name, u1 type, value } or { u2 index, u1 type, value }. */
static void skip_values(struct hw_hprof_cursor *c, uint64_t n, unsigned key_bytes)
{
    for (uint64_t i = 0; i < n && !c->bad; i++) {
        (void)hw_hprof_u(c, key_bytes);
        unsigned bytes = hw_hprof_type_bytes(hw_hprof_u(c, 1), c->id_bytes);
        c->bad |= bytes == 0;
        (void)hw_hprof_bytes(c, bytes);
    }
}

/* Skips the record after its tag. False: no such record, or it is cut off. */
static bool skip_in_dump(struct hw_hprof_cursor *c, uint32_t tag)
{
    const uint32_t id = c->id_bytes;
    uint64_t n;
    switch (tag) {
    case 0x101:
        (void)hw_hprof_bytes(c, 2 * id);
        break;
    case 0x102:
    case 0x103:
    case 0x108:
    case 0x18e:
        (void)hw_hprof_bytes(c, id + 8);
        break;
    case 0x104:
    case 0x106:
        (void)hw_hprof_bytes(c, id + 4);
        break;
    case 0x105:
    case 0x107:
    case 0x189:
    case 0x18a:
    case 0x18b:
    case 0x18c:
    case 0x18d:
    case 0x190:
    case 0x1ff:
        (void)hw_hprof_bytes(c, id);
        break;
    case HW_HPROF_CLASS:
        (void)hw_hprof_bytes(c, 7 * id + 8);
        skip_values(c, hw_hprof_u(c, 2), 2);
        skip_values(c, hw_hprof_u(c, 2), id);
        (void)hw_hprof_bytes(c, hw_hprof_u(c, 2) * (id + 1));
        break;
    case HW_HPROF_INSTANCE:
        (void)hw_hprof_bytes(c, 2 * id + 4);
        (void)hw_hprof_bytes(c, hw_hprof_u(c, 4));
        break;
    case HW_HPROF_OBJECT_ARRAY:
        (void)hw_hprof_bytes(c, id + 4);
        n = hw_hprof_u(c, 4);
        (void)hw_hprof_bytes(c, id + n * id);
        break;
    case HW_HPROF_PRIMITIVE_ARRAY:
        (void)hw_hprof_bytes(c, id + 4);
        n = hw_hprof_u(c, 4);
        n *= hw_hprof_type_bytes(hw_hprof_u(c, 1), id);
        (void)hw_hprof_bytes(c, n);
        break;
    case HW_HPROF_ARRAY_NO_DATA:
        (void)hw_hprof_bytes(c, id + 9);
        break;
    case HW_HPROF_HEAP_INFO:
        (void)hw_hprof_bytes(c, 4 + id);
        break;
    default:
        return false;
    }
    return !c->bad;
}

/* 1 = a record, 0 = the segment is over. */
static int next_in_dump(struct hw_hprof_file *f, struct hw_hprof_record *out)
{
    if (f->pos >= f->segment_end) {
        f->segment_end = 0;
        return 0;
    }
    struct hw_hprof_cursor c = cursor_at(f, f->pos);
    uint32_t tag = HW_HPROF_IN_DUMP + (uint32_t)hw_hprof_u(&c, 1);
    *out = (struct hw_hprof_record){.tag = tag, .body = c, .offset = f->pos};
    if (!skip_in_dump(&c, tag)) { /* where the next one begins is unknown */
        f->truncated |= c.bad;
        f->n_damaged += !c.bad;
        f->pos = c.bad ? f->all.n : f->segment_end;
        f->segment_end = 0;
        return 0;
    }
    out->body.end = c.p;
    f->pos = (size_t)(c.p - f->all.p);
    return 1;
}

bool hw_hprof_next(struct hw_hprof_file *f, struct hw_hprof_record *out)
{
    for (;;) {
        if (f->segment_end && next_in_dump(f, out))
            return true;
        if (f->segment_end)
            continue;
        if (f->pos >= f->all.n)
            return false;
        struct hw_hprof_cursor c = cursor_at(f, f->pos);
        uint32_t tag = (uint32_t)hw_hprof_u(&c, 1);
        (void)hw_hprof_u(&c, 4);
        uint64_t n = hw_hprof_u(&c, 4);
        size_t at = f->pos, left = (size_t)(c.end - c.p);
        if (c.bad) {
            f->truncated = true;
            f->pos = f->all.n;
            return false;
        }
        bool is_dump = tag == HW_HPROF_DUMP || tag == HW_HPROF_SEGMENT;
        if (n > left || (tag == HW_HPROF_DUMP && n == 0)) {
            f->truncated |= n > left;
            n = left;
        }
        f->pos = at + RECORD_HEAD + (is_dump ? 0 : (size_t)n);
        if (is_dump) {
            f->segment_end = at + RECORD_HEAD + (size_t)n;
            continue;
        }
        c.end = c.p + n;
        *out = (struct hw_hprof_record){.tag = tag, .body = c, .offset = at};
        return true;
    }
}
