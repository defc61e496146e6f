/* cie_fde.c - see cie_fde.h */
#include "cfi/cie_fde.h"

#include <string.h>

#include "base/error.h"
#include "cfi/rows.h"
#include "elf/image.h"

#include "base/banned.h"

enum {
    PE_ABSPTR = 0x00,
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10,
    PE_OMIT = 0xff,
    MAX_FDES = 16 << 20,
    MAX_CIES = 1 << 20 /* a library has some thousand; each costs 200 bytes */
};

uint64_t hw_cfi_fixed(struct hw_cfi_cursor *c, size_t n)
{
    if (c->bad || c->at > c->end || c->end - c->at < n) {
        c->bad = true;
        return 0;
    }
    uint64_t v = 0;
    memcpy(&v, c->base + c->at, n);
    c->at += n;
    return v;
}

/* Seven bits a byte, the lowest first. *shift: behind the last of them; *last: the byte itself. */
static uint64_t leb128(struct hw_cfi_cursor *c, unsigned *shift, uint8_t *last)
{
    uint64_t v = 0;
    *shift = 0;
    do {
        *last = hw_cfi_u8(c);
        if (*shift < 64)
            v |= (uint64_t)(*last & 0x7f) << *shift;
        *shift += 7;
    } while (*last & 0x80);
    return v;
}

uint64_t hw_cfi_uleb(struct hw_cfi_cursor *c)
{
    unsigned shift;
    uint8_t last;
    return leb128(c, &shift, &last);
}

int64_t hw_cfi_sleb(struct hw_cfi_cursor *c)
{
    unsigned shift;
    uint8_t last;
    uint64_t v = leb128(c, &shift, &last);
    if (last & 0x40 && shift < 64)
        v |= ~0ull << shift;
    return (int64_t)v;
}

uint64_t hw_cfi_pointer(struct hw_cfi_cursor *c, uint8_t encoding, uint64_t section_va)
{
    uint64_t here = section_va + c->at, v;
    switch (encoding & 0x0f) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        v = hw_cfi_fixed(c, 8);
        break;
    case PE_ULEB128:
        v = hw_cfi_uleb(c);
        break;
    case PE_SLEB128:
        v = (uint64_t)hw_cfi_sleb(c);
        break;
    case PE_UDATA2:
        v = hw_cfi_fixed(c, 2);
        break;
    case PE_SDATA2:
        v = (uint64_t)(int16_t)hw_cfi_fixed(c, 2);
        break;
    case PE_UDATA4:
        v = hw_cfi_fixed(c, 4);
        break;
    case PE_SDATA4:
        v = (uint64_t)(int32_t)hw_cfi_fixed(c, 4);
        break;
    default:
        c->bad = true;
        return 0;
    }
    if ((encoding & 0xf0) == PE_PCREL)
        return v ? v + here : 0;
    if (encoding & 0xf0) /* relative to data or text, or indirect: not for code addresses */
        c->bad = true;
    return v;
}

/* ---- CIE ---- */

static size_t address_bytes_of(const struct hw_cfi_section *s)
{
    return s->code->elf_class / 8;
}

/* "As wide as an address" by its true width. */
static uint8_t sized(const struct hw_cfi_section *s, uint8_t encoding)
{
    if ((encoding & 0x0f) != PE_ABSPTR || address_bytes_of(s) == 8 || encoding == PE_OMIT)
        return encoding;
    return encoding | (encoding & PE_PCREL ? PE_SDATA4 : PE_UDATA4);
}

/* After the augmentation's own length: one value per letter, in order. */
static void read_augmentation(const struct hw_cfi_section *s, struct hw_cfi_cursor *c,
                              const char *letters, struct hw_cfi_cie *cie)
{
    for (const char *l = letters; *l; l++) {
        switch (*l) {
        case 'R':
            cie->fde_encoding = sized(s, hw_cfi_u8(c));
            break;
        case 'P': {
            uint8_t enc = sized(s, hw_cfi_u8(c));
            if (enc != PE_OMIT) /* where the personality is does not matter, its length does */
                (void)hw_cfi_pointer(c, enc & 0x0f, s->va);
            break;
        }
        case 'L':
            (void)hw_cfi_u8(c);
            break;
        case 'S':
            cie->is_signal = true;
            break;
        case 'B': /* key B signs return addresses */
        case 'G': /* tagged frames */
            break;
        default: /* unknown letters: what follows cannot be read, R may have been missed */
            return;
        }
    }
}

