/*
 * image.c - see image.h
 *
 * Every offset and size comes from the file and is checked against its length; lengths are
 * compared, sums are never formed before the check. Limits: 512 program headers, 65536 sections, 1
 * MiB of notes (a build id is not in larger ones).
 */
#include "elf/image.h"

#include <elf.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

enum {
    MAX_SEGMENTS = 512,
    MAX_SECTIONS = 65536,
    MAX_NAMES = 16 << 20,
    MAX_NOTES = 1 << 20,
    MAX_DEBUGDATA = 64 << 20,
    MAX_DEBUGDATA_PLAIN = 512 << 20,
    PLAIN_ALWAYS = 16 << 20, /* unpacked bytes allowed for any section… */
    PLAIN_TIMES = 64,        /* …and of a large one; symbols and debug info pack 3 to 10 times */
};

/* A section may claim that it unpacks to anything. */
static uint64_t max_plain(size_t packed, uint64_t max)
{
    uint64_t most = (uint64_t)packed * PLAIN_TIMES;
    most = most < PLAIN_ALWAYS ? PLAIN_ALWAYS : most;
    return most < max ? most : max;
}

static int read_at(const struct hw_image *img, uint64_t off, void *p, size_t n,
                   struct hw_error *err)
{
    if (off > img->n_bytes || n > img->n_bytes - off)
        return hw_fail(err, HW_ETRUNCATED, off, "ELF file ends inside its own structures");
    if (img->fd < 0) {
        memcpy(p, img->mem + off, n);
        return HW_OK;
    }
    int rc = hw_fd_pread_all(img->fd, p, n, off);
    if (rc == HW_ESYS)
        return hw_fail_sys(err, "cannot read ELF file");
    return rc < 0 ? hw_fail(err, rc, off, "ELF file ends early") : HW_OK;
}

int hw_image_read(const struct hw_image *img, uint64_t off, uint64_t n, uint64_t max, uint8_t **out,
                  struct hw_error *err)
{
    if (off > img->n_bytes || n > img->n_bytes - off)
        return hw_fail(err, HW_ETRUNCATED, off, "ELF section reaches beyond the file's end");
    if (n > max)
        return hw_fail(err, HW_ELIMIT, off, "ELF section is too large");
    uint8_t *p = malloc((size_t)n + 1);
    if (!p)
        return hw_fail(err, HW_ENOMEM, 0, "ELF section");
    int rc = read_at(img, off, p, (size_t)n, err);
    if (rc < 0) {
        free(p);
        return rc;
    }
    p[n] = 0;
    *out = p;
    return HW_OK;
}

/* ---- headers ---- */

struct header {
    uint64_t phoff, shoff;
    uint32_t phnum, phentsize, shnum, shentsize, shstrndx;
};

static int read_header(struct hw_image *img, struct header *h, struct hw_error *err)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf32_Ehdr e32;
        Elf64_Ehdr e64;
    } u = {0};
    if (img->n_bytes < sizeof u.e32)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "not an ELF file");
    size_t n = img->n_bytes < sizeof u ? sizeof u.e32 : sizeof u;
    int rc = read_at(img, 0, &u, n, err);
    if (rc < 0)
        return rc;
    if (memcmp(u.ident, ELFMAG, SELFMAG) != 0 || u.ident[EI_DATA] != ELFDATA2LSB ||
        (u.ident[EI_CLASS] != ELFCLASS32 && u.ident[EI_CLASS] != ELFCLASS64))
        return hw_fail(err, HW_EUNSUPPORTED, 0, "not a little-endian ELF file");
#define HEADER_OF(e)                                                                               \
    *h = (struct header){(e).e_phoff, (e).e_shoff,     (e).e_phnum,   (e).e_phentsize,             \
                         (e).e_shnum, (e).e_shentsize, (e).e_shstrndx};                            \
    img->machine = (e).e_machine;                                                                  \
    img->entry = (e).e_entry;                                                                      \
    img->type = (e).e_type
    if (u.ident[EI_CLASS] == ELFCLASS32) {
        img->elf_class = 32;
        HEADER_OF(u.e32);
    } else {
        img->elf_class = 64;
        HEADER_OF(u.e64);
    }
#undef HEADER_OF
    return HW_OK;
}

