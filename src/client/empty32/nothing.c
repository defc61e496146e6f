/* nothing.c - the library for 32-bit programs where none was built: see ../meson.build */
extern int nothing; /* no file is empty in C */
