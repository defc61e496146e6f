/* Has what a CPython of 3.9 is known by, and an interpreter that the compiler splits. */
#include <stdint.h>

int _PyRuntime[64] = {1};
int PyCode_Type[100] = {1};
#ifdef FREE_THREADED
const uint64_t Py_Version = 0x030d00f0;
void _Py_MergeZeroLocalRefcount(void);
void _Py_MergeZeroLocalRefcount(void)
{
}
#endif
void PyCode_NewWithPosOnlyArgs(void);
void PyFrame_GetCode(void);
int _PyEval_EvalFrameDefault(const int *code, int n);
__attribute__((cold, noinline)) int slow(int at, int with);
__attribute__((cold, noinline)) int slow(int at, int with)
{
    return PyCode_Type[at] += with;
}

void PyCode_NewWithPosOnlyArgs(void)
{
}

void PyFrame_GetCode(void)
{
}

#define OP(i)                                                                                      \
    case i:                                                                                        \
        v += v * (i + 3) ^ code[k + 1];                                                            \
        if (__builtin_expect(v == i * 77, 0)) {                                                    \
            v += slow(i, v);                                                                       \
            PyCode_Type[i + 1] = v;                                                                \
        }                                                                                          \
        break;

int _PyEval_EvalFrameDefault(const int *code, int n)
{
    int v = 1;
    for (int k = 0; k + 1 < n; k++)
        switch (code[k]) {
            OP(0)
            OP(1)
            OP(2)
            OP(3)
            OP(4)
            OP(5)
            OP(6)
            OP(7)
            OP(8)
            OP(9)
            OP(10)
            OP(11)
            OP(12)
            OP(13)
        }
    return v;
}
