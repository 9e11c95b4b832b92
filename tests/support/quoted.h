#ifndef TESTS_SUPPORT_QUOTED_H
#define TESTS_SUPPORT_QUOTED_H

/*
 * JSON in C without backslashes: quoted("{'line':'it`s'}") is {"line":"it's"}. A ' becomes a ", and
 * a ` becomes a '. Valid until 32 more were asked for.
 */
const char *quoted(const char *text);

/* The same in place. */
void quoted_in_place(char *text);

#endif
