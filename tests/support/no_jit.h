#ifndef TESTS_SUPPORT_NO_JIT_H
#define TESTS_SUPPORT_NO_JIT_H

/* Runs a test in a child process that gets no executable memory. The test must return 0; its
   assertions would not be seen. */
void no_jit_run(int (*test)(void));

#endif
