/*
 * rows.c - see rows.h
 *
 * Expressions are not evaluated: compilers, assemblers' PLT templates and hand-written code use
 * four shapes, which are matched byte by byte; all others are UNSUP (below 0.1 % of rows in
 * ordinary libraries).
 *
 *   PLT       breg sp 8; breg pc 0; lit15; and; litN; ge; lit3; shl; plus
 *   FP_DEREF  breg fp N; deref                    functions that realign their stack
 *   SP_DEREF  breg sp N; deref [; plus_uconst M]  hand-written crypto code
 *   SIGNAL    augmentation S with an expression   the kernel's signal frame
 */
#include "cfi/rows.h"

#include <elf.h>

#include "base/error.h"
#include "cfi/cie_fde.h"

#include "base/banned.h"

enum {
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_ADVANCE_LOC8 = 0x1d,
    CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
    CFA_AARCH64_NEGATE_RA_STATE = 0x2d, /* GNU_window_save elsewhere */
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,

    OP_DEREF = 0x06,
    OP_AND = 0x1a,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_BREG0 = 0x70,

    MAX_REMEMBERED = 32
};

struct machine_regs {
    uint8_t sp, fp, ra;
    uint8_t word; /* bytes: what offsets in rules are counted in */
};

static struct machine_regs regs_of(uint32_t machine)
{
    if (machine == EM_AARCH64)
        return (struct machine_regs){31, 29, 30, 8};
    return machine == EM_386 ? (struct machine_regs){4, 5, 8, 4}
                             : (struct machine_regs){7, 6, 16, 8};
}

/* ---- projection ---- */

static const struct hw_rule unsup = {.kind = HW_RULE_UNSUP};

static struct hw_cfi_cursor expr_cursor(const struct hw_cfi_section *s, uint32_t at, uint32_t n)
{
    return (struct hw_cfi_cursor){s->bytes.p, at, at + n, false};
}

static bool fits_i16(int64_t off, int64_t word)
{
    return off % word == 0 && off / word >= INT16_MIN && off / word <= INT16_MAX;
}

static bool expr_ends(const struct hw_cfi_cursor *c)
{
    return !c->bad && c->at == c->end;
}

/* litN of the PLT expression, -1 when it is another one. */
static int plt_threshold(struct hw_cfi_cursor c, struct machine_regs regs)
{
    const uint8_t head[] = {OP_BREG0 + regs.sp, regs.word, OP_BREG0 + regs.ra, 0,
                            OP_LIT0 + 15,       OP_AND};
    const uint8_t rest[] = {OP_GE, OP_LIT0 + (regs.word == 8 ? 3 : 2), OP_SHL, OP_PLUS};
    for (size_t i = 0; i < sizeof head; i++)
        if (hw_cfi_u8(&c) != head[i])
            return -1;
    int lit = hw_cfi_u8(&c) - OP_LIT0;
    for (size_t i = 0; i < sizeof rest; i++)
        if (hw_cfi_u8(&c) != rest[i])
            return -1;
    return expr_ends(&c) && lit >= 0 && lit < 16 ? lit : -1;
}

static struct hw_rule cfa_from_expr(const struct hw_cfi_section *s, uint32_t machine,
                                    const struct hw_cfi_state *st)
{
    struct machine_regs regs = regs_of(machine);
    struct hw_cfi_cursor c = expr_cursor(s, st->cfa_expr, st->n_cfa_expr);
    int lit = machine != EM_AARCH64 ? plt_threshold(c, regs) : -1;
    if (lit >= 0)
        return (struct hw_rule){.kind = HW_RULE_PLT, .cfa_off = (uint16_t)lit};
    uint8_t op = hw_cfi_u8(&c);
    int64_t off = hw_cfi_sleb(&c);
    int64_t word = regs.word;
    if (hw_cfi_u8(&c) != OP_DEREF || off % word)
        return unsup;
    if (op == OP_BREG0 + regs.fp && expr_ends(&c) && fits_i16(off, word))
        return (struct hw_rule){.kind = HW_RULE_FP_DEREF, .cfa_off = (uint16_t)(off / word)};
    if (op != OP_BREG0 + regs.sp || off < 0 || off / word > 0xfff)
        return unsup;
    uint64_t plus = 0;
    if (!expr_ends(&c)) {
        if (hw_cfi_u8(&c) != OP_PLUS_UCONST)
            return unsup;
        plus = hw_cfi_uleb(&c);
    }
    if (!expr_ends(&c) || plus % regs.word || plus / regs.word > 0xf)
        return unsup;
    return (struct hw_rule){.kind = HW_RULE_SP_DEREF,
                            .cfa_off = (uint16_t)((uint64_t)(off / word) | plus / regs.word << 12)};
}

