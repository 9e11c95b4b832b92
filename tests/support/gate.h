#pragma once

/* A gate is a FIFO at which a script waits until the test opens it. A script that polled for a file
   would start a process each time, and use all of a small machine. */

/* The command of a script that waits at the gate `path`. The script must not catch signals
   meanwhile: the behavior of the shell would be undefined. */
#define GATE(path) "mkfifo " path " 2>/dev/null; : <" path "; "

/* Opens the gate for all that wait, and for those that come later, until this process ends or
   closes it. */
void gate_open(const char *path);
void gate_close_all(void);
