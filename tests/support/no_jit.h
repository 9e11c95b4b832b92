#ifndef TESTS_SUPPORT_NO_JIT_H
#define TESTS_SUPPORT_NO_JIT_H

/* Runs a test in a child to which the kernel gives no executable memory. It says by its result,
   which must be 0, whether it has passed: an assertion of its own would not be seen. */
void no_jit_run(int (*test)(void));

#endif
