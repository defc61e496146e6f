/*
 * x86.c - one table a map of opcodes, a letter an opcode:
 *
 *      .  nothing after the opcode       M  a ModRM byte (and what it asks for)
 *      b  one byte at once                N  ModRM and one byte at once
 *      z  two or four bytes               Z  ModRM and two or four bytes
 *      w  two bytes                       e  enter: three bytes
 *      v  four bytes, two or eight        o  an address of eight bytes, or four
 *      j  relative, one byte              J  relative, four bytes
 *      3  F6 and F7: as M, or with an operand at once when reg is 0 or 1
 *      x  not an instruction here (prefixes and escapes are taken before)
 *
 * Source: the opcode maps of the processors' manuals; compared with objdump in tests/unit/inject.
 */
#include "inject/remote/x86.h"

#include <stdbool.h>

static const char one_byte[256 + 1] = "MMMMbzxxMMMMbzxx" /* 00 */
                                      "MMMMbzxxMMMMbzxx"
                                      "MMMMbzxxMMMMbzxx"
                                      "MMMMbzxxMMMMbzxx"
                                      "xxxxxxxxxxxxxxxx" /* 40: REX */
                                      "................"
                                      "xxxMxxxxzZbN...." /* 60 */
                                      "jjjjjjjjjjjjjjjj"
                                      "NZxNMMMMMMMMMMMM" /* 80 */
                                      "..........x....."
                                      "oooo....bz......" /* a0 */
                                      "bbbbbbbbvvvvvvvv"
                                      "NNw.xxNZe.w..bx." /* c0 */
                                      "MMMMxxx.MMMMMMMM"
                                      "jjjjbbbbJJxj...." /* e0 */
                                      "x.xx..33......MM";

static const char two_bytes[256 + 1] = "MMMMx.....x.xM.N" /* 0f 00 */
                                       "MMMMMMMMMMMMMMMM"
                                       "MMMMxxxxMMMMMMMM"
                                       "........xxxxxxxx"
                                       "MMMMMMMMMMMMMMMM" /* 0f 40 */
                                       "MMMMMMMMMMMMMMMM"
                                       "MMMMMMMMMMMMMMMM"
                                       "NNNNMMM.MMxxMMMM"
                                       "JJJJJJJJJJJJJJJJ" /* 0f 80 */
                                       "MMMMMMMMMMMMMMMM"
                                       "...MNMxx...MNMMM"
                                       "MMMMMMMMMMNMMMMM"
                                       "MMNMNNNM........" /* 0f c0 */
                                       "MMMMMMMMMMMMMMMM"
                                       "MMMMMMMMMMMMMMMM"
                                       "MMMMMMMMMMMMMMMM";

struct reader {
    const uint8_t *p;
    size_t n, at; /* at > n: it ends too early */
    bool narrow, short_address, wide;
};

static uint8_t next(struct reader *r)
{
    if (r->at < r->n)
        return r->p[r->at++];
    r->at = r->n + 1;
    return 0;
}

static void skip(struct reader *r, size_t n)
{
    r->at = r->n - r->at < n || r->at > r->n ? r->n + 1 : r->at + n;
}

static int32_t word_at(const struct reader *r, size_t at, unsigned bytes)
{
    uint32_t v = 0;
    if (at + bytes > r->n)
        return 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint32_t)r->p[at + i] << 8 * i;
    return bytes == 1 ? (int8_t)v : (int32_t)v;
}

/* Gives the ModRM byte. */
static uint8_t take_modrm(struct reader *r, struct hw_x86 *out)
{
    uint8_t m = next(r), mod = m >> 6, rm = m & 7;
    if (mod == 3)
        return m;
    if (rm == 4) {
        uint8_t sib = next(r);
        if (mod == 0 && (sib & 7) == 5)
            skip(r, 4);
    } else if (mod == 0 && rm == 5) {
        out->rip_disp_at = (uint8_t)r->at;
        out->rip_disp = word_at(r, r->at, 4);
        skip(r, 4);
    }
    if (mod == 1)
        skip(r, 1);
    else if (mod == 2)
        skip(r, 4);
    return m;
}

static void take_rel(struct reader *r, struct hw_x86 *out, unsigned bytes)
{
    out->rel_at = (uint8_t)r->at;
    out->rel_bytes = (uint8_t)bytes;
    out->rel = word_at(r, r->at, bytes);
    skip(r, bytes);
}

