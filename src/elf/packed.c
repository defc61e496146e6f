/*
 * packed.c - see packed.h
 *
 * The buffer is as large as the section says it is, which costs address space alone until it is
 * written to. libelf reads one byte of the section, and its Elf_Data then shows our buffer: it
 * frees what it has read, not what the data points to.
 */
#include "elf/packed.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

enum {
    CHUNK = 32 << 10,   /* read at once */
    MOST_TIMES = 1032u, /* deflate packs no better */
};

struct hw_packed {
    int fd;
    uint64_t at, left; /* in the file: what is not yet read */
    z_stream z;
    enum hw_packed_end end;
    Elf_Data *data;
    uint8_t *plain;
    size_t n, done; /* of plain: in all, unpacked */
    bool is_damaged;
    uint8_t chunk[CHUNK];
};

struct header {
    uint32_t type;
    uint64_t plain;
    size_t n; /* its own bytes */
};

static bool read_header(Elf *elf, const GElf_Shdr *h, int fd, struct header *out)
{
    uint8_t raw[sizeof(Elf64_Chdr)] = {0};
    bool wide = gelf_getclass(elf) == ELFCLASS64;
    out->n = wide ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
    if (h->sh_size < out->n || hw_fd_pread_all(fd, raw, out->n, h->sh_offset) < 0)
        return false;
    out->type = hw_load_u32(raw);
    out->plain = wide ? hw_load_u64(raw + 8) : hw_load_u32(raw + 4);
    return out->plain > 0 && out->plain / MOST_TIMES <= h->sh_size && out->plain <= SIZE_MAX;
}

/* From here on libelf has the section as one that was never packed. */
static Elf_Data *take_over(Elf_Scn *scn, GElf_Shdr *h, uint8_t *plain, size_t size)
{
    h->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
    h->sh_size = 1;
    Elf_Data *data = gelf_update_shdr(scn, h) ? elf_getdata(scn, NULL) : NULL;
    if (!data)
        return NULL;
    data->d_buf = plain;
    data->d_size = size;
    return data;
}

struct hw_packed *hw_packed_new(Elf *elf, Elf_Scn *scn, int fd, enum hw_packed_end end)
{
    GElf_Shdr h;
    struct header header;
    if (!gelf_getshdr(scn, &h) || h.sh_type != SHT_PROGBITS || !(h.sh_flags & SHF_COMPRESSED) ||
        !read_header(elf, &h, fd, &header) || header.type != ELFCOMPRESS_ZLIB)
        return NULL;
    struct hw_packed *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->fd = fd;
    s->at = h.sh_offset + header.n;
    s->left = h.sh_size - header.n;
    s->n = (size_t)header.plain;
    s->plain = calloc(1, s->n);
    if (!s->plain || inflateInit(&s->z) != Z_OK) {
        free(s->plain);
        free(s);
        return NULL;
    }
    s->end = end;
    s->data = take_over(scn, &h, s->plain, end == HW_PACKED_ZEROS ? s->n : 0);
    s->is_damaged = !s->data;
    return s;
}

void hw_packed_free(struct hw_packed *s)
{
    if (!s)
        return;
    (void)inflateEnd(&s->z);
    free(s->plain);
    free(s);
}

static int fill(struct hw_packed *s)
{
    size_t n = s->left < CHUNK ? (size_t)s->left : CHUNK;
    if (n == 0 || hw_fd_pread_all(s->fd, s->chunk, n, s->at) < 0)
        return HW_EFORMAT;
    s->at += n;
    s->left -= n;
    s->z.next_in = s->chunk;
    s->z.avail_in = (uInt)n;
    return HW_OK;
}

/* One step: Z_STREAM_END when the stream has ended, and its checksum holds. */
static int step(struct hw_packed *s, size_t room)
{
    if (s->z.avail_in == 0 && fill(s) < 0)
        return Z_DATA_ERROR;
    s->z.next_out = s->plain + s->done;
    s->z.avail_out = (uInt)(room < UINT32_MAX ? room : UINT32_MAX);
    size_t had = s->z.avail_out;
    int z = inflate(&s->z, Z_NO_FLUSH);
    s->done += had - s->z.avail_out;
    return z;
}

static int unpack(struct hw_packed *s, size_t until)
{
    int z = Z_OK;
    while (s->done < until && z == Z_OK)
        z = step(s, until - s->done);
    while (s->done == s->n && z == Z_OK) /* the checksum, which is behind */
        z = step(s, 0);
    bool is_end = s->done == s->n;
    return s->done == until && z == (is_end ? Z_STREAM_END : Z_OK) ? HW_OK : HW_EFORMAT;
}

int hw_packed_reach(struct hw_packed *s, uint64_t n, bool *changed)
{
    size_t until = n < s->n ? (size_t)n : s->n;
    if (s->is_damaged)
        return HW_EFORMAT;
    if (until <= s->done)
        return HW_OK;
    *changed = true;
    int rc = unpack(s, until);
    s->is_damaged = rc < 0;
    s->done = rc < 0 ? 0 : s->done;
    if (s->end == HW_PACKED_GROWS || rc < 0)
        s->data->d_size = s->done;
    return rc;
}

bool hw_packed_is_whole(const struct hw_packed *s)
{
    return s->is_damaged || s->done == s->n;
}

struct hw_bytes hw_packed_bytes(const struct hw_packed *s)
{
    return hw_bytes_of(s->plain, s->done);
}