static int read_segments(struct hw_image *img, const struct header *h, struct hw_error *err)
{
    size_t want = img->elf_class == 64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    if (!h->phnum)
        return HW_OK;
    if (h->phentsize != want || h->phnum > MAX_SEGMENTS)
        return hw_fail(err, HW_EFORMAT, h->phoff, "ELF program headers have a wrong size");
    hw_autofree uint8_t *raw = NULL;
    int rc = hw_image_read(img, h->phoff, (uint64_t)h->phnum * want, UINT32_MAX, &raw, err);
    if (rc < 0)
        return rc;
    img->segments = calloc(h->phnum, sizeof *img->segments);
    if (!img->segments)
        return hw_fail(err, HW_ENOMEM, 0, "ELF program headers");
    img->n_segments = h->phnum;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < h->phnum * want; i++)
        hash = (hash ^ raw[i]) * 0x100000001b3u;
    img->headers_hash = hash;
    for (size_t i = 0; i < h->phnum; i++) {
#define SEGMENT_OF(type)                                                                           \
    do {                                                                                           \
        type p;                                                                                    \
        memcpy(&p, raw + i * want, sizeof p);                                                      \
        img->segments[i] = (struct hw_image_segment){p.p_type,   p.p_flags, p.p_offset, p.p_vaddr, \
                                                     p.p_filesz, p.p_memsz, p.p_align};            \
    } while (0)
        if (img->elf_class == 64)
            SEGMENT_OF(Elf64_Phdr);
        else
            SEGMENT_OF(Elf32_Phdr);
#undef SEGMENT_OF
    }
    return HW_OK;
}

static struct hw_image_section section_of(const struct hw_image *img, const uint8_t *raw,
                                          uint32_t *name)
{
#define SECTION_OF(type)                                                                           \
    do {                                                                                           \
        type s;                                                                                    \
        memcpy(&s, raw, sizeof s);                                                                 \
        *name = s.sh_name;                                                                         \
        return (struct hw_image_section){"",         s.sh_type,      s.sh_link,                    \
                                         s.sh_flags, s.sh_addr,      s.sh_offset,                  \
                                         s.sh_size,  s.sh_addralign, s.sh_entsize};                \
    } while (0)
    if (img->elf_class == 64)
        SECTION_OF(Elf64_Shdr);
    SECTION_OF(Elf32_Shdr);
#undef SECTION_OF
}

static void name_sections(struct hw_image *img, const uint32_t *name_at, uint32_t shstrndx)
{
    if (shstrndx >= img->n_sections || img->sections[shstrndx].type != SHT_STRTAB)
        return;
    const struct hw_image_section *s = &img->sections[shstrndx];
    uint8_t *names;
    if (hw_image_read(img, s->offset, s->bytes, MAX_NAMES, &names, NULL) < 0)
        return;
    img->names = (char *)names;
    for (size_t i = 0; i < img->n_sections; i++)
        if (name_at[i] < s->bytes)
            img->sections[i].name = img->names + name_at[i];
}

/* A file without readable sections is still a program: its segments are enough to run it. */
static int read_sections(struct hw_image *img, const struct header *h, struct hw_error *err)
{
    size_t want = img->elf_class == 64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    uint64_t n = h->shnum;
    uint32_t shstrndx = h->shstrndx, name;
    if (!h->shoff || h->shentsize != want)
        return HW_OK;
    if (n == 0 || shstrndx == SHN_XINDEX) { /* the true numbers are in section 0 */
        hw_autofree uint8_t *first = NULL;
        if (hw_image_read(img, h->shoff, want, UINT32_MAX, &first, NULL) < 0)
            return HW_OK;
        struct hw_image_section zero = section_of(img, first, &name);
        n = n ? n : zero.bytes;
        shstrndx = shstrndx == SHN_XINDEX ? zero.link : shstrndx;
    }
    hw_autofree uint8_t *raw = NULL;
    if (n > MAX_SECTIONS || hw_image_read(img, h->shoff, n * want, UINT32_MAX, &raw, NULL) < 0)
        return HW_OK;
    hw_autofree uint32_t *name_at = calloc((size_t)n + 1, sizeof *name_at);
    img->sections = calloc((size_t)n + 1, sizeof *img->sections);
    if (!name_at || !img->sections)
        return hw_fail(err, HW_ENOMEM, 0, "ELF sections");
    img->n_sections = (size_t)n;
    for (size_t i = 0; i < n; i++)
        img->sections[i] = section_of(img, raw + i * want, &name_at[i]);
    name_sections(img, name_at, shstrndx);
    return HW_OK;
}

