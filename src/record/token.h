/*
 * token.h - the secret token that our servers require
 *
 * Shapes:  48 random hex digits, or the first line of a file: 32 to 128 letters, digits, `-` and
 *          `_`. A missing file is created, readable only by its owner; one that others can read is
 *          refused.
 * Errors:  HW_ESYS, HW_EINVAL, HW_EPERM.
 */
#ifndef HW_RECORD_TOKEN_H
#define HW_RECORD_TOKEN_H

struct hw_error;

enum { HW_TOKEN_MAX = 129 };
/*
 * Allowed characters: those a URL carries unescaped. The page's pattern (ui/src/app/token.ts) is
 * the same set; a browser test opens the page with a token of all of them.
 */
#define HW_TOKEN_CHARS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"

int hw_token_make(char out[HW_TOKEN_MAX], struct hw_error *err);
int hw_token_keep(const char *path, char out[HW_TOKEN_MAX], struct hw_error *err);

#endif
