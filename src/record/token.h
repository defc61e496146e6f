/*
 * token.h - the secret that a server of ours asks for
 *
 * Shapes:  48 hex digits at random, or what a file holds: 32 to 128 letters, digits, `-` and `_` on
 *          its first line. A file that is missing is made, readable for its owner only; one that
 *          others can read is refused.
 * Errors:  HW_ESYS, HW_EINVAL, HW_EPERM.
 */
#ifndef HW_RECORD_TOKEN_H
#define HW_RECORD_TOKEN_H

struct hw_error;

enum { HW_TOKEN_MAX = 129 };
/* What may stand in one: what an address carries as it is. The page's pattern (ui/src/app/token.ts) is
 * the same set; a browser test opens the page by a token of all of them. */
#define HW_TOKEN_CHARS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"

int hw_token_make(char out[HW_TOKEN_MAX], struct hw_error *err);
int hw_token_keep(const char *path, char out[HW_TOKEN_MAX], struct hw_error *err);

#endif
