#ifndef TESTS_SUPPORT_GATE_H
#define TESTS_SUPPORT_GATE_H

/*
 * Where a script waits until the test lets it go on: a FIFO, whose opening for reading returns when
 * somebody has opened it for writing. To look for a file again and again takes a process each time,
 * and all of a small machine.
 */

/* Waits in a script, whose word for the path this is. The script must not catch signals meanwhile:
   what a shell does then is not defined. */
#define GATE(path) "mkfifo " path " 2>/dev/null; : <" path "; "

/* Opens it to all that wait, and to those that come, until this process ends or closes it. */
void gate_open(const char *path);
void gate_close_all(void);

#endif