int hw_image_open(struct hw_image *img, int fd, const uint8_t *mem, size_t n_mem,
                  bool with_sections, struct hw_error *err)
{
    *img = (struct hw_image){.fd = fd, .mem = mem, .n_bytes = n_mem};
    if (fd >= 0) {
        struct stat st;
        if (fstat(fd, &st) < 0)
            return hw_fail_sys(err, "cannot stat ELF file");
        if (!S_ISREG(st.st_mode))
            return hw_fail(err, HW_EUNSUPPORTED, 0, "not a regular file");
        img->n_bytes = (uint64_t)st.st_size;
    }
    struct header h = {0};
    int rc = read_header(img, &h, err);
    if (rc == HW_OK)
        rc = read_segments(img, &h, err);
    if (rc == HW_OK && with_sections)
        rc = read_sections(img, &h, err);
    if (rc < 0)
        hw_image_close(img);
    return rc;
}

void hw_image_close(struct hw_image *img)
{
    free(img->segments);
    free(img->sections);
    free(img->names);
    *img = (struct hw_image){.fd = -1};
}

/* ---- sections ---- */

const struct hw_image_section *hw_image_find(const struct hw_image *img, const char *name)
{
    for (size_t i = 0; i < img->n_sections; i++)
        if (strcmp(img->sections[i].name, name) == 0)
            return &img->sections[i];
    return NULL;
}

static int inflate_section(const struct hw_image *img, const uint8_t *raw, size_t n_raw,
                           uint64_t max, uint8_t **out, size_t *n, struct hw_error *err)
{
    uint32_t type;
    uint64_t plain;
    size_t head = img->elf_class == 64 ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
    if (n_raw < head)
        return hw_fail(err, HW_ETRUNCATED, 0, "compressed ELF section");
    type = hw_load_u32(raw);
    plain = img->elf_class == 64 ? hw_load_u64(raw + 8) : hw_load_u32(raw + 4);
    if (type != ELFCOMPRESS_ZLIB)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "ELF section compression %u", type);
    if (plain > max_plain(n_raw, max))
        return hw_fail(err, HW_ELIMIT, 0, "compressed ELF section is too large");
    uint8_t *p = malloc((size_t)plain + 1);
    if (!p)
        return hw_fail(err, HW_ENOMEM, 0, "compressed ELF section");
    uLongf got = (uLongf)plain;
    if (uncompress(p, &got, raw + head, (uLong)(n_raw - head)) != Z_OK || got != plain) {
        free(p);
        return hw_fail(err, HW_EFORMAT, 0, "compressed ELF section is damaged");
    }
    p[plain] = 0;
    *out = p;
    *n = (size_t)plain;
    return HW_OK;
}

int hw_image_read_section(const struct hw_image *img, const struct hw_image_section *s,
                          uint64_t max, uint8_t **out, size_t *n, struct hw_error *err)
{
    if (s->type == SHT_NOBITS)
        return hw_fail(err, HW_ENOTFOUND, 0, "section '%s' has no bytes", s->name);
    uint8_t *raw;
    int rc = hw_image_read(img, s->offset, s->bytes, max, &raw, err);
    if (rc < 0)
        return rc;
    if (!(s->flags & SHF_COMPRESSED)) {
        *out = raw;
        *n = (size_t)s->bytes;
        return HW_OK;
    }
    rc = inflate_section(img, raw, (size_t)s->bytes, max, out, n, err);
    free(raw);
    return rc;
}

static int xz_decode(const uint8_t *in, size_t n_in, uint8_t **out, size_t *n_out,
                     struct hw_error *err)
{
    lzma_stream z = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&z, 80u << 20, 0) != LZMA_OK)
        return hw_fail(err, HW_ENOMEM, 0, ".gnu_debugdata");
    size_t max = (size_t)max_plain(n_in, MAX_DEBUGDATA_PLAIN);
    size_t cap = n_in < 1024 ? 4096 : n_in * 4;
    uint8_t *p = NULL;
    int rc = HW_EFORMAT;
    z.next_in = in;
    z.avail_in = n_in;
    for (;;) {
        uint8_t *q = cap <= max ? realloc(p, cap) : NULL;
        if (!q) {
            rc = HW_ELIMIT;
            break;
        }
        p = q;
        z.next_out = p + z.total_out;
        z.avail_out = cap - (size_t)z.total_out;
        lzma_ret r = lzma_code(&z, LZMA_FINISH);
        if (r == LZMA_STREAM_END) {
            *out = p;
            *n_out = (size_t)z.total_out;
            lzma_end(&z);
            return HW_OK;
        }
        if (r != LZMA_OK || z.avail_out) /* damaged, or more is promised than exists */
            break;
        cap = cap < max && cap > max / 2 ? max : cap * 2;
    }
    lzma_end(&z);
    free(p);
    return hw_fail(err, rc, 0, ".gnu_debugdata is damaged or too large");
}

