#pragma once

#include <getopt.h>

#include "client/program.h"

/* Parses the options that all commands share, which may stand before and after the command, and
   those of one command. Wrong usage is a message that names the word and the reason.

     optind = 0;
     while ((flag = options_next(program, argc, argv, "t:", flags)) >= 0) …
     if (flag == OPTIONS_STOP || !options_words(program, argc, argv, 1, 2, names))
       return COMMAND_USAGE;                                                              */
enum { OPTIONS_END = -1, OPTIONS_STOP = -2 };

/* Sets the defaults, which are in the environment. */
void options_begin(struct program *program);

/* Returns the next option of `letters` and `flags`, as getopt_long(3) does, and OPTIONS_STOP after
   wrong usage, --help or --version. Values of `flags` without a letter are upper case. */
int options_next(struct program *program, int argc, char **argv, const char *letters,
                 const struct option *flags);

/* Checks the number of words after the options; `names` has `max` of them. */
bool options_words(struct program *program, int argc, char **argv, int min, int max,
                   const char *const *names);

/* Checks the usage of a command without options and words. */
bool options_none(struct program *program, int argc, char **argv);

/* Writes "sandbox: COMMAND: …; sandbox COMMAND --help". Returns false. */
bool options_fail(struct program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