static bool read_cie(const struct hw_cfi_section *s, struct hw_cfi_cursor c, struct hw_cfi_cie *cie)
{
    uint8_t version = hw_cfi_u8(&c);
    if (version != 1 && version != 3 && version != 4)
        return false;
    char letters[16];
    size_t n = 0;
    for (char ch; (ch = (char)hw_cfi_u8(&c)) != 0 && n < sizeof letters - 1;)
        letters[n++] = ch;
    letters[n] = 0;
    if (strcmp(letters, "eh") == 0) {
        (void)hw_cfi_fixed(&c, address_bytes_of(s));
        letters[0] = 0;
    }
    if (version == 4) {
        uint8_t address_bytes = hw_cfi_u8(&c), segment_bytes = hw_cfi_u8(&c);
        if (address_bytes != address_bytes_of(s) || segment_bytes)
            return false;
    }
    cie->code_align = hw_cfi_uleb(&c);
    cie->data_align = hw_cfi_sleb(&c);
    cie->ra_reg = version == 1 ? hw_cfi_u8(&c) : hw_cfi_uleb(&c);
    cie->fde_encoding = sized(s, PE_ABSPTR);
    if (letters[0] == 'z') {
        uint64_t n_aug = hw_cfi_uleb(&c);
        if (c.bad || n_aug > c.end - c.at)
            return false;
        struct hw_cfi_cursor aug = c;
        aug.end = c.at + (size_t)n_aug;
        read_augmentation(s, &aug, letters + 1, cie);
        if (aug.bad)
            return false;
        c.at += (size_t)n_aug;
        cie->has_aug_data = true;
    } else if (letters[0]) {
        return false;
    }
    cie->insns = (uint32_t)c.at;
    cie->n_insns = (uint32_t)(c.end - c.at);
    return !c.bad;
}

/* ---- walking the section ---- */

struct record {
    size_t at;    /* of the length field */
    size_t id_at; /* of the CIE pointer */
    size_t body, end;
    uint64_t id;
    bool is_cie;
};

/* 1 = a record, 0 = the end. */
static int next_record(const struct hw_cfi_section *s, size_t *pos, struct record *rec,
                       struct hw_error *err)
{
    struct hw_cfi_cursor c = {s->bytes.p, *pos, s->bytes.n, false};
    uint64_t n;
    do {
        rec->at = c.at;
        if (s->bytes.n - c.at < 4)
            return 0;
        n = hw_cfi_fixed(&c, 4);
        if (n == 0 && s->ends_at_zero)
            return 0;
    } while (n == 0); /* terminators of the input files that the linker left */
    bool is_64 = n == UINT32_MAX;
    if (is_64)
        n = hw_cfi_fixed(&c, 8);
    if (c.bad || n > c.end - c.at)
        return hw_fail(err, HW_EFORMAT, rec->at, "frame record reaches beyond its section");
    rec->id_at = c.at;
    rec->end = c.at + (size_t)n;
    c.end = rec->end;
    size_t id_bytes = is_64 && !s->is_eh ? 8 : 4;
    rec->id = hw_cfi_fixed(&c, id_bytes);
    if (c.bad)
        return hw_fail(err, HW_EFORMAT, rec->at, "frame record is too short");
    rec->body = c.at;
    rec->is_cie = s->is_eh ? rec->id == 0 : rec->id == (id_bytes == 8 ? UINT64_MAX : UINT32_MAX);
    *pos = rec->end;
    return 1;
}

struct adding {
    struct hw_cfi_records *r;
    const struct hw_cfi_section *s;
    struct hw_map64 by_offset; /* CIE offset -> index in r->cies */
    uint64_t last_offset;
    uint32_t last_index;
    uint16_t source;
};

