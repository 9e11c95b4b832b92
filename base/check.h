#pragma once

/* Checks an invariant of this program in every build, the shipped one too. A failure is a bug here,
   never an error of a user, a file or a peer: it is reported on stderr, and the program aborts. Use
   static_assert for what the compiler can know. */
#define CHECK(expression)                                                                          \
  (__builtin_expect(!(expression), 0) ? check_failed(__FILE__, __LINE__, #expression) : (void)0)

void check_failed(const char *file, int line, const char *expression)
    __attribute__((noreturn, cold));