static struct hw_rule cfa_rule(const struct hw_cfi_section *s, uint32_t machine,
                               const struct hw_cfi_state *st)
{
    struct machine_regs regs = regs_of(machine);
    if (st->n_cfa_expr)
        return cfa_from_expr(s, machine, st);
    if (st->cfa_reg != regs.sp && st->cfa_reg != regs.fp)
        return (struct hw_rule){.kind = HW_RULE_REG};
    if (st->cfa_off < 0 || st->cfa_off % regs.word || st->cfa_off / regs.word > UINT16_MAX)
        return unsup;
    return (struct hw_rule){.kind = st->cfa_reg == regs.sp ? HW_RULE_SP : HW_RULE_FP,
                            .cfa_off = (uint16_t)(st->cfa_off / regs.word)};
}

static void project_fp(const struct hw_cfi_section *s, uint32_t machine,
                       const struct hw_cfi_reg *fp, struct hw_rule *r)
{
    struct machine_regs regs = regs_of(machine);
    r->fp_kind = HW_RULE_FP_UNSUP;
    if (fp->how == HW_CFI_SAME) {
        r->fp_kind = HW_RULE_FP_SAME;
    } else if (fp->how == HW_CFI_AT_CFA && fits_i16(fp->off, regs.word)) {
        r->fp_kind = HW_RULE_FP_AT_CFA;
        r->fp_off = (int16_t)(fp->off / regs.word);
    } else if (fp->how == HW_CFI_EXPR) {
        struct hw_cfi_cursor c = expr_cursor(s, fp->expr, fp->n_expr);
        uint8_t op = hw_cfi_u8(&c);
        int64_t off = hw_cfi_sleb(&c);
        if (op == OP_BREG0 + regs.fp && expr_ends(&c) && fits_i16(off, regs.word)) {
            r->fp_kind = HW_RULE_FP_AT_FP;
            r->fp_off = (int16_t)(off / regs.word);
        }
    }
}

static uint64_t project(const struct hw_cfi_section *s, uint32_t machine,
                        const struct hw_cfi_cie *cie, const struct hw_cfi_state *st)
{
    /*
     * The mark alone does not make it the kernel's frame on x86: hand-written code uses it to have
     * its addresses looked up as they are, with an ordinary CFA. On i386, which has two frames, the
     * expression shows where the saved sp is.
     */
    struct machine_regs regs = regs_of(machine);
    if (cie->is_signal && (machine == EM_AARCH64 || st->n_cfa_expr)) {
        uint16_t at = machine == EM_386 ? cfa_from_expr(s, machine, st).cfa_off : 0;
        return hw_rule_bits((struct hw_rule){.kind = HW_RULE_SIGNAL, .cfa_off = at});
    }
    if (st->ra.how == HW_CFI_UNDEFINED)
        return hw_rule_bits((struct hw_rule){.kind = HW_RULE_END});
    struct hw_rule r = cfa_rule(s, machine, st);
    if (r.kind == HW_RULE_REG || r.kind == HW_RULE_UNSUP)
        return hw_rule_bits(r);
    bool in_lr = machine == EM_AARCH64 && st->ra.how == HW_CFI_SAME;
    if (!in_lr && (st->ra.how != HW_CFI_AT_CFA || !fits_i16(st->ra.off, regs.word) || !st->ra.off))
        return hw_rule_bits(unsup);
    if (machine != EM_AARCH64 && st->ra.off != -regs.word)
        return hw_rule_bits(unsup);
    r.ra_off = in_lr ? 0 : (int16_t)(st->ra.off / regs.word);
    project_fp(s, machine, &st->fp, &r);
    return hw_rule_bits(r);
}

/* ---- instructions ---- */

struct run {
    const struct hw_cfi_section *s;
    const struct hw_cfi_cie *cie;
    struct machine_regs regs;
    uint32_t machine;
    struct hw_cfi_state st;
    struct hw_cfi_cursor c;
    uint64_t loc, end;
    hw_cfi_sink *sink; /* NULL while the CIE runs */
    void *arg;
    uint32_t n_remembered;
    bool changed; /* since the last row */
    struct hw_cfi_state remembered[MAX_REMEMBERED];
};

/* The register's slot, or a place whose content nobody reads. */
static struct hw_cfi_reg *reg_slot(struct run *r, uint64_t reg, struct hw_cfi_reg *ignored)
{
    if (reg == r->cie->ra_reg) {
        r->changed = true;
        return &r->st.ra;
    }
    if (reg == r->regs.fp) {
        r->changed = true;
        return &r->st.fp;
    }
    return ignored;
}

static void set_reg(struct run *r, uint64_t reg, enum hw_cfi_how how, int64_t off)
{
    struct hw_cfi_reg ignored;
    *reg_slot(r, reg, &ignored) = (struct hw_cfi_reg){.how = how, .off = off, .mentioned = true};
}

