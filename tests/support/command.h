#ifndef TESTS_SUPPORT_COMMAND_H
#define TESTS_SUPPORT_COMMAND_H

/* Compiles tests/integration/<name>_command.c, with these flags of the compiler besides, to `path`.
   Fails the test when it cannot. */
void command_build(const char *name, const char *flags, const char *path);

#endif