int hw_image_debugdata(const struct hw_image *img, uint8_t **out, size_t *n, struct hw_error *err)
{
    const struct hw_image_section *s = hw_image_find(img, ".gnu_debugdata");
    if (!s)
        return hw_fail(err, HW_ENOTFOUND, 0, "no .gnu_debugdata");
    hw_autofree uint8_t *raw = NULL;
    size_t n_raw;
    int rc = hw_image_read_section(img, s, MAX_DEBUGDATA, &raw, &n_raw, err);
    return rc < 0 ? rc : xz_decode(raw, n_raw, out, n, err);
}

/* ---- addresses and identity ---- */

bool hw_image_offset(const struct hw_image *img, uint64_t va, uint64_t *off, uint64_t *left)
{
    for (size_t i = 0; i < img->n_segments; i++) {
        const struct hw_image_segment *s = &img->segments[i];
        if (s->type != PT_LOAD || va < s->va || va - s->va >= s->file_bytes)
            continue;
        *off = s->offset + (va - s->va);
        *left = s->file_bytes - (va - s->va);
        return true;
    }
    return false;
}

bool hw_image_is_code(const struct hw_image *img, uint64_t va)
{
    for (size_t i = 0; i < img->n_segments; i++) {
        const struct hw_image_segment *s = &img->segments[i];
        if (s->type == PT_LOAD && s->flags & PF_X && va >= s->va && va - s->va < s->mem_bytes)
            return true;
    }
    return false;
}

uint64_t hw_image_load_bias(const struct hw_image *img)
{
    for (size_t i = 0; i < img->n_segments; i++)
        if (img->segments[i].type == PT_LOAD && img->segments[i].flags & PF_X)
            return img->segments[i].va - img->segments[i].offset;
    return 0;
}

static uint32_t note_build_id(struct hw_bytes notes, uint64_t align, uint8_t *id, uint32_t max)
{
    size_t pad = align == 8 ? 7 : 3;
    while (notes.n >= 12) {
        uint64_t n_name = hw_load_u32(notes.p), n_desc = hw_load_u32(notes.p + 4);
        uint32_t type = hw_load_u32(notes.p + 8);
        uint64_t desc = (12 + n_name + pad) & ~(uint64_t)pad;
        uint64_t next = (desc + n_desc + pad) & ~(uint64_t)pad;
        if (desc > notes.n || n_desc > notes.n - desc)
            break;
        if (type == NT_GNU_BUILD_ID && n_name == 4 && memcmp(notes.p + 12, "GNU", 4) == 0 &&
            n_desc && n_desc <= max) {
            memcpy(id, notes.p + desc, (size_t)n_desc);
            return (uint32_t)n_desc;
        }
        if (next > notes.n)
            break;
        notes.p += next;
        notes.n -= (size_t)next;
    }
    return 0;
}

static uint32_t build_id_at(const struct hw_image *img, uint64_t off, uint64_t n, uint64_t align,
                            uint8_t *id, uint32_t max)
{
    hw_autofree uint8_t *raw = NULL;
    if (hw_image_read(img, off, n, MAX_NOTES, &raw, NULL) < 0)
        return 0;
    return note_build_id(hw_bytes_of(raw, (size_t)n), align, id, max);
}

uint32_t hw_image_build_id(const struct hw_image *img, uint8_t *id, uint32_t max)
{
    for (size_t i = 0; i < img->n_segments; i++) {
        const struct hw_image_segment *s = &img->segments[i];
        uint32_t n =
            s->type == PT_NOTE ? build_id_at(img, s->offset, s->file_bytes, s->align, id, max) : 0;
        if (n)
            return n;
    }
    for (size_t i = 0; i < img->n_sections; i++) {
        const struct hw_image_section *s = &img->sections[i];
        uint32_t n =
            s->type == SHT_NOTE ? build_id_at(img, s->offset, s->bytes, s->align, id, max) : 0;
        if (n)
            return n;
    }
    return 0;
}