static void restore_reg(struct run *r, uint64_t reg)
{
    struct hw_cfi_reg ignored;
    struct hw_cfi_reg *slot = reg_slot(r, reg, &ignored);
    *slot = slot == &r->st.ra ? r->cie->initial.ra : r->cie->initial.fp;
}

/* A block operand: its place in the section. */
static uint32_t take_block(struct run *r, uint32_t *n)
{
    uint64_t len = hw_cfi_uleb(&r->c);
    uint32_t at = (uint32_t)r->c.at;
    *n = 0;
    if (r->c.bad || len > r->c.end - r->c.at) {
        r->c.bad = true;
        return at;
    }
    *n = (uint32_t)len;
    r->c.at += (size_t)len;
    return at;
}

/* The state holds for [loc, to). false: the function ends before, or the sink failed. */
static bool advance(struct run *r, uint64_t to, int *rc)
{
    if (to < r->loc)
        r->c.bad = true;
    if (r->c.bad || to == r->loc)
        return !r->c.bad;
    if (r->changed && r->sink) {
        *rc = r->sink(r->arg, r->loc, project(r->s, r->machine, r->cie, &r->st));
        r->changed = false;
    }
    r->loc = to;
    return *rc == HW_OK && to < r->end;
}

static bool advance_by(struct run *r, uint64_t delta, int *rc)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(delta, r->cie->code_align, &bytes) || bytes > r->end - r->loc)
        bytes = r->end - r->loc;
    return advance(r, r->loc + bytes, rc);
}

static int64_t factored(const struct run *r, int64_t off)
{
    int64_t v;
    return __builtin_mul_overflow(off, r->cie->data_align, &v) ? INT64_MAX : v;
}

static void def_cfa(struct run *r, uint64_t reg, int64_t off)
{
    r->st.cfa_reg = reg;
    r->st.cfa_off = off;
    r->st.n_cfa_expr = 0;
    r->changed = true;
}

/* Everything but advances and the three packed forms. false: stop here. */
static bool run_extended(struct run *r, uint8_t op, int *rc)
{
    struct hw_cfi_cursor *c = &r->c;
    struct hw_cfi_reg ignored;
    uint64_t reg;
    switch (op) {
    case 0:
        return true;
    case CFA_SET_LOC:
        return advance(r, hw_cfi_pointer(c, r->cie->fde_encoding, r->s->va), rc);
    case CFA_ADVANCE_LOC1:
        return advance_by(r, hw_cfi_u8(c), rc);
    case CFA_ADVANCE_LOC2:
        return advance_by(r, hw_cfi_fixed(c, 2), rc);
    case CFA_ADVANCE_LOC4:
        return advance_by(r, hw_cfi_fixed(c, 4), rc);
    case CFA_ADVANCE_LOC8:
        return advance_by(r, hw_cfi_fixed(c, 8), rc);
    case CFA_OFFSET_EXTENDED:
        reg = hw_cfi_uleb(c);
        set_reg(r, reg, HW_CFI_AT_CFA, factored(r, (int64_t)hw_cfi_uleb(c)));
        break;
    case CFA_OFFSET_EXTENDED_SF:
        reg = hw_cfi_uleb(c);
        set_reg(r, reg, HW_CFI_AT_CFA, factored(r, hw_cfi_sleb(c)));
        break;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        reg = hw_cfi_uleb(c);
        set_reg(r, reg, HW_CFI_AT_CFA, factored(r, (int64_t)(0 - hw_cfi_uleb(c))));
        break;
    case CFA_RESTORE_EXTENDED:
        restore_reg(r, hw_cfi_uleb(c));
        break;
    case CFA_UNDEFINED:
        set_reg(r, hw_cfi_uleb(c), HW_CFI_UNDEFINED, 0);
        break;
    case CFA_SAME_VALUE:
        set_reg(r, hw_cfi_uleb(c), HW_CFI_SAME, 0);
        break;
    case CFA_REGISTER:
        reg = hw_cfi_uleb(c);
        (void)hw_cfi_uleb(c);
        set_reg(r, reg, HW_CFI_OTHER, 0);
        break;
    case CFA_VAL_OFFSET:
        reg = hw_cfi_uleb(c);
        (void)hw_cfi_uleb(c);
        set_reg(r, reg, HW_CFI_OTHER, 0);
        break;
    case CFA_VAL_OFFSET_SF:
        reg = hw_cfi_uleb(c);
        (void)hw_cfi_sleb(c);
        set_reg(r, reg, HW_CFI_OTHER, 0);
        break;
    case CFA_VAL_EXPRESSION:
        set_reg(r, hw_cfi_uleb(c), HW_CFI_OTHER, 0);
        (void)take_block(r, &ignored.n_expr);
        break;
    case CFA_EXPRESSION: {
        struct hw_cfi_reg *slot = reg_slot(r, hw_cfi_uleb(c), &ignored);
        *slot = (struct hw_cfi_reg){.how = HW_CFI_EXPR, .mentioned = true};
        slot->expr = take_block(r, &slot->n_expr);
        break;
    }
    case CFA_REMEMBER_STATE:
        if (r->n_remembered == MAX_REMEMBERED)
            return false;
        r->remembered[r->n_remembered++] = r->st;
        break;
    case CFA_RESTORE_STATE:
        if (!r->n_remembered)
            return false;
        r->st = r->remembered[--r->n_remembered];
        r->changed = true;
        break;
    case CFA_DEF_CFA:
        reg = hw_cfi_uleb(c);
        def_cfa(r, reg, (int64_t)hw_cfi_uleb(c));
        break;
    case CFA_DEF_CFA_SF:
        reg = hw_cfi_uleb(c);
        def_cfa(r, reg, factored(r, hw_cfi_sleb(c)));
        break;
    case CFA_DEF_CFA_REGISTER:
        def_cfa(r, hw_cfi_uleb(c), r->st.cfa_off);
        break;
    case CFA_DEF_CFA_OFFSET:
        def_cfa(r, r->st.cfa_reg, (int64_t)hw_cfi_uleb(c));
        break;
    case CFA_DEF_CFA_OFFSET_SF:
        def_cfa(r, r->st.cfa_reg, factored(r, hw_cfi_sleb(c)));
        break;
    case CFA_DEF_CFA_EXPRESSION:
        r->st.cfa_expr = take_block(r, &r->st.n_cfa_expr);
        r->st.cfa_reg = UINT64_MAX; /* an empty block is not a register either */
        r->changed = true;
        break;
    case CFA_GNU_ARGS_SIZE:
        (void)hw_cfi_uleb(c);
        break;
    case CFA_AARCH64_NEGATE_RA_STATE:
    case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
        if (r->machine != EM_AARCH64)
            return false;
        break; /* signatures are always stripped */
    default:
        return false;
    }
    return !c->bad;
}

