#ifndef TESTS_SUPPORT_MARKS_H
#define TESTS_SUPPORT_MARKS_H

/* Files by which a step and its test talk: a step leaves a line each time it runs, and waits for a
   gate to open. */

/* Lines in the file; 0 when there is none. */
int marks_count(const char *path);

/* Makes the file; fails the test when it cannot. */
void marks_open_gate(const char *path);

#endif
