/* inject_child.c CALL IN OUT - the child of inject_test.c as a program of its own, linked
 * statically */
#include "inject_child.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    child((enum call)strtol(argv[1], NULL, 10), (int)strtol(argv[2], NULL, 10),
          (int)strtol(argv[3], NULL, 10));
}
