/*
 * elf.h - one ELF file: identity, segments, function symbols
 *
 * Why:     everything outside the target that needs an ELF file asks here (elfutils behind it).
 * Shapes:  opened by descriptor; read by pread, so that a shrinking file is an error, not a signal.
 *          Symbols: .symtab, else .gnu_debugdata's, else .dynsym; of functions only; an address
 *          belongs to the symbol with the greatest start <= va whose size covers it, or, when sizes
 *          are 0, up to the next symbol or the section's end.
 * Units:   va are link-time addresses.
 * Errors:  HW_EFORMAT, HW_EUNSUPPORTED, HW_ESYS, HW_ENOMEM, HW_ELIMIT.
 * Threads: one owner at a time.
 */
#ifndef HW_ELF_ELF_H
#define HW_ELF_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_elf;

#define HW_BUILD_ID_MAX 64

struct hw_elf_info {
    uint32_t machine;  /* e_machine */
    uint8_t elf_class; /* 32 or 64 */
    uint16_t type;     /* ET_EXEC, ET_DYN */
    uint8_t build_id[HW_BUILD_ID_MAX];
    uint32_t build_id_len; /* 0 = none */
    uint64_t load_bias;    /* p_vaddr - p_offset of the first executable PT_LOAD */
    bool has_interp;       /* dynamically linked program */
    bool has_dynamic;
    bool has_symtab; /* .symtab or .gnu_debugdata */
    bool has_eh_frame;
    bool defines_malloc; /* malloc is defined in its own dynamic or static symbols */
    bool is_go;          /* has Go's build note or .gopclntab */
    bool is_musl;        /* its loader is musl's */
    bool is_sanitized;   /* its allocator is a sanitizer's (symbols.h) */
};

int hw_elf_open(int fd, struct hw_elf **out, struct hw_error *err); /* dup()s nothing: borrows fd */
void hw_elf_close(struct hw_elf *e);
int hw_elf_get_info(struct hw_elf *e, struct hw_elf_info *out, struct hw_error *err);

/* Only build id and load bias, without elfutils' cost: two preads in the usual case. */
int hw_elf_read_identity(int fd, uint8_t build_id[HW_BUILD_ID_MAX], uint32_t *len,
                         uint64_t *load_bias, struct hw_error *err);

/* Name as in the file (mangled), valid until hw_elf_close; NULL = none. start may be NULL. */
const char *hw_elf_function_at(struct hw_elf *e, uint64_t va, uint64_t *start);
/* Was the code there once several functions, of which one name is left (symbols.h)? */
bool hw_elf_is_folded(struct hw_elf *e, uint64_t va);
/* Address of a defined function or object symbol; dynamic symbols first. */
bool hw_elf_find_symbol(struct hw_elf *e, const char *name, uint64_t *va);
bool hw_elf_find_sized(struct hw_elf *e, const char *name, uint64_t *va, uint64_t *size);
/* Of its writable segment with that address: where the variables begin, and how many bytes of them the file has. */
bool hw_elf_find_data(struct hw_elf *e, uint64_t va, uint64_t *begin, uint64_t *n_bytes);
/* Bytes of its image as they are in the file. */
int hw_elf_read_at(struct hw_elf *e, uint64_t va, void *out, size_t n, struct hw_error *err);

#endif
