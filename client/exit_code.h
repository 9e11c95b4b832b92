#ifndef CLIENT_EXIT_CODE_H
#define CLIENT_EXIT_CODE_H

/* What `sandbox` exits with, beside a command's own code and 128 + N of one that signal N has
   ended: as timeout(1), env(1) and docker-run(1). */
#define EXIT_FOUND 1 /* doctor has found something */
#define EXIT_USAGE 64
#define EXIT_TIMED_OUT 124
#define EXIT_CLIENT 125 /* the client's own failure; refused, interrupted, lost, no agent */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define EXIT_CANCELLED 130

#endif