static bool take_operands(struct reader *r, char how, struct hw_x86 *out, uint8_t *modrm)
{
    unsigned z = r->narrow ? 2 : 4;
    switch (how) {
    case '.':
        return true;
    case 'b':
        skip(r, 1);
        return true;
    case 'w':
        skip(r, 2);
        return true;
    case 'e':
        skip(r, 3);
        return true;
    case 'z':
        skip(r, z);
        return true;
    case 'v':
        skip(r, r->wide ? 8 : z);
        return true;
    case 'o':
        skip(r, r->short_address ? 4 : 8);
        return true;
    case 'j':
        take_rel(r, out, 1);
        return true;
    case 'J':
        take_rel(r, out, 4);
        return true;
    case 'M':
    case 'N':
    case 'Z':
    case '3':
        *modrm = take_modrm(r, out);
        if (how == 'N')
            skip(r, 1);
        else if (how == 'Z')
            skip(r, z);
        else if (how == '3' && (*modrm >> 3 & 7) < 2)
            skip(r, out->opcode == 0xf6 ? 1 : z);
        return true;
    default:
        return false;
    }
}

static enum hw_x86_kind kind_of(uint8_t op, uint8_t modrm)
{
    unsigned reg = modrm >> 3 & 7;
    if ((op >= 0x70 && op <= 0x7f))
        return HW_X86_IF;
    switch (op) {
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
        return HW_X86_LOOP;
    case 0xe8:
        return HW_X86_CALL;
    case 0xe9:
    case 0xeb:
        return HW_X86_JUMP;
    case 0xc7:
        return modrm == 0xf8 ? HW_X86_BEGIN : HW_X86_PLAIN;
    case 0xff:
        return reg == 2 || reg == 3   ? HW_X86_CALL_AT
               : reg == 4 || reg == 5 ? HW_X86_JUMP_AT
                                      : HW_X86_PLAIN;
    case 0xc2:
    case 0xc3:
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4:
        return HW_X86_END;
    default:
        return HW_X86_PLAIN;
    }
}

/* 1 = the plain map's prefixes are behind us; REX must be the last of them. */
static uint8_t take_prefixes(struct reader *r)
{
    for (;;) {
        uint8_t c = next(r);
        switch (c) {
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
        case 0xf0:
        case 0xf2:
        case 0xf3:
            continue;
        case 0x66:
            r->narrow = true;
            continue;
        case 0x67:
            r->short_address = true;
            continue;
        default:
            break;
        }
        if ((c & 0xf0) != 0x40)
            return c;
        r->wide = c & 8;
        c = next(r);
        if ((c & 0xf0) != 0x40 && c != 0x66 && c != 0x67 && c != 0xf2 && c != 0xf3) {
            if (r->wide)
                r->narrow = false;
            return c;
        }
        r->at--; /* a REX prefix that is not the last one means nothing */
        r->wide = false;
    }
}

/* Gives how the operands follow, or 'x'. */
static char take_vex(struct reader *r, uint8_t first, struct hw_x86 *out)
{
    uint8_t map = 1, p = next(r);
    if (first == 0xc4) {
        map = p & 0x1f;
        (void)next(r);
    } else if (first == 0x62) {
        map = p & 7;
        skip(r, 2);
    }
    out->opcode = next(r);
    r->narrow = false;
    if (map == 3)
        return 'N';
    if (map == 2 || map == 5 || map == 6)
        return 'M';
    if (map != 1)
        return 'x';
    char how = two_bytes[out->opcode];
    return how == 'N' || (how == '.' && first != 0x62) ? how : 'M';
}

int hw_x86_decode(struct hw_bytes code, struct hw_x86 *out)
{
    struct reader r = {.p = code.p, .n = code.n < 15 ? code.n : 15};
    uint8_t modrm = 0, op = take_prefixes(&r);
    char how;
    bool plain = false;
    *out = (struct hw_x86){.opcode = op};
    if (op == 0xc4 || op == 0xc5 || op == 0x62) {
        how = take_vex(&r, op, out);
    } else if (op != 0x0f) {
        how = one_byte[op];
        plain = true;
    } else {
        out->opcode = op = next(&r);
        how = op == 0x38 ? 'M' : op == 0x3a ? 'N' : two_bytes[op];
        if (op == 0x38 || op == 0x3a)
            (void)next(&r);
        else if (op == 0x0b || op == 0xff || op == 0xb9)
            out->kind = HW_X86_END; /* ud2, ud0, ud1 */
        else if (op >= 0x80 && op <= 0x8f)
            out->kind = HW_X86_IF;
    }
    if (!take_operands(&r, how, out, &modrm) || r.at > r.n)
        return 0;
    if (plain && op == 0x8f && (modrm >> 3 & 7) != 0)
        return 0; /* XOP: processors of one maker, long ago */
    if (plain)
        out->kind = (uint8_t)kind_of(op, modrm);
    if (out->kind == HW_X86_BEGIN) {
        out->rel_at = (uint8_t)(r.at - 4);
        out->rel_bytes = 4;
        out->rel = word_at(&r, r.at - 4, 4);
    }
    out->bytes = (uint8_t)r.at;
    return out->bytes;
}
