/*
 * image.h - an ELF file's headers and raw sections, from a descriptor or from memory
 *
 * Why:     the table compiler and the symbol tables need a few sections of files that may be
 *          hostile and may shrink while they are read. Everything goes through pread with checked
 *          bounds; nothing is mapped. (elfutils is used where DWARF lines are read.)
 * Shapes:  32- and 64-bit little-endian files; headers are widened to 64 bits.
 * Owns:    headers and names; section bytes belong to the caller that requested them.
 * Errors:  HW_EFORMAT, HW_ETRUNCATED, HW_EUNSUPPORTED (not a little-endian ELF file), HW_ESYS,
 *          HW_ENOMEM, HW_ELIMIT.
 * Threads: one owner at a time.
 */
#ifndef HW_ELF_IMAGE_H
#define HW_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;

struct hw_image_segment {
    uint32_t type, flags; /* PT_*, PF_* */
    uint64_t offset, va, file_bytes, mem_bytes, align;
};

struct hw_image_section {
    const char *name; /* borrowed from the image; "" when it cannot be read */
    uint32_t type, link;
    uint64_t flags, va, offset, bytes, align, entry_bytes;
};

struct hw_image {
    int fd;             /* borrowed; -1 = memory */
    const uint8_t *mem; /* borrowed */
    uint64_t n_bytes;
    uint8_t elf_class; /* 32 or 64 */
    uint16_t type;     /* ET_* */
    uint32_t machine;  /* EM_* */
    uint64_t entry;    /* where it begins; 0 = nowhere */
    struct hw_image_segment *segments;
    size_t n_segments;
    struct hw_image_section *sections;
    size_t n_sections;
    char *names;
    uint64_t headers_hash; /* of the program headers' bytes */
};

/* fd >= 0: the file; else the bytes, which must outlive the image. */
int hw_image_open(struct hw_image *img, int fd, const uint8_t *mem, size_t n_mem,
                  bool with_sections, struct hw_error *err);
void hw_image_close(struct hw_image *img);

const struct hw_image_section *hw_image_find(const struct hw_image *img, const char *name);

/* Bytes [off, off + n) into a malloc'ed block with a NUL after them; at most max. */
int hw_image_read(const struct hw_image *img, uint64_t off, uint64_t n, uint64_t max, uint8_t **out,
                  struct hw_error *err);
/* Bytes of a section, inflated when it is compressed (zlib). */
int hw_image_read_section(const struct hw_image *img, const struct hw_image_section *s,
                          uint64_t max, uint8_t **out, size_t *n, struct hw_error *err);
/* The image inside .gnu_debugdata (xz), malloc'ed; HW_ENOTFOUND when there is none. */
int hw_image_debugdata(const struct hw_image *img, uint8_t **out, size_t *n, struct hw_error *err);

/* File offset of a link-time address, and the bytes left in its segment. */
bool hw_image_offset(const struct hw_image *img, uint64_t va, uint64_t *off, uint64_t *left);
bool hw_image_is_code(const struct hw_image *img, uint64_t va);

/* p_vaddr - p_offset of the first executable PT_LOAD, 0 when there is none. */
uint64_t hw_image_load_bias(const struct hw_image *img);
/* The GNU build id, from program headers, else note sections. 0 bytes when there is none. */
uint32_t hw_image_build_id(const struct hw_image *img, uint8_t *id, uint32_t max);

#endif