/* The CIE at an offset, parsed at its first use. Unusable ones are kept, so they fail once. */
static int get_cie(struct adding *a, uint64_t offset, uint32_t *index, struct hw_error *err)
{
    if (offset == a->last_offset) {
        *index = a->last_index;
        return HW_OK;
    }
    uint64_t known;
    if (hw_map64_get(&a->by_offset, offset, &known)) {
        *index = (uint32_t)known;
    } else {
        struct hw_cfi_cie cie = {0};
        struct record rec;
        size_t pos = (size_t)offset;
        if (a->r->cies.n >= MAX_CIES)
            return hw_fail(err, HW_ELIMIT, offset, "more than %d common frame records", MAX_CIES);
        /* No record begins with a zero; searching for the next one after it would make every
         * wrong offset into a run of zeros as expensive as the run is long. */
        struct hw_cfi_cursor head = {a->s->bytes.p, pos, a->s->bytes.n, false};
        if (hw_cfi_fixed(&head, 4) != 0 && next_record(a->s, &pos, &rec, NULL) == 1 &&
            rec.at == offset && rec.is_cie) {
            struct hw_cfi_cursor c = {a->s->bytes.p, rec.body, rec.end, false};
            cie.usable = read_cie(a->s, c, &cie) && hw_cfi_run_initial(a->s, a->r->machine, &cie);
        }
        *index = (uint32_t)a->r->cies.n;
        if (hw_map64_put(&a->by_offset, offset, *index) < 0 || hw_vec_push(&a->r->cies, cie) < 0)
            return hw_fail(err, HW_ENOMEM, 0, "frame records");
    }
    a->last_offset = offset;
    a->last_index = *index;
    return HW_OK;
}

static int add_fde(struct adding *a, const struct record *rec, struct hw_error *err)
{
    uint64_t cie_at = a->s->is_eh ? rec->id_at - rec->id : rec->id;
    struct hw_cfi_fde fde = {.source = a->source};
    a->r->n_fdes++;
    if (cie_at >= a->s->bytes.n) { /* the difference may have wrapped */
        a->r->n_dropped++;
        return HW_OK;
    }
    int rc = get_cie(a, cie_at, &fde.cie, err);
    if (rc < 0)
        return rc;
    const struct hw_cfi_cie *cie = &a->r->cies.v[fde.cie];
    struct hw_cfi_cursor c = {a->s->bytes.p, rec->body, rec->end, false};
    uint64_t n_code = 0;
    if (cie->usable) {
        fde.start = hw_cfi_pointer(&c, cie->fde_encoding, a->s->va);
        n_code = hw_cfi_pointer(&c, cie->fde_encoding & 0x0f, 0);
        if (cie->has_aug_data) {
            uint64_t n_aug = hw_cfi_uleb(&c);
            if (n_aug > c.end - c.at)
                c.bad = true;
            else
                c.at += (size_t)n_aug;
        }
    }
    /* Linkers leave records of dropped functions behind, with address or length 0. */
    if (!cie->usable || c.bad || !fde.start || !n_code || fde.start + n_code < fde.start ||
        (fde.start + n_code) >> 47 || !hw_image_is_code(a->s->code, fde.start) ||
        !hw_image_is_code(a->s->code, fde.start + n_code - 1)) {
        a->r->n_dropped++;
        return HW_OK;
    }
    fde.end = fde.start + n_code;
    fde.insns = (uint32_t)c.at;
    fde.n_insns = (uint32_t)(c.end - c.at);
    if (a->r->fdes.n >= MAX_FDES)
        return hw_fail(err, HW_ELIMIT, rec->at, "more than %d frame records", MAX_FDES);
    return hw_vec_push(&a->r->fdes, fde) < 0 ? hw_fail(err, HW_ENOMEM, 0, "frame records") : HW_OK;
}

int hw_cfi_records_add(struct hw_cfi_records *r, const struct hw_cfi_section *s, uint16_t source,
                       struct hw_error *err)
{
    struct adding a = {.r = r, .s = s, .last_offset = UINT64_MAX, .source = source};
    struct record rec;
    size_t pos = 0;
    int rc;
    while ((rc = next_record(s, &pos, &rec, err)) == 1) {
        if (rec.is_cie)
            continue;
        rc = add_fde(&a, &rec, err);
        if (rc < 0)
            break;
    }
    hw_map64_done(&a.by_offset);
    return rc;
}

void hw_cfi_records_done(struct hw_cfi_records *r)
{
    hw_vec_done(&r->cies);
    hw_vec_done(&r->fdes);
}
