#ifndef INJECT_TRIAL_H
#define INJECT_TRIAL_H

#include <stdbool.h>

/* Whether a user who may execute the open file, but not read it, can run it with --version: not
   under an emulator that has to read the file, nor on a volume whose server checks the rights of
   one host user for everybody. A root user tries it as nobody. Needs no /proc. */
bool trial_runs(int fd);

#endif
