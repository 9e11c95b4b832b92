#ifndef BASE_CHECK_H
#define BASE_CHECK_H

/*
 * An invariant of this program, checked in every build, the shipped one too. One that does not hold
 * is a bug here and never an error of a user, a file or a peer: it writes file, line and expression
 * to stderr and aborts.
 *
 *   CHECK(self->state == PREPARED);
 *
 * The expression is evaluated once and must have no effect. What the compiler can know is a
 * static_assert instead.
 */
#define CHECK(expression)                                                                          \
  (__builtin_expect(!(expression), 0) ? check_failed(__FILE__, __LINE__, #expression) : (void)0)

void check_failed(const char *file, int line, const char *expression)
    __attribute__((noreturn, cold));

#endif
