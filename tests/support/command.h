#pragma once

#include "tests/test.h"

/* Compiles tests/integration/<name>_command.c to `path`, with these additional compiler flags.
   Fails the test if the compiler fails. */
void command_build(const char *name, const char *flags, const char *path);

/* Before the first test of the program, compiles the command of this name; every user may execute
   it. After the last test, removes it with everything in its directory. */
#define COMMAND_GROUP(NAME)                                                                        \
  static int build_command(void **state) {                                                         \
    (void)state;                                                                                   \
    command_begin_group();                                                                         \
    command_build(NAME, "", command_path(NAME));                                                   \
    return 0;                                                                                      \
  }                                                                                                \
  TEST_GROUP(build_command, command_end_group)

void command_begin_group(void);
int command_end_group(void **state);

/* The path of a file in the group's directory; valid until eight more were requested. */
const char *command_path(const char *name);
