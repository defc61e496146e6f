#include "elf/ruby_symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "elf/elf.h"
#include "elf/function_table.h"
#include "elf/image.h"
#include "elf/symbols.h"

#include "base/banned.h"

#define MAX_EXEC_BYTES   65536u /* of rb_vm_exec */
#define CORE_LEAST_BYTES 8192u  /* of what runs bytecode; what else it calls is small */
#define MAX_SECTION      (64u << 20)
#define DURING_GC_BYTES  64u

static uint32_t u32_of(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The one large function that rb_vm_exec calls. */
static void find_core(const struct hw_image *img, struct hw_elf *e, struct hw_ruby_symbols *out)
{
    struct hw_function_table f = {0};
    uint8_t *code = NULL;
    if (hw_elf_find_sized(e, "vm_exec_core", &out->core, &out->core_bytes) && out->core_bytes)
        return;
    out->core = out->core_bytes = 0;
    if (out->exec_bytes <= MAX_EXEC_BYTES)
        code = malloc(out->exec_bytes);
    if (code && hw_function_table_read(&f, img) &&
        hw_elf_read_at(e, out->exec, code, out->exec_bytes, NULL) == HW_OK)
        for (size_t i = 0; i + 5 <= out->exec_bytes && !out->core; i++) {
            uint64_t to = out->exec + i + 5 + (uint64_t)(int32_t)u32_of(code + i + 1);
            uint64_t n = code[i] == 0xe8 ? hw_function_bytes(&f, to) : 0;
            if (n >= CORE_LEAST_BYTES && to != out->exec) {
                out->core = to;
                out->core_bytes = n;
            }
        }
    hw_function_table_done(&f);
    free(code);
}

/* ---- the variable that names a thread's context ---- */

/* Which symbol of .dynsym it is; 0: none. */
static uint64_t index_of(const struct hw_image *img, const char *name)
{
    const struct hw_image_section *s = hw_image_find(img, ".dynsym");
    const struct hw_image_section *t = hw_image_find(img, ".dynstr");
    uint8_t *symbols = NULL, *names = NULL;
    size_t n = 0, n_names = 0, found = 0;
    if (s && t && hw_image_read_section(img, s, MAX_SECTION, &symbols, &n, NULL) == HW_OK &&
        hw_image_read_section(img, t, MAX_SECTION, &names, &n_names, NULL) == HW_OK)
        for (size_t i = 1; i < n / sizeof(Elf64_Sym) && !found; i++) {
            Elf64_Sym one;
            memcpy(&one, symbols + i * sizeof one, sizeof one);
            if (one.st_name < n_names && strcmp((const char *)names + one.st_name, name) == 0)
                found = i;
        }
    free(symbols);
    free(names);
    return found;
}

/* The loader stores the module's number and the variable's offset into two words that the library's
 * code reads. A program's own variable needs none: it is in the first module. */
static bool find_variable(const struct hw_image *img, struct hw_elf *e, struct hw_ruby_symbols *out)
{
    const char name[] = "ruby_current_ec";
    const struct hw_image_section *s = hw_image_find(img, ".rela.dyn");
    uint64_t symbol = index_of(img, name);
    uint8_t *relocations = NULL;
    size_t n = 0;
    struct hw_elf_info info;
    if (!hw_elf_find_symbol(e, name, &out->tls_offset) || hw_elf_get_info(e, &info, NULL) < 0)
        return false;
    if (s && symbol && hw_image_read_section(img, s, MAX_SECTION, &relocations, &n, NULL) == HW_OK)
        for (size_t i = 0; i < n / sizeof(Elf64_Rela) && !out->tls_at; i++) {
            Elf64_Rela r;
            memcpy(&r, relocations + i * sizeof r, sizeof r);
            if (ELF64_R_TYPE(r.r_info) == R_X86_64_DTPMOD64 && ELF64_R_SYM(r.r_info) == symbol)
                out->tls_at = r.r_offset;
        }
    free(relocations);
    return out->tls_at || info.has_interp || info.type == ET_EXEC;
}

/* ---- */

/* rb_during_gc() reads a bit beside the one that says that the heap is compacted:
 *     mov OBJSPACE(%rax), %rax; movzbl 0x10(%rax), %eax; shr $5, %al */
static uint32_t objspace_by_code(struct hw_elf *e)
{
    static const uint8_t load[] = {0x48, 0x8b, 0x80},
                         flags[] = {0x0f, 0xb6, 0x40, 0x10, 0xc0, 0xe8, 5};
    uint8_t code[DURING_GC_BYTES];
    uint64_t va, n;
    if (!hw_elf_find_sized(e, "rb_during_gc", &va, &n) || n > sizeof code ||
        hw_elf_read_at(e, va, code, (size_t)n, NULL) < 0)
        return 0;
    for (size_t i = 0; i + sizeof load + 4 + sizeof flags <= n; i++)
        if (memcmp(code + i, load, sizeof load) == 0 &&
            memcmp(code + i + sizeof load + 4, flags, sizeof flags) == 0)
            return u32_of(code + i + sizeof load);
    return 0;
}

/* Extensions need the exported ones, and .dynsym is short, even in a program with debug symbols. */
static bool find_exported(const struct hw_image *img, struct hw_elf *e, struct hw_ruby_symbols *out)
{
    uint64_t va, n;
    uint32_t version[3];
    if (!hw_symbols_find_sized(img, ".dynsym", "rb_vm_exec", &out->exec, &out->exec_bytes) ||
        !hw_symbols_find(img, ".dynsym", "ruby_current_vm_ptr", &out->vm) ||
        !hw_symbols_find_sized(img, ".dynsym", "ruby_api_version", &va, &n) ||
        n != sizeof version || hw_elf_read_at(e, va, version, sizeof version, NULL) < 0 ||
        version[0] > 99 || version[1] > 99)
        return false;
    out->version = version[0] * 100 + version[1];
    return true;
}

void hw_ruby_symbols_find(struct hw_elf *e, int elf_fd, struct hw_ruby_symbols *out)
{
    struct hw_image img;
    *out = (struct hw_ruby_symbols){0};
    if (hw_image_open(&img, elf_fd, NULL, 0, true, NULL) < 0)
        return;
    if (!find_exported(&img, e, out))
        out->exec = 0;
    else if (img.machine == EM_X86_64 && find_variable(&img, e, out)) {
        out->objspace = objspace_by_code(e);
        find_core(&img, e, out);
    }
    hw_image_close(&img);
}
