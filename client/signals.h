#pragma once

#include <signal.h>

/* SIGINT, SIGQUIT, SIGTERM and SIGHUP end the client. One that was ignored at startup stays
   ignored: nohup(1) ignores SIGHUP, and a script SIGINT and SIGQUIT for a command that it starts
   with "&". */

/* From now on each of them calls this handler, also while a write blocks. */
void signals_handle(void (*leave)(int signal));

/* From now on they do not interrupt the program. Returns a signalfd(2) that reports them; `before`
   is the mask to restore. */
int signals_catch(sigset_t *before);

/* After a key such as Ctrl-C, the shell's prompt must begin on a new line. Async-signal-safe. */
void signals_end_key_line(int signal);