/* false: an instruction that cannot be understood; the state before it was emitted. */
static bool run(struct run *r, int *rc)
{
    while (r->c.at < r->c.end) {
        uint8_t op = hw_cfi_u8(&r->c);
        uint64_t low = op & 0x3f;
        bool go_on;
        switch (op & 0xc0) {
        case 0x40:
            go_on = advance_by(r, low, rc);
            break;
        case 0x80:
            set_reg(r, low, HW_CFI_AT_CFA, factored(r, (int64_t)hw_cfi_uleb(&r->c)));
            go_on = !r->c.bad;
            break;
        case 0xc0:
            restore_reg(r, low);
            go_on = true;
            break;
        default:
            go_on = run_extended(r, op, rc);
            break;
        }
        if (!go_on)
            return *rc == HW_OK && !r->c.bad && r->loc >= r->end;
    }
    return true;
}

static void run_start(struct run *r, const struct hw_cfi_section *s, uint32_t machine,
                      const struct hw_cfi_cie *cie)
{
    r->s = s;
    r->cie = cie;
    r->machine = machine;
    r->regs = regs_of(machine);
    r->n_remembered = 0;
    r->changed = true;
    r->st = cie->initial;
}

bool hw_cfi_run_initial(const struct hw_cfi_section *s, uint32_t machine, struct hw_cfi_cie *cie)
{
    struct run r;
    int rc = HW_OK;
    cie->initial = (struct hw_cfi_state){.cfa_reg = UINT64_MAX};
    run_start(&r, s, machine, cie);
    r.c = (struct hw_cfi_cursor){s->bytes.p, cie->insns, cie->insns + cie->n_insns, false};
    r.loc = 0;
    r.end = UINT64_MAX;
    r.sink = NULL;
    bool ok = run(&r, &rc);
    cie->initial = r.st;
    return ok;
}

int hw_cfi_run_fde(const struct hw_cfi_section *s, uint32_t machine, const struct hw_cfi_cie *cie,
                   const struct hw_cfi_fde *fde, hw_cfi_sink *sink, void *arg)
{
    struct run r;
    int rc = HW_OK;
    run_start(&r, s, machine, cie);
    r.c = (struct hw_cfi_cursor){s->bytes.p, fde->insns, fde->insns + fde->n_insns, false};
    r.loc = fde->start;
    r.end = fde->end;
    r.sink = sink;
    r.arg = arg;
    bool ok = run(&r, &rc);
    if (rc < 0 || r.loc >= r.end)
        return rc;
    if (!ok)
        return sink(arg, r.loc, hw_rule_bits(unsup));
    return r.changed ? sink(arg, r.loc, project(s, machine, cie, &r.st)) : HW_OK;
}
