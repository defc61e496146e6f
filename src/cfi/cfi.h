/*
 * cfi.h - an ELF file's call-frame information → a compact table
 *
 * Why:     DWARF is interpreted once per build id, here; never per sample.
 * Shapes:  input is an open descriptor of an ELF file, read by pread only (it may shrink
 *          meanwhile); output is a malloc'ed table that passes hw_table_check, or "no unwind
 *          data". Sources in order: .eh_frame (section or PT_GNU_EH_FRAME), then for uncovered
 *          addresses .debug_frame and .gnu_debugdata.
 * Errors:  HW_EFORMAT or HW_ETRUNCATED (hostile or damaged), HW_EUNSUPPORTED (not an ELF of a
 *          known machine), HW_ENOTFOUND (no unwind data), HW_ELIMIT, HW_ENOMEM, HW_ESYS.
 * Threads: any, no shared state. Run it in an unprivileged worker.
 * Source:  doc/design/unwinding.md
 */
#ifndef HW_CFI_CFI_H
#define HW_CFI_CFI_H

#include <stddef.h>
#include <stdint.h>

struct hw_error;

struct hw_cfi_stats {
    uint64_t n_fdes, n_dropped_fdes, n_rows, n_rules, n_unsup_rows, eh_frame_bytes;
};

/* debug_fd: separate debug file with .debug_frame, or -1. stats may be NULL. Caller frees *out. */
int hw_cfi_compile(int elf_fd, int debug_fd, void **out, size_t *n_bytes,
                   struct hw_cfi_stats *stats, struct hw_error *err);

/*
 * Cache of tables in a directory of mode 0700 owned by us. key: build id and the file's owner (a
 * forged id reaches files of the same owner only), or for files without one (dev, inode, size,
 * mtime) + hash of the program headers, made by hw_cfi_cache_key.
 */
#define HW_CFI_KEY_MAX 96
int hw_cfi_cache_key(int elf_fd, char key[HW_CFI_KEY_MAX], struct hw_error *err);
int hw_cfi_cache_get(int dir_fd, const char *key, void **out, size_t *n_bytes);
int hw_cfi_cache_put(int dir_fd, const char *key, const void *table, size_t n_bytes);

#endif
