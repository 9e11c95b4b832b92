#ifndef TESTS_SUPPORT_DIRECTORY_H
#define TESTS_SUPPORT_DIRECTORY_H

/* A directory for the files of one test. */
struct directory {
  char path[32];
};

/* Makes an empty one below /tmp; removes it with the files in it. Both fail the test when they can
   not. */
void directory_init(struct directory *self);
void directory_release(struct directory *self);

#endif
