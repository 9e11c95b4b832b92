#pragma once

#include <signal.h>

/* SIGINT, SIGQUIT, SIGTERM and SIGHUP end the client. `follow` and `top` leave at once; a command
   that waits for a step reads them as events (step_watch.h). A signal that was ignored at startup
   stays ignored: nohup(1) ignores SIGHUP, and a script ignores SIGINT and SIGQUIT for a command
   that it starts with "&". */

/* From now on, each of these signals calls this handler, also while a write blocks. */
void signals_handle(void (*leave)(int signal));

/* From now on, these signals do not interrupt the program. Returns a signalfd(2) that reports them;
   `before` gets the mask to restore. */
int signals_catch(sigset_t *before);

/* After a key such as Ctrl-C, the shell's prompt must begin on a new line. Async-signal-safe. */
void signals_end_key_line(int signal);
